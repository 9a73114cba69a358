"""Handing on: what was meant for a member of a shared group that is gone goes to another member [MQTT-4.8.2].

The broker that holds such an event chooses again, by what it knows of the groups. If it has members itself, one of them
gets the event; otherwise it sends a copy for this group alone (`Event.groups_only`) to the broker it chose, and answers
for the copy as the origin of an event does: it is in its outbox until the other broker has it. That broker hands it on
in turn if it has no members any more. Before a copy leaves, the others hear of the latest members here, so that nobody
sends it back to a broker without any.

A copy may be the second one of an event: the member that is gone may have got it without acknowledging it. Therefore an
event that may have been sent with QoS 2 is not handed on [MQTT-4.8.2-5].
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from latecomer.core.effects import Put
from latecomer.core.shares import Choice, GroupName
from latecomer.model.event import Event
from latecomer.model.ids import BrokerId
from latecomer.model.record import Kind

if TYPE_CHECKING:
    from latecomer.core.events import Events


def hand_on(events: Events, event: Event, names: Iterable[GroupName]) -> None:
    """Give an event to other members of these groups; a group that has none anywhere does not get it."""
    events.shares.flush()
    chosen = (events.shares.choose_again(name, events.members, events.membership.known) for name in names)
    give_to_groups(events, event, tuple(choice for choice in chosen if choice is not None))


def give_to_groups(events: Events, event: Event, shares: tuple[Choice, ...]) -> None:
    """Give an event to the chosen members, here and elsewhere, and to nobody else."""
    here = tuple(choice for choice in shares if choice[2] == events.broker)
    there = tuple(choice for choice in shares if choice[2] != events.broker)
    if here:
        interest = events.interest
        hops = -1 if interest.tree is None else interest.tree_of(event.topic).hops(event.id.origin, events.broker)
        events.clients.deliver_shared(replace(event, shares=here), hops)
    if there:
        _send(events, event, there)


def _send(events: Events, event: Event, shares: tuple[Choice, ...]) -> None:
    if event.reliable and not events.make_room():
        events.note_dropped(event, "no room to hand it on to another member of its group")
        return
    copy = replace(event, id=events.next_id(), shares=shares, groups_only=True)
    needs = tuple(dict.fromkeys(broker for _, _, broker in shares))
    if not event.reliable:
        events.queue_fleeting(copy)
    else:
        events.outbox.add_for(copy, needs, events.members)
        seq = copy.id.seq
        events.orders.writes += [Put("outbox", "", seq, copy), Put("parked", "", seq, needs)]
        events.orders.note(Kind.HANDED_ON, topic=event.topic, event=str(copy.id), detail=", ".join(needs))
    if events.interest.ready:
        events.pump()


def hand_on_from(events: Events, brokers: list[BrokerId]) -> None:
    """These brokers will not come back: what only they lack and was chosen for their members goes to others."""
    found: list[tuple[Event, list[GroupName]]] = []
    for entry in events.outbox.entries.values():
        needs = entry.needs or ()
        names = [(group, text) for group, text, b in entry.event.shares if b in brokers and b in needs]
        if names:
            found.append((entry.event, names))
    for event, names in found:
        _hand_on_unknown(events, event, names)


def hand_on_unreached(events: Events, event: Event) -> None:
    """An event is done: a chosen broker that is neither there nor waited for was forgotten since it was chosen."""
    absent = events.membership.link_states.absent_since
    names = [(group, text) for group, text, b in event.shares if b not in events.members and b not in absent]
    if names:
        _hand_on_unknown(events, event, names)


def _hand_on_unknown(events: Events, event: Event, names: list[GroupName]) -> None:
    """As `hand_on`, if nobody knows whether the chosen broker got it."""
    if event.qos == 2:
        events.note_dropped(event, "chosen for members of a broker that is gone, which may have it")
    else:
        hand_on(events, event, names)


def choose_anew(events: Events) -> None:
    """Another tree is ready: copies that could not be sent to a broker that is away go to one that is there."""
    found = [
        (seq, entry.event)
        for seq, entry in events.outbox.entries.items()
        if entry.event.groups_only and not entry.sent and not entry.only and _is_served(events, entry.event)
    ]
    for seq, event in found:
        del events.outbox.entries[seq]
        events.outbox.parked.pop(seq, None)
        events.drop(seq)
        hand_on(events, event, [(group, text) for group, text, _ in event.shares])


def _is_served(events: Events, event: Event) -> bool:
    """Whether brokers that are there have members of all groups of an event."""
    places = (events.shares.places((group, text)) for group, text, _ in event.shares)
    return all(any(broker in events.members for broker in of) for of in places)
