"""Sessions, retained messages and shares, deliberately broken: one function per planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from latecomer.core import events, fences, orders, retained, shares
from latecomer.core.effects import Drop, Effect, Persist
from latecomer.core.session import delivery, publishing, sessions, sharing, state, subacks, subscribing
from latecomer.messages.mqtt import Pubcomp, Publish

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[plant.__name__] = plant
    return plant


# -- publishing --------------------------------------------------------------------------------------------------------


@mutant
def answers_before_the_disk(patch: Patch) -> None:
    """PUBACK and PUBREC leave before what they promise is safe."""

    def finish(self: orders.Orders) -> list[Effect]:
        effects = right(self)
        return [e for e in effects if type(e) is not Persist] + [e for e in effects if type(e) is Persist]

    right = orders.Orders.finish
    patch.setattr(orders.Orders, "finish", finish)


@mutant
def packet_ids_are_not_remembered(patch: Patch) -> None:
    """A QoS 2 publication that is sent again enters the network again."""
    right = publishing.Publishing.publish

    def forgetful(self: publishing.Publishing, session: Any, packet: Publish) -> None:
        session.incoming.pop(packet.packet_id, None)
        right(self, session, packet)

    patch.setattr(publishing.Publishing, "publish", forgetful)


@mutant
def packet_ids_are_not_kept(patch: Patch) -> None:
    """The packet ids of QoS 2 publications do not survive a crash."""
    right = sessions.Sessions.recover

    def forgetful(self: sessions.Sessions, disk: Any) -> None:
        right(self, {name: rows for name, rows in disk.items() if name != "incoming"})

    patch.setattr(sessions.Sessions, "recover", forgetful)


@mutant
def released_ids_stay_taken(patch: Patch) -> None:
    """PUBREL does not free its packet id: the next publication under it is taken for a duplicate."""

    def release(self: publishing.Publishing, session: Any, packet: Any) -> None:
        self.orders.transmit(session.connection, Pubcomp(packet.packet_id))

    patch.setattr(publishing.Publishing, "release", release)


@mutant
def wills_are_published_after_goodbye(patch: Patch) -> None:
    """A DISCONNECT does not delete the will."""
    right = sessions.Sessions.away

    def away(self: sessions.Sessions, session: Any, why: str, *, keep_will: bool, ends: bool = False) -> None:
        right(self, session, why, keep_will=True, ends=ends)

    patch.setattr(sessions.Sessions, "away", away)


@mutant
def wills_do_not_wait(patch: Patch) -> None:
    """The will delay is ignored."""
    right = sessions.Sessions._wait

    def wait(self: sessions.Sessions, session: Any, since: int) -> None:
        self._publish_will(session)
        right(self, session, since)

    patch.setattr(sessions.Sessions, "_wait", wait)


@mutant
def wills_die_with_the_broker(patch: Patch) -> None:
    """A broker that crashed does not publish the wills of those who were connected."""
    right = sessions.Sessions.recover

    def forgetful(self: sessions.Sessions, disk: Any) -> None:
        patch.setattr(publishing.Publishing, "publish_will", lambda self, session, will: None)
        right(self, disk)
        patch.setattr(publishing.Publishing, "publish_will", publish_will)

    publish_will = publishing.Publishing.publish_will
    patch.setattr(sessions.Sessions, "recover", forgetful)


# -- deliveries --------------------------------------------------------------------------------------------------------


@mutant
def nothing_is_sent_again(patch: Patch) -> None:
    """After a reconnection what was under way is not sent again."""
    patch.setattr(delivery.Deliveries, "resume", lambda self, session: self.pump(session))


@mutant
def duplicates_are_not_marked(patch: Patch) -> None:
    """What is sent again looks like new."""
    right = delivery.Deliveries._send

    def send(self: delivery.Deliveries, session: Any, parcel: Any, id: int, *, dup: bool) -> bool:
        return right(self, session, parcel, id, dup=False)

    patch.setattr(delivery.Deliveries, "_send", send)


@mutant
def sent_again_under_another_id(patch: Patch) -> None:
    """After a crash deliveries get new packet ids."""
    right = delivery.Deliveries.recover_one

    def renumber(session: Any, number: int, parcel: Any) -> None:
        right(session, number + 1, parcel)

    patch.setattr(delivery.Deliveries, "recover_one", staticmethod(renumber))


@mutant
def release_is_not_kept(patch: Patch) -> None:
    """A delivery that the client has received (PUBREC) goes back to the beginning when the broker crashes."""
    right = delivery.Deliveries._release

    def release(self: delivery.Deliveries, session: Any, id: int, flight: Any) -> None:
        before = len(self.orders.writes)
        right(self, session, id, flight)
        del self.orders.writes[before:]

    patch.setattr(delivery.Deliveries, "_release", release)


@mutant
def release_is_not_repeated(patch: Patch) -> None:
    """A PUBREL that was lost with its connection is not sent again."""
    right = delivery.Deliveries.resume

    def resume(self: delivery.Deliveries, session: Any) -> None:
        for id in [id for id, flight in session.inflight.items() if flight.stage is state.Stage.PUBCOMP]:
            self._forget(session, session.inflight.pop(id).number)
        right(self, session)

    patch.setattr(delivery.Deliveries, "resume", resume)


@mutant
def settled_deliveries_stay_on_disk(patch: Patch) -> None:
    """What a client has acknowledged comes back when the broker crashes."""
    right = delivery.Deliveries._forget

    def forget(self: delivery.Deliveries, session: Any, number: int) -> None:
        right(self, session, number)
        self.orders.writes[:] = [w for w in self.orders.writes if type(w) is not Drop or w.table != "queue"]

    patch.setattr(delivery.Deliveries, "_forget", forget)


@mutant
def receive_maximum_is_ignored(patch: Patch) -> None:
    """A client is sent more than it takes."""
    right = delivery.Deliveries.pump

    def pump(self: delivery.Deliveries, session: Any) -> None:
        session.quota = 1000
        right(self, session)

    patch.setattr(delivery.Deliveries, "pump", pump)


@mutant
def queue_is_for_those_who_are_there(patch: Patch) -> None:
    """Nothing is kept for a client that is away."""
    right = delivery.Deliveries.give

    def give(self: delivery.Deliveries, session: Any, *rest: Any) -> None:
        if session.connection:
            right(self, session, *rest)

    patch.setattr(delivery.Deliveries, "give", give)


# -- sessions ----------------------------------------------------------------------------------------------------------


@mutant
def sessions_never_end(patch: Patch) -> None:
    """The session expiry is ignored."""
    right = sessions.Sessions._keep_time

    def keep_time(self: sessions.Sessions, session: Any) -> None:
        session.ends_at = None
        right(self, session)

    patch.setattr(sessions.Sessions, "_keep_time", keep_time)


@mutant
def late_alarms(patch: Patch) -> None:
    """A session that was over before the broker got to it is found by its client."""
    right = sessions.Sessions.on_connected

    def connect(self: sessions.Sessions, fact: Any) -> None:
        patch.setattr(sessions.Sessions, "_keep_time", lambda self, session: None)
        right(self, fact)
        patch.setattr(sessions.Sessions, "_keep_time", keep_time)

    keep_time = sessions.Sessions._keep_time
    patch.setattr(sessions.Sessions, "on_connected", connect)


@mutant
def crashes_give_more_time(patch: Patch) -> None:
    """Every start of the broker begins the session expiry anew."""
    right = sessions.Sessions.recover

    def recover(self: sessions.Sessions, disk: Any) -> None:
        before = len(self.orders.writes)
        right(self, disk)
        writes = self.orders.writes[before:]
        self.orders.writes[before:] = [w for w in writes if getattr(w, "table", "") != "session"]

    patch.setattr(sessions.Sessions, "recover", recover)


@mutant
def take_over_ends_the_session(patch: Patch) -> None:
    """The newer connection of a client begins a new session."""

    def take_over(self: sessions.Sessions, session: Any) -> None:
        right(self, session)
        if session.client in self.by_client:
            self._end(session, "taken over")

    right = sessions.Sessions.take_over
    patch.setattr(sessions.Sessions, "take_over", take_over)


@mutant
def old_grades(patch: Patch) -> None:
    """What subscriptions made of a topic is remembered when they change."""

    def remembering(change: Any) -> Any:
        def changed(self: state.Session, subscription: Any) -> None:
            before = dict(self.grades)
            change(self, subscription)
            self.grades.update(before)

        return changed

    patch.setattr(state.Session, "enter", remembering(state.Session.enter))
    patch.setattr(state.Session, "leave", remembering(state.Session.leave))


@mutant
def unsubscribing_is_not_kept(patch: Patch) -> None:
    """A subscription that was taken back returns with the next crash."""
    right = subscribing.Subscribing.leave

    def leave(self: subscribing.Subscribing, session: Any, subscription: Any) -> None:
        right(self, session, subscription)
        self.orders.writes[:] = [w for w in self.orders.writes if type(w) is not Drop or w.table != "subscriptions"]

    patch.setattr(subscribing.Subscribing, "leave", leave)


# -- retained messages and shares --------------------------------------------------------------------------------------


@mutant
def last_heard_is_retained(patch: Patch) -> None:
    """Stamps are ignored: brokers retain whatever they heard last."""
    patch.setattr(retained, "stamp_of", lambda event: _Never())


class _Never:
    """Is not after anything."""

    def __ge__(self, other: object) -> bool:
        return False


@mutant
def the_dead_come_back(patch: Patch) -> None:
    """Deletions are not remembered."""
    right = retained.RetainedMessages._enter

    def enter(self: retained.RetainedMessages, event: Any) -> None:
        if event.payload:
            right(self, event)

    patch.setattr(retained.RetainedMessages, "_enter", enter)


@mutant
def retained_goes_where_it_is_wanted(patch: Patch) -> None:
    """Brokers whose clients did not ask for a topic do not hear of what is retained there."""
    right = events.Events._must_flood
    patch.setattr(events.Events, "_must_flood", lambda self, event: not event.retain and right(self, event))


@mutant
def retained_is_not_handed_out(patch: Patch) -> None:
    """Who subscribes does not get what is retained."""
    patch.setattr(subscribing.Subscribing, "_give_one", lambda self, session, subscription, topic: None)


@mutant
def retained_is_handed_out_twice(patch: Patch) -> None:
    """Who subscribes gets what is retained twice."""
    right = subscribing.Subscribing._give_one

    def give(self: subscribing.Subscribing, session: Any, subscription: Any, topic: str) -> None:
        right(self, session, subscription, topic)
        right(self, session, subscription, topic)

    patch.setattr(subscribing.Subscribing, "_give_one", give)


@mutant
def every_broker_serves_the_group(patch: Patch) -> None:
    """All brokers with members of a group take an event for theirs."""

    def mine(self: shares.Shares, chosen: Any) -> Any:
        for name, text, _ in chosen:
            key = self._names.get((name, text))
            if key in self.groups:
                yield (name, text), key, self.groups[key]

    patch.setattr(shares.Shares, "mine", mine)


@mutant
def members_elsewhere_are_forgotten(patch: Patch) -> None:
    """A broker that was just started chooses as if there were no members but its own."""
    patch.setattr(shares.Shares, "recover", lambda self, disk: None)


@mutant
def the_dead_take_their_work_along(patch: Patch) -> None:
    """What waited for a member whose session ended goes to nobody else."""
    patch.setattr(delivery.Deliveries, "unfinished", lambda self, session: [])


@mutant
def a_crash_takes_the_work_of_its_members_along(patch: Patch) -> None:
    """Deliveries to members whose sessions died with their broker are not handed on when it is back."""
    patch.setattr(sharing.SharedDeliveries, "hand_on_orphans", lambda self, queues: None)


@mutant
def work_for_a_broker_without_members_is_lost(patch: Patch) -> None:
    """A broker that was chosen, and has no members any more, does not hand the event on."""
    right = shares.Shares.mine

    def mine(self: shares.Shares, chosen: Any) -> Any:
        return (found for found in right(self, chosen) if found[2] is not None)

    patch.setattr(shares.Shares, "mine", mine)


@mutant
def work_that_may_be_done_is_done_again(patch: Patch) -> None:
    """What was sent with QoS 2 to a member whose session ended goes to another one."""

    def unfinished(self: delivery.Deliveries, session: Any) -> Any:
        return [(p.event, p.share) for p in session.queue.values() if p is not None and p.share is not None]

    patch.setattr(delivery.Deliveries, "unfinished", unfinished)


@mutant
def only_brokers_that_want_it_get_it(patch: Patch) -> None:
    """An event is not sent to the broker that was chosen for a group when nobody there subscribes any more."""
    right = events.Events._next_peers

    def next_peers(self: events.Events, event: Any, came_from: str, only: Any, flooded: bool) -> Any:
        if not event.groups_only:
            event = replace(event, shares=())
        return right(self, event, came_from, only, flooded)

    patch.setattr(events.Events, "_next_peers", next_peers)


# -- subscriptions that wait for the network ---------------------------------------------------------------------------


@mutant
def subacks_do_not_wait(patch: Patch) -> None:
    """A SUBACK leaves before the network knows the subscription."""

    def send(self: subacks.Subacks, session: Any, packet: Any, *, granted: bool) -> None:
        self.orders.transmit(session.connection, packet)

    patch.setattr(subacks.Subacks, "send", send)


@mutant
def fences_are_answered_at_once(patch: Patch) -> None:
    """A broker answers a fence before those behind it have."""
    patch.setattr(fences.Fences, "_forward", lambda self, owed: setattr(owed, "before", {}))
