"""Membership: who is there, told by flooding link state, and the tree that follows from it.

News floods at once when there has been none for a while, and is collected for a moment when there has: one broken link
is told without delay, a network that starts up does not drown in its own news. A new tree is computed when the link
state has been unchanged for `settle_us`. Brokers that cannot be reached are remembered, on disk, until they return or
have been away for `forget_us`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from latecomer.core.effects import Drop, Put
from latecomer.core.linkstate import LinkStateDatabase
from latecomer.core.neighbours import SILENCES, Neighbours
from latecomer.core.orders import Orders
from latecomer.core.ring.family import Family, family_of
from latecomer.core.settings import BrokerSettings
from latecomer.core.tree import Tree, name_of, reachable, spanning_tree
from latecomer.messages.link import LinkState, LinkStates, Neighbour, Summary
from latecomer.messages.reposition import Positions
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind


class _Everybody:
    """Contains every broker."""

    def __contains__(self, broker: object) -> bool:
        return True


@dataclass(slots=True)
class Membership:
    """What this broker knows of the others."""

    broker: BrokerId
    settings: BrokerSettings
    orders: Orders
    neighbours: Neighbours
    adopted: Callable[[Tree, Family | None], None]
    positions: Callable[[], Positions | None]
    """Where brokers stand on the ring; None: routing does not go by it."""
    forgot: Callable[[list[BrokerId]], None]
    link_states: LinkStateDatabase
    members: dict[BrokerId, None]
    """Every broker ever heard of and not forgotten; as on disk."""
    uncharted: bool
    """It is not known who else belongs to the network; as on disk."""
    past: bool
    """This broker may have finished events before it knew all brokers that are there now; as on disk."""
    first: dict[BrokerId, int] | None = None
    """All brokers, and their boots, when it was known for the first time who belongs to the network."""
    version: str = ""
    tree_due: Instant | None = None
    flood_due: Instant | None = None
    forget_due: Instant | None = None
    charting: bool = True
    """Neighbours that nobody has heard of are waited for."""
    chart_due: Instant | None = None
    """Until then, counted from the first link: a broker that never met anybody cannot know who is missing."""
    _compared: dict[BrokerId, None] = field(default_factory=dict)
    """Neighbours whose summary has come in this session."""
    _tree_latest: Instant = 0
    _flooded_at: Instant = -1 << 62
    _news: dict[BrokerId, tuple[LinkState, BrokerId]] = field(default_factory=dict)
    """Link states to be told on, and who told us; a newer one of the same broker takes the place of the older."""

    @property
    def known(self) -> Container[BrokerId]:
        """Brokers that belong to the network, there or away."""
        return _Everybody() if self.uncharted else self.members

    @property
    def noticed_at(self) -> Instant:
        """By then whoever is away knows that this broker is: until then it may take both for brokers of one tree, and
        finish an event that nobody here wanted when they last met. A broker notices silence within so many heartbeats,
        holds the link, looks at it once per heartbeat, and has another tree at the latest after `settle_max_us`."""
        settings = self.settings
        notice_us = (SILENCES + 2) * settings.heartbeat_us + settings.hold_us + settings.settle_max_us
        known = self.link_states
        # Those who are forgotten as well: an operator need not wait with that.
        away = (*known.absent_since.values(), *known.lost_since.values())
        return max(away, default=-notice_us) + notice_us

    def start(self) -> None:
        """Remember who was there; nobody is, for now."""
        for member in self.members:
            self.link_states.remember(member, self.orders.now)
        self.announce()
        self.adopt_tree()

    def dues(self) -> tuple[Instant | None, ...]:
        return (self.tree_due, self.flood_due, self.forget_due, self.chart_due)

    def woken(self) -> None:
        now = self.orders.now
        if self.flood_due is not None and self.flood_due <= now:
            self._flood()
        if self.tree_due is not None and self.tree_due <= now:
            self.tree_due = None
            self.adopt_tree()
        if self.forget_due is not None and self.forget_due <= now:
            self._forget()
        if self.chart_due is not None and self.chart_due <= now:
            waited_for = [link.broker for link in self._links() if not link.boot]
            self.chart_due, self.charting = None, False
            if waited_for:
                self.past = True  # they may turn out to be there all the same
                self.announce()  # without them

    # -- flooding ----------------------------------------------------------------------------------------------------

    def link_up(self, peer: BrokerId) -> None:
        """A session began: the ends compare what they know, and everybody hears of the link."""
        self._compared.pop(peer, None)
        self.neighbours.send(peer, self.link_states.summary())
        if self.charting and self.chart_due is None:
            self.chart_due = self.orders.wake(self.orders.now + self.settings.chart_us)
        self.announce()

    def announce(self) -> None:
        """Our links changed."""
        self._news[self.broker] = (self.link_states.originate(self._links()), "")
        self._flood_soon()
        self._tree_soon()

    def links_changed(self) -> None:
        """The operator wants other links: tell of it if it is news."""
        links, told = tuple(self._links()), self.link_states.states[self.broker].neighbours
        if links != told:
            if any(not link.boot and link not in links for link in told):
                self.past = True  # who was waited for may turn out to be there all the same
            self.announce()

    def _links(self) -> list[Neighbour]:
        """The links to tell of: those that are up, and for a while those to neighbours that nobody has heard of."""
        return [
            link
            for link in self.neighbours.view()
            if link.boot or (self.charting and link.broker not in self.link_states.states)
        ]

    def on_link_states(self, peer: BrokerId, frame: LinkStates) -> None:
        for state in frame.states:
            if state.broker == self.broker and state.boot > self.orders.boot:
                self.orders.note(
                    Kind.REJECTED,
                    peer=peer,
                    detail=f"another broker calls itself {self.broker!r}, or this one started with a boot number"
                    f" below {state.boot}: broker ids must be unique and boot numbers must grow",
                )
        known = self.link_states.states
        strangers = sum(1 for state in frame.states if state.broker not in known)
        most = max((len(state.neighbours) for state in frame.states), default=0)
        if max(len(known) + strangers, most) > self.settings.brokers_max:
            limit = self.settings.brokers_max
            self.neighbours.reject(peer, f"it tells of more than {limit} brokers, which core.brokers_max allows")
            return
        news = self.link_states.merge(frame.states)
        if self.link_states.outlived(frame.states):
            self.announce()
        if news:
            for state in news:
                self._news[state.broker] = (state, peer)
            self._flood_soon()
            self._tree_soon()

    def on_summary(self, peer: BrokerId, frame: Summary) -> None:
        if peer in self._compared:
            self.neighbours.reject(peer, "a second summary in one session")
            return
        self._compared[peer] = None
        news = self.link_states.newer_than(frame)
        if news:
            self.neighbours.send(peer, LinkStates(news))

    def _flood_soon(self) -> None:
        if self.orders.now >= self._flooded_at + self.settings.flood_us:
            self._flood()
        elif self.flood_due is None:
            self.flood_due = self.orders.wake(self._flooded_at + self.settings.flood_us)

    def _flood(self) -> None:
        self.flood_due = None
        self._flooded_at = self.orders.now
        for peer, link in self.neighbours.links.items():
            if link.up:
                states = tuple(state for state, came_from in self._news.values() if came_from != peer)
                if states:
                    self.neighbours.send(peer, LinkStates(states))
        self._news.clear()

    # -- trees -------------------------------------------------------------------------------------------------------

    def positions_changed(self) -> None:
        """Brokers stand elsewhere on the ring: other trees follow."""
        if self.positions() is not None:
            self._tree_soon()

    def _tree_soon(self) -> None:
        """Wait until the link state has settled, but not for ever."""
        now = self.orders.now
        if self.tree_due is None:
            self._tree_latest = now + self.settings.settle_max_us
        self.tree_due = self.orders.wake(min(now + self.settings.settle_us, self._tree_latest))

    def adopt_tree(self) -> None:
        view, states = reachable(self.link_states.states, self.broker), self.link_states.states.values()
        root, word = self.settings.routing.root, self.positions()
        version = name_of(states, None if word is None else word.stamp)
        tree = spanning_tree(version, view, root)
        self.link_states.mark_absent(tree.parent, self.orders.now)
        self._forget_later()
        self._write_down()
        if tree.version != self.version:
            self.version = tree.version
            self._compare_with_first(tree)
            self.orders.note(Kind.TREE_ADOPTED, detail=tree.version, count=len(tree.parent))
            self.adopted(tree, None if word is None else family_of(version, view, root, word))
            if any(self.link_states.buried(broker) for broker in self.link_states.absent_since):
                self._forget()

    def _compare_with_first(self, tree: Tree) -> None:
        """Note whether events may have been finished that a broker of this tree lacks. While nobody knows who belongs
        to the network, events are kept for everybody. From the first tree in which it is known, they are finished when
        those brokers have them: a broker that joins or restarts later, perhaps without its disk, may lack some."""
        boots = {broker: self.link_states.states[broker].boot for broker in tree.parent}
        if self.first is not None:
            self.past = self.past or any(self.first.get(broker) != boot for broker, boot in boots.items())
        elif not self.uncharted:
            self.first = {broker: state.boot for broker, state in self.link_states.states.items()}
            self.orders.writes.append(Put("meta", "", "past", True))

    def _write_down(self) -> None:
        """Keep on disk who belongs to the network, and whether that is all of them."""
        known = self.link_states
        for member in known.returned:
            self.orders.writes.append(Drop("forgotten", "", member))
        known.returned.clear()
        uncharted = known.unheard() or (self.uncharted and known.remembered_only())
        if uncharted != self.uncharted:
            self.uncharted = uncharted
            self.orders.writes.append(Put("meta", "", "uncharted", uncharted))
        for member in known.states:
            if member not in self.members and member not in known.forgotten:
                self.members[member] = None
                self.orders.writes.append(Put("member", "", member, True))

    # -- brokers that stay away ----------------------------------------------------------------------------------------

    def _forget_later(self) -> None:
        absent = self.link_states.absent_since
        self.forget_due = self.orders.wake(min(absent.values()) + self.settings.forget_us) if absent else None

    def problem_of_forget(self, broker: BrokerId) -> str:
        """Why a broker cannot be forgotten now, or nothing."""
        if broker in self.link_states.absent_since or broker in self.link_states.forgotten:
            return ""
        if broker in self.link_states.states:
            return f"{broker} is there: only a broker that is away can be forgotten"
        return f"nobody here has heard of a broker {broker!r}"

    def bury(self, broker: BrokerId) -> None:
        """Tell everybody that a broker will not come back: whoever hears of it forgets it in the next tree, however
        short a time it has been away. A later life of it is news as ever."""
        states = self.link_states
        if broker in states.states and not self.problem_of_forget(broker) and not states.buried(broker):
            self._news[broker] = (self.link_states.bury(broker), "")
            self._flood_soon()
            self._tree_soon()

    def _forget(self) -> None:
        gone = self.link_states.forget(self.orders.now, self.settings.forget_us)
        for broker in gone:
            self.orders.writes.append(Put("forgotten", "", broker, self.link_states.forgotten[broker]))
            if broker in self.members:
                del self.members[broker]
                self.orders.writes.append(Drop("member", "", broker))
        if gone:
            self._write_down()
            self.forgot(gone)
        self._forget_later()
