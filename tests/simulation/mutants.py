"""The core, deliberately broken: one function per planted bug. The checkers must notice every one of them (P12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latecomer.core import broker as broker_module
from latecomer.core import (
    clients,
    confirmations,
    events,
    interest,
    links,
    linkstate,
    membership,
    neighbours,
    orders,
    outbox,
    routes,
    seen,
    table,
    tree,
)
from latecomer.core.effects import Effect, Persist, Put
from latecomer.messages.link import Complete, LinkState

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[plant.__name__] = plant
    return plant


# -- links -------------------------------------------------------------------------------------------------------------


@mutant
def no_retransmission(patch: Patch) -> None:
    """A resumed session does not send again what the other end lacks."""
    greet = links.Link.greet
    patch.setattr(links.Link, "greet", lambda self, hello: (greet(self, hello)[0], []))


@mutant
def resumes_too_far(patch: Patch) -> None:
    """Retransmission begins one frame late."""
    greet = links.Link.greet

    def late(self: links.Link, hello: Any) -> Any:
        greeting, again = greet(self, hello)
        return greeting, again[1:]

    patch.setattr(links.Link, "greet", late)


@mutant
def retransmits_acknowledged(patch: Patch) -> None:
    """A resumed session ignores what the other end has."""

    def acknowledge(self: links.Link, received: int) -> bool:
        return True

    patch.setattr(links.Link, "acknowledge", acknowledge)


# -- link state and trees ----------------------------------------------------------------------------------------------


@mutant
def news_is_not_flooded(patch: Patch) -> None:
    """Link state is taken in, not passed on."""

    def keep(self: membership.Membership, peer: str, frame: Any) -> None:
        if self.link_states.merge(frame.states):
            self._tree_soon()

    patch.setattr(membership.Membership, "on_link_states", keep)


@mutant
def summary_is_not_answered(patch: Patch) -> None:
    """A new session does not tell what the other end does not know."""
    patch.setattr(linkstate.LinkStateDatabase, "newer_than", lambda self, summary: ())


@mutant
def dead_links_count(patch: Patch) -> None:
    """A link counts although only one end names it."""

    def reachable(states: dict[str, LinkState], start: str) -> tuple[LinkState, ...]:
        found, todo = {start: states[start]}, [states[start]]
        while todo:
            for neighbour in todo.pop().neighbours:
                other = states.get(neighbour.broker)
                if other is not None and other.broker not in found:
                    found[other.broker] = other
                    todo.append(other)
        return tuple(found[broker] for broker in sorted(found))

    patch.setattr(membership, "reachable", reachable)


@mutant
def unequal_trees(patch: Patch) -> None:
    """Brokers use different trees under one name."""
    adopt = interest.Interest.adopt

    def own_tree(self: interest.Interest, right: tree.Tree) -> None:
        roots = sorted(right.parent)
        wrong = rerooted(right, roots[0] if self.broker < roots[len(roots) // 2] else roots[-1])
        adopt(self, wrong)

    def rerooted(right: tree.Tree, root: str) -> tree.Tree:
        parent = dict(right.parent)
        above: str | None = None
        here: str | None = root
        while here is not None:
            parent[here], above, here = above, here, parent[here]
        children: dict[str, list[str]] = {broker: [] for broker in parent}
        for broker, over in parent.items():
            if over is not None:
                children[over].append(broker)
        return tree.Tree(right.version, root, parent, children, right.depth)

    patch.setattr(interest.Interest, "adopt", own_tree)


# -- tables ------------------------------------------------------------------------------------------------------------


@mutant
def no_resynchronisation(patch: Patch) -> None:
    """A new tree is declared complete without telling the neighbours what changed."""
    tell = interest.Interest._tell_subscriptions

    def tell_changes_only(self: interest.Interest, peer: str, filters: Any) -> None:
        if filters is not None or not self.links[peer].told_subscriptions:
            tell(self, peer, filters)

    patch.setattr(interest.Interest, "_tell_subscriptions", tell_changes_only)


@mutant
def covering_forgets_the_uncovered(patch: Patch) -> None:
    """When a covering subscription goes, those it covered are not told."""
    patch.setattr(table.FilterTable, "affected", lambda self, filters: dict.fromkeys(filters))


@mutant
def unsubscribe_stays_here(patch: Patch) -> None:
    """Unsubscribing is not told on."""

    def unsubscribe(self: interest.Interest, filter: Any) -> None:
        self.subscriptions.remove(table.SELF, filter)
        self.changed()

    patch.setattr(interest.Interest, "unsubscribe", unsubscribe)


@mutant
def old_entries_stay(patch: Patch) -> None:
    """A new tree begins with the tables of the old one."""
    patch.setattr(table.FilterTable, "keep_only_self", lambda self: None)


@mutant
def spoiled_tree_revives(patch: Patch) -> None:
    """A tree in which something was lost becomes ready again."""

    def forgiving(self: interest.Interest) -> None:
        if self.ready:
            self.ready = False
            self.became_unready()

    patch.setattr(interest.Interest, "_spoil", forgiving)


@mutant
def ready_too_early(patch: Patch) -> None:
    """A broker completes its tables before its other neighbours have."""
    progress = interest.Interest._progress

    def eager(self: interest.Interest) -> None:
        if self.tree is not None and not self.ready and not self.spoiled:
            for peer in self.peers:
                theirs = self._speaks_for_tree(peer)
                if theirs is not None and not theirs.told_complete and theirs.advertisements_complete:
                    theirs.told_complete = True
                    self._tell_subscriptions(peer, None)
                    self.send(peer, Complete(self.tree.version))
        progress(self)

    patch.setattr(interest.Interest, "_progress", eager)


@mutant
def stale_routes(patch: Patch) -> None:
    """Remembered routes survive a change of the tables."""
    patch.setattr(broker_module.Broker, "_tables_changed", lambda self: None)


@mutant
def advertisements_never_wait(patch: Patch) -> None:
    """An advertisement counts as known to all the moment it is made."""
    patch.setattr(confirmations.Confirmations, "settled", property(lambda self: True))


@mutant
def early_confirmation(patch: Patch) -> None:
    """A broker confirms an advertisement before those behind it did."""

    def hear(self: confirmations.Confirmations, peer: str, number: int) -> None:
        self._owed[peer] = (number, {})

    patch.setattr(confirmations.Confirmations, "hear", hear)


# -- events ------------------------------------------------------------------------------------------------------------


@mutant
def no_duplicate_check(patch: Patch) -> None:
    """Whatever arrives is new."""
    patch.setattr(seen.Seen, "take", seen.Seen.stream)


@mutant
def events_of_any_tree(patch: Patch) -> None:
    """Events and reports of a tree that was left are taken all the same."""
    lost = events.Events.tree_lost

    def keep(self: events.Events) -> None:
        under_way = dict(self.outbox.under_way)
        lost(self)
        self.outbox.under_way.update(under_way)

    def restart(self: outbox.Outbox, reachable: Any) -> None:
        self.queue.extend(seq for seq in self.entries if seq not in self.under_way)

    patch.setattr(events.Events, "tree_lost", keep)
    patch.setattr(outbox.Outbox, "restart", restart)


@mutant
def first_report_is_enough(patch: Patch) -> None:
    """The origin forgets an event when one of several neighbours reported it done."""

    def done(self: outbox.Outbox, seq: int, peer: str) -> Any:
        if self.under_way.pop(seq, 0) == 0:
            return None
        return self.entries[seq]

    patch.setattr(outbox.Outbox, "done", done)


@mutant
def reports_before_the_others(patch: Patch) -> None:
    """A broker on the way reports an event done when it has sent it on."""
    on_publication = events.Events.on_publication

    def hasty(self: events.Events, peer: str, publication: Any) -> None:
        on_publication(self, peer, publication)
        id = publication.event.id
        if self.transit.get(id.origin, {}).pop(id.seq, None) is not None:
            self.reports.add(peer, id.origin, id.epoch, id.seq)

    patch.setattr(events.Events, "on_publication", hasty)


@mutant
def nothing_for_the_absent(patch: Patch) -> None:
    """Events are forgotten although a known broker was away."""
    finish = outbox.Outbox.finish
    patch.setattr(outbox.Outbox, "finish", lambda self, entry, absent: finish(self, entry, ()))


@mutant
def numbers_are_used_twice(patch: Patch) -> None:
    """After a restart the origin counts on from what its outbox still holds."""
    recover = events.Events.recover

    def forgetful(self: events.Events, disk: Any) -> None:
        recover(self, disk)
        self.outbox.next_seq = max(self.outbox.entries, default=0) + 1

    patch.setattr(events.Events, "recover", forgetful)


@mutant
def seen_is_not_kept(patch: Patch) -> None:
    """What was seen is not on the disk."""
    recover = events.Events.recover

    def forgetful(self: events.Events, disk: Any) -> None:
        recover(self, {name: rows for name, rows in disk.items() if name != "seen"})

    patch.setattr(events.Events, "recover", forgetful)


@mutant
def newest_first(patch: Patch) -> None:
    """A new tree begins with the newest event."""
    restart = outbox.Outbox.restart

    def backwards(self: outbox.Outbox, reachable: Any) -> None:
        restart(self, reachable)
        self.queue.reverse()

    patch.setattr(outbox.Outbox, "restart", backwards)


@mutant
def answers_before_the_disk(patch: Patch) -> None:
    """Effects happen before what they depend on is safe."""

    def finish(self: orders.Orders) -> list[Effect]:
        effects = right(self)
        return [e for e in effects if type(e) is not Persist] + [e for e in effects if type(e) is Persist]

    right = orders.Orders.finish
    patch.setattr(orders.Orders, "finish", finish)


@mutant
def mailboxes_may_be_lost(patch: Patch) -> None:
    """Nothing waits for what was seen, nor for the mailboxes that were written with it."""

    def finish(self: orders.Orders) -> list[Effect]:
        return [
            Persist(e.writes, False) if type(e) is Persist and any(map(seen_row, e.writes)) else e for e in right(self)
        ]

    def seen_row(write: Any) -> bool:
        return type(write) is Put and write.table == "seen"

    right = orders.Orders.finish
    patch.setattr(orders.Orders, "finish", finish)


@mutant
def accepted_before_the_disk_knows(patch: Patch) -> None:
    """Nothing waits for the outbox."""

    def finish(self: orders.Orders) -> list[Effect]:
        return [Persist(e.writes, False) if type(e) is Persist else e for e in right(self)]

    right = orders.Orders.finish
    patch.setattr(orders.Orders, "finish", finish)


# -- clients and bounds ------------------------------------------------------------------------------------------------


@mutant
def mailbox_is_not_kept(patch: Patch) -> None:
    """What waits for clients is not found again after a restart."""
    recover = clients.Clients.recover

    def forgetful(self: clients.Clients, disk: Any) -> None:
        recover(self, {name: rows for name, rows in disk.items() if name != "mailbox"})

    patch.setattr(clients.Clients, "recover", forgetful)


@mutant
def overlapping_subscriptions_deliver_twice(patch: Patch) -> None:
    """A client with two matching subscriptions gets an event twice."""
    compute = routes.Routes._compute

    def doubled(self: routes.Routes, topic: str) -> routes.Route:
        route = compute(self, topic)
        filters = [f for f in self.table.index.match(topic) if f in self.subscribers]
        twice = tuple(c for c in route.clients if sum(c in self.subscribers[f] for f in filters) > 1)
        return routes.Route(route.clients + twice, route.peers, route.picky_clients, route.picky_peers)

    patch.setattr(routes.Routes, "_compute", doubled)


@mutant
def silent_drop(patch: Patch) -> None:
    """A full mailbox drops without a word."""

    def drop(self: clients.Clients, mailbox: Any) -> None:
        mailbox.waiting.popleft()

    patch.setattr(clients.Clients, "_drop_oldest", drop)


@mutant
def unbounded_outbox(patch: Patch) -> None:
    """Publishers are never refused."""
    patch.setattr(events.Events, "make_room", lambda self: True)


@mutant
def frames_are_counted_wrong(patch: Patch) -> None:
    """A frame sent while the connection is away is not kept."""

    def send(self: neighbours.Neighbours, peer: str, frame: Any) -> None:
        if self.links[peer].greeted:
            right(self, peer, frame)

    right = neighbours.Neighbours.send
    patch.setattr(neighbours.Neighbours, "send", send)
