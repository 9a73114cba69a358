"""Emptying a broker over its admin interface: sessions leave at a pace; nothing is printed here.

The broker refuses new clients while it is drained. In rounds, each session that is still there is asked to move to one
of the other brokers in turn; a session that ends with its connection has nothing to take along, and its client is
disconnected instead. A round looks at the broker anew, so a run that was stopped is carried on by the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from latecomer.cli.doors import Door, Refused, Unknown, call
from latecomer.cli.session_work import ask_to_move, sessions_at
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId, ClientId
from latecomer.runtime.admin_views import Overview
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.session_views import SessionView

ROUND_SECONDS = 0.5
AGAIN_SECONDS = 10.0
"""After this time without effect, a session is asked to move again."""
GOODBYE = "this broker is drained for maintenance: connect to another one"

Told = Callable[[str, int, int], None]


class Left(msgspec.Struct, frozen=True):
    """A session that is still there, and why."""

    client: ClientId
    why: str


class Drained(msgspec.Struct, frozen=True):
    """What came of draining a broker."""

    broker: BrokerId
    to: tuple[BrokerId, ...]
    moved: int
    """Durable sessions that have left."""
    disconnected: int
    """Clients whose session ended with their connection."""
    seconds: float
    left: tuple[Left, ...] = ()


@dataclass(slots=True)
class Drain:
    """One run."""

    broker: BrokerId
    door: Door
    only: tuple[BrokerId, ...]
    """Where sessions may go; empty: to all others that can be reached."""
    rate: float
    wait_seconds: float
    """Give up after this time without progress."""
    avoid: frozenset[BrokerId] = frozenset()
    """Brokers that are drained themselves."""
    tell: Told = lambda what, done, total: None
    began: float = field(default_factory=time.monotonic)
    targets: tuple[BrokerId, ...] = ()
    turn: int = 0
    asked: dict[ClientId, float] = field(default_factory=dict)
    """Sessions that were asked to move and were still there when last seen, with the instant."""
    refusals: dict[ClientId, str] = field(default_factory=dict)
    moved: int = 0
    disconnected: int = 0
    left: dict[ClientId, SessionView] = field(default_factory=dict)
    """As seen in the last round."""
    total: int = 0
    next_at: float = 0.0
    progress_at: float = 0.0

    def begin(self) -> None:
        """Check that there is somewhere to go before the first client is refused."""
        self.targets = self._targets()
        missing = [broker for broker in self.only if broker not in self.targets]
        if missing:
            why = (
                "it is drained itself" if missing[0] in self.avoid else f"there is no way to it from {self.broker} now"
            )
            raise SettingsError("--to", f"{missing[0]} cannot take sessions: {why}")
        if not self.targets:
            raise LatecomerError(f"{self.broker} reaches no other broker that could take its sessions")
        call(self.door, "drain", dict[str, str], body={"on": True})
        self.total = call(self.door, "overview", Overview).counts["sessions"]
        self.progress_at = time.monotonic()

    def carry_out(self) -> None:
        """Round by round until the broker is empty, or nothing happens any more."""
        while True:
            self.look(self._treat)
            self.tell(f"draining {self.broker}", self.moved + self.disconnected, self.total)
            if not self.left or time.monotonic() - self.progress_at >= self.wait_seconds:
                return
            time.sleep(ROUND_SECONDS)
            self.targets = self._targets()

    def result(self) -> Drained:
        left = tuple(Left(view.client, self._why(view)) for view in self.left.values())
        seconds = round(time.monotonic() - self.began, 3)
        return Drained(self.broker, self.targets, self.moved, self.disconnected, seconds, left)

    def _targets(self) -> tuple[BrokerId, ...]:
        view = call(self.door, "network", NetworkView)
        there = [member.id for member in view.brokers if member.present and member.id != self.broker]
        return tuple(broker for broker in (self.only or there) if broker in there and broker not in self.avoid)

    def look(self, treat: Callable[[SessionView], None] = lambda view: None) -> None:
        """Go through all sessions that are there, and note which have left."""
        seen: dict[ClientId, SessionView] = {}
        for view in sessions_at(self.door):
            seen[view.client] = view
            treat(view)
        gone = [client for client in self.asked if client not in seen]
        for client in gone:
            del self.asked[client]
            self.refusals.pop(client, None)
        self.moved += len(gone)
        if gone:
            self.progress_at = time.monotonic()
        self.left = seen

    def _treat(self, view: SessionView) -> None:
        """Ask one session to leave."""
        if not view.durable or view.where == "visiting":
            self._disconnect(view.client)
        elif view.where in ("leaving", "promised"):
            self.asked.setdefault(view.client, time.monotonic())  # also of an earlier run
        elif view.where == "here" and time.monotonic() - self.asked.get(view.client, -AGAIN_SECONDS) >= AGAIN_SECONDS:
            self._move(view.client)

    def _move(self, client: ClientId) -> None:
        if not self.targets:
            self.refusals[client] = f"there is no way from {self.broker} to another broker now"
            return
        self._pace()
        if client not in self.asked:
            self.progress_at = time.monotonic()
        self.turn += 1
        self.asked[client] = time.monotonic()
        try:
            ask_to_move(self.door, client, self.targets[self.turn % len(self.targets)])
            self.refusals.pop(client, None)
        except Unknown:
            return  # it has left by itself
        except Refused as error:
            self.refusals[client] = str(error)

    def _disconnect(self, client: ClientId) -> None:
        self._pace()
        body: dict[str, Any] = {"client": client, "reason": GOODBYE, "use_another_server": True}
        if self.targets:
            self.turn += 1
            body["to"] = self.targets[self.turn % len(self.targets)]
        try:
            call(self.door, "disconnect", dict[str, str], body=body)
        except Unknown:
            return
        self.disconnected += 1
        self.progress_at = time.monotonic()

    def _pace(self) -> None:
        """Wait for this session's turn."""
        now = time.monotonic()
        self.next_at = max(now, self.next_at)
        if self.next_at > now:
            self.tell(f"draining {self.broker}", self.moved + self.disconnected, self.total)
            time.sleep(self.next_at - now)
        self.next_at += 1 / self.rate

    def _why(self, view: SessionView) -> str:
        if view.waits_for:
            return f"it is on its way here, which waits for {view.waits_for}"
        if not view.durable or view.where == "visiting":
            return "its client is being disconnected"
        if view.where == "here":
            return self.refusals.get(view.client) or (
                "its client is connected" if view.connected else "the other broker has not fetched it"
            )
        words = {
            "arriving": "it is on its way here",
            "leaving": f"it is on its way to {view.partner}",
            "promised": f"it was sent to {view.partner}, which has not confirmed it",
        }
        return words[view.where]


def stop(door: Door) -> int:
    """Accept clients again; how many sessions there are."""
    call(door, "drain", dict[str, str], body={"on": False})
    return call(door, "overview", Overview).counts["sessions"]


def drained_themselves(doors: Sequence[Door]) -> frozenset[BrokerId]:
    """Brokers that refuse new clients because they are drained."""
    found: list[BrokerId] = []
    for door in doors:
        try:
            view = call(door, "overview", Overview)
        except LatecomerError:
            continue
        if view.draining:
            found.append(view.broker)
    return frozenset(found)
