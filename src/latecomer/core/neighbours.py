"""The neighbours: one link session each, connection frames, heartbeats, and when a link counts as up or down."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import get_args

from latecomer.core.links import Greeting, Link, hello_problem
from latecomer.core.orders import Orders
from latecomer.core.settings import BrokerSettings
from latecomer.messages.hand_over import HandOverFrame
from latecomer.messages.homes import ProfileFrame
from latecomer.messages.link import (
    Alive,
    Compare,
    Compared,
    Credit,
    Done,
    Errand,
    ErrandAnswer,
    Fence,
    Fenced,
    Hello,
    LinkMessage,
    Lost,
    Neighbour,
    Publication,
    Request,
    Response,
    ResponseEnd,
    Run,
    SessionFrame,
    Settled,
    Void,
)
from latecomer.messages.reposition import Prepared
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind

UNLIMITED = 1 << 62
CONTROL_MAX = 65_536
VOID = Void()
REASON_MAX = 300
"""Characters of a reason: it may quote what the peer said."""
OF_THE_TREE = (
    Publication,
    Run,
    Done,
    Settled,
    Lost,
    Request,
    Response,
    ResponseEnd,
    Credit,
    Compare,
    Compared,
    Fence,
    Fenced,
    Errand,
    ErrandAnswer,
    Prepared,
    *get_args(ProfileFrame),
    *get_args(HandOverFrame),
)
"""Frames that mean something only in the tree in which they were sent."""
SILENCES = 3
"""Heartbeats that may be missed before a connection counts as dead."""


@dataclass(slots=True)
class Neighbours:
    """The links of this broker, by the neighbour's id."""

    broker: BrokerId
    settings: BrokerSettings
    orders: Orders
    went_up: Callable[[BrokerId], None]
    """A fresh session began; nothing is known of what the neighbour knows."""
    went_down: Callable[[BrokerId], None]
    links: dict[BrokerId, Link] = field(default_factory=dict)
    changed: Callable[[], None] = lambda: None
    """The operator wants other links."""
    tick_due: Instant | None = None

    def add(self, peer: BrokerId, cost_us: int) -> None:
        """Have a link with a broker; what was under way with one that was to go, goes on."""
        link = self.links.get(peer)
        if link is None:
            self.links[peer] = Link(peer, cost_us, self.orders.boot)
        elif not link.wanted or link.cost_us != cost_us:
            link.wanted, link.cost_us = True, cost_us
            if link.up:
                self.changed()

    def remove(self, peer: BrokerId) -> None:
        """Have no link with a broker any more. Others hear of it first: the session ends with the next tree, which does
        not use it, and which is certain to come because our link state changed."""
        link = self.links.get(peer)
        if link is None or not link.wanted:
            return
        link.wanted = False
        self.changed()
        if not link.up:
            self._hang_up(link)

    def hang_up(self) -> None:
        """Another tree is in use: end the sessions with those who are no neighbours any more."""
        for link in self.links.values():
            if not link.wanted:
                self._hang_up(link)

    def _hang_up(self, link: Link) -> None:
        if link.connected:
            self.orders.disconnect(link.peer, "it is no neighbour any more")
            link.lose(self.orders.now)
        if link.up:
            self._take_down(link)

    def wanted(self) -> list[BrokerId]:
        """The brokers that this one is to have links with."""
        return [link.peer for link in self.links.values() if link.wanted]

    def up(self) -> list[BrokerId]:
        """Neighbours with a link session."""
        return [link.peer for link in self.links.values() if link.up]

    def view(self) -> list[Neighbour]:
        """The links to tell the others of; boot 0 is a neighbour that should be there and is not."""
        return [Neighbour(link.peer, link.known_boot, link.cost_us) for link in self.links.values() if link.wanted]

    def send(self, peer: BrokerId, frame: SessionFrame) -> None:
        """Send a session frame, or keep it until the connection is back; without a session there is nobody to tell."""
        self.send_all((peer,), frame)

    def send_all(self, peers: Iterable[BrokerId], frame: SessionFrame, limit: int = UNLIMITED) -> list[BrokerId]:
        """The same to several; returns those that were left out because `limit` frames wait for them already. Every
        event passes here once per broker, so the layers below are written out."""
        orders = self.orders
        links, frames = self.links, orders.frames
        full: list[BrokerId] = []
        for peer in peers:
            link = links[peer]
            if link.known_boot == 0:
                continue
            if len(link.unacked) >= limit:
                full.append(peer)
                continue
            link.sent += 1
            link.unacked.append(frame)
            if link.greeted:
                link.spoke_at = orders.now
                waiting = frames.get(peer)
                if waiting is None:
                    frames[peer] = [frame]
                else:
                    waiting.append(frame)
        return full

    def void_events(self) -> None:
        """Another tree begins: events and reports that still wait for a neighbour are of no use to it. Their frames
        keep their numbers but let go of what they hold, so that trees in quick succession do not add up."""
        for link in self.links.values():
            if link.unacked:
                link.unacked = deque(VOID if type(f) in OF_THE_TREE else f for f in link.unacked)

    # -- connections -----------------------------------------------------------------------------------------------

    def connected(self, peer: BrokerId, connection: int) -> None:
        link = self.links[peer]
        self.orders.connections[peer] = connection
        now = self.orders.now
        if not link.wanted:
            self.orders.disconnect(peer, "it is no neighbour any more")
            return
        if link.connected:
            link.lose(now)  # the driver has replaced a connection that we had not given up
        if link.up and now - link.lost_at >= self.settings.hold_us:
            self._take_down(link)
        link.connected = True
        link.greeted = False
        link.heard_at = link.spoke_at = now
        self.orders.send(peer, link.hello(self.settings.network, self.broker, str(self.settings.routing)))
        if self.tick_due is None:
            self.tick_due = self.orders.wake(now + self.settings.heartbeat_us)

    def disconnected(self, peer: BrokerId, connection: int) -> None:
        link = self.links[peer]
        if link.connected and self.orders.connections[peer] == connection:
            link.lose(self.orders.now)

    def greeted(self, peer: BrokerId, frame: LinkMessage) -> None:
        """The first frame of a connection."""
        link = self.links[peer]
        problem = hello_problem(frame, self.settings.network, self.broker, str(self.settings.routing), peer)
        if problem is not None:
            self.reject(peer, problem)
            return
        assert isinstance(frame, Hello)
        greeting, again = link.greet(frame)
        if greeting is Greeting.IMPOSSIBLE:
            self.reject(peer, f"hello claims {frame.received} frames received of {link.sent} sent")
        elif greeting is Greeting.RESUMED:
            for unacked in again:
                self.orders.send(peer, unacked)
        else:
            self.orders.note(Kind.LINKED, peer=peer)
            self.went_up(peer)

    def on_alive(self, peer: BrokerId, frame: Alive) -> None:
        if not self.links[peer].acknowledge(frame.received):
            self.reject(peer, f"acknowledges {frame.received} frames of {self.links[peer].sent} sent")

    def acknowledge(self, link: Link) -> None:
        """Tell the neighbour how far we are."""
        self.orders.send(link.peer, link.alive(self.orders.now))

    def reject(self, peer: BrokerId, reason: str) -> None:
        """The peer broke the protocol: end connection and session, say why, try again from nothing."""
        reason = "".join(char if char.isprintable() else "?" for char in reason[:REASON_MAX])
        self.orders.note(Kind.REJECTED, peer=peer, detail=reason)
        link = self.links[peer]
        if link.connected:
            self.orders.disconnect(peer, reason)
            link.lose(self.orders.now)
        if link.up:
            self._take_down(link)

    def _take_down(self, link: Link) -> None:
        link.close()
        self.orders.note(Kind.UNLINKED, peer=link.peer)
        self.went_down(link.peer)

    @property
    def waiting_max(self) -> int:
        """Frames that may wait for a neighbour: events have their limits, the rest is small unless it acknowledges
        nothing at all."""
        return 2 * self.settings.link_max + CONTROL_MAX

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Once per heartbeat: speak on silent links, give up on dead connections, end sessions that did not resume."""
        now, settings = self.orders.now, self.settings
        for link in self.links.values():
            if len(link.unacked) > self.waiting_max:
                self.reject(link.peer, f"{len(link.unacked)} frames wait for its acknowledgement")
            elif link.connected:
                if now - link.heard_at >= SILENCES * settings.heartbeat_us:
                    self.orders.disconnect(link.peer, "silent for too long")
                    link.lose(now)
                elif link.greeted and (now - link.spoke_at >= settings.heartbeat_us or link.received != link.told):
                    self.orders.send(link.peer, link.alive(now))
            elif link.up and now - link.lost_at >= settings.hold_us:
                self._take_down(link)
        busy = any(link.connected or link.up for link in self.links.values())
        self.tick_due = now + settings.heartbeat_us if busy else None
