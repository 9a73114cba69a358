"""A broker leaves a running network: emptied, taken out of the tree, forgotten, stopped; nothing is printed here.

Each step looks at how things are, so a run that was stopped is carried on by the next. The links go before the broker
does, because a link that is taken away is told to everybody at once, while one that breaks is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from latecomer.cli.doors import Door, Silent, call
from latecomer.cli.drain_work import Drain, Drained, Told
from latecomer.cli.join_work import Host, views_of
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId
from latecomer.model.topology import quoted
from latecomer.runtime.admin_views import Overview
from latecomer.runtime.neighbourhood import NeighboursView
from latecomer.runtime.network_views import NetworkView

LOOK_SECONDS = 0.1


class Left(msgspec.Struct, frozen=True):
    """What came of it."""

    broker: BrokerId
    drained: Drained | None
    """None: it does not run."""
    parted: tuple[BrokerId, ...]
    """Those that had links with it, and have none any more."""
    forgotten: bool
    stopped: bool
    seconds: float


@dataclass(slots=True)
class Leave:
    """One run."""

    broker: BrokerId
    own: Host | None
    """None: it does not answer."""
    others: list[Host]
    force: bool
    rate: float
    wait_seconds: float
    tell: Told = lambda what, done, total: None
    began: float = field(default_factory=time.monotonic)
    drained: Drained | None = None
    parted: list[BrokerId] = field(default_factory=list)
    forgotten: bool = False
    stopped: bool = False

    def begin(self) -> None:
        """See whether the network can do without it, before anything is done."""
        if self.own is None and not self.force:
            raise Silent(
                f"{self.broker} does not answer, and its sessions cannot leave it: start it; "
                "or give up what it has with --force"
            )
        view = self._network()
        known = {member.id: member for member in view.brokers}
        if self.broker not in known and self.own is None and not self._linked():
            raise LatecomerError(f"nobody knows a broker {quoted(self.broker)}: {', '.join(known)} are there")
        if self.force:
            return
        if parts := cut_off(view, self.broker):
            apart = " and ".join(" ".join(part) for part in parts)
            raise LatecomerError(
                f"without {self.broker}, the network falls into {apart}: link them first, or go on with --force"
            )
        kept = {row.topics for row in view.kept if row.broker != self.broker and row.answering}
        alone = [row.topics for row in view.kept if row.broker == self.broker and row.topics not in kept]
        if alone:
            raise LatecomerError(
                f"{self.broker} alone keeps the past of {', '.join(alone)}: let another store take it over first "
                "('latecomer apply'), or lose it with --force"
            )
        named = {host.view.broker for host in self.others}
        assert self.own is not None
        missing = [each.id for each in self.own.view.neighbours if each.id not in named]
        if missing:
            raise LatecomerError(
                f"{', '.join(missing)} cannot be told: name them as well (--config, --admin), or go on with --force"
            )

    def carry_out(self, gone: Callable[[], None] = lambda: None) -> None:
        """Step by step; `gone` is what is to be done before it stops."""
        if self.own is not None:
            self._drain(self.own)
            self._finish(self.own)
        self._part()
        self._forget()
        gone()
        if self.own is not None:
            call(self.own.door, "shutdown", dict[str, str], body={})
            self.stopped = True

    def result(self) -> Left:
        seconds = round(time.monotonic() - self.began, 3)
        return Left(self.broker, self.drained, tuple(self.parted), self.forgotten, self.stopped, seconds)

    def _network(self) -> NetworkView:
        problem: LatecomerError | None = None
        for host in self.others:
            try:
                return call(host.door, "network", NetworkView)
            except LatecomerError as error:
                problem = problem or error
        raise problem or Silent(f"no other broker than {self.broker} is named, or answers")

    def _drain(self, own: Host) -> None:
        """Sessions move to the others, as by `latecomer drain`."""
        work = Drain(self.broker, own.door, (), self.rate, self.wait_seconds, tell=self.tell)
        if not self._sessions(own):  # as in a run after one that was stopped: perhaps it reaches nobody any more
            call(own.door, "drain", dict[str, str], body={"on": True})
        if self._sessions(own):
            try:
                work.begin()
                work.carry_out()
            except LatecomerError:
                if not self.force:
                    raise
        self.drained = work.result()
        if self.drained.left and not self.force:
            first = self.drained.left[0]
            raise LatecomerError(
                f"{len(self.drained.left)} sessions are left at {self.broker}, as that of {quoted(first.client)}: "
                f"{first.why}; run this again to go on, or give them up with --force"
            )

    def _sessions(self, own: Host) -> int:
        return call(own.door, "overview", Overview).counts["sessions"]

    def _finish(self, own: Host) -> None:
        """What it has accepted, everybody has to have: it is on no other disk."""
        until = time.monotonic() + self.wait_seconds
        while kept := call(own.door, "overview", Overview).counts["outbox_messages"]:
            self.tell(f"{self.broker} hands out what it keeps", 0, kept)
            if self.force or time.monotonic() >= until:
                break
            time.sleep(LOOK_SECONDS)
        if kept and not self.force:
            members = call(own.door, "network", NetworkView).brokers
            absent = [member.id for member in members if not member.present]
            why = f"for {', '.join(absent)}: start them" if absent else "that not everybody has: run this again"
            raise LatecomerError(f"{self.broker} keeps {kept:,} messages {why}, or give them up with --force")

    def _linked(self) -> list[Host]:
        """Those that are to have a link with it."""
        return [host for host in self.others if any(each.id == self.broker for each in host.view.neighbours)]

    def _part(self) -> None:
        linked = self._linked()
        for host in linked:
            self.tell(f"taking away the links of {self.broker}", len(self.parted), len(linked))
            call(host.door, "neighbours", NeighboursView, {"id": self.broker}, method="DELETE")
            self.parted.append(host.view.broker)

    def _forget(self) -> None:
        """When it has gone out of the tree, nobody is to keep anything for it; one broker tells all."""
        door = self.others[0].door
        until = time.monotonic() + self.wait_seconds
        while True:
            view = self._network()
            known = next((member for member in view.brokers if member.id == self.broker), None)
            if known is None:
                self.forgotten = True
                return
            if not known.present:
                call(door, "forget", dict[str, str], body={"broker": self.broker})
            elif time.monotonic() >= until:
                raise LatecomerError(
                    f"{self.broker} is still in the tree: who has links with it was not named; name all brokers"
                )
            self.tell(f"waiting until {self.broker} is gone", 0, 0)
            time.sleep(LOOK_SECONDS)


def cut_off(view: NetworkView, broker: BrokerId) -> list[list[BrokerId]]:
    """The parts into which a network falls without a broker; nothing if it stays in one piece."""
    there = [member.id for member in view.brokers if member.present and member.id != broker]
    beside: dict[BrokerId, list[BrokerId]] = {id: [] for id in there}
    for wire in view.links:
        if wire.a in beside and wire.b in beside:
            beside[wire.a].append(wire.b)
            beside[wire.b].append(wire.a)
    parts: list[list[BrokerId]] = []
    seen: dict[BrokerId, None] = {}
    for start in there:
        if start in seen:
            continue
        part, waiting = [], [start]
        seen[start] = None
        while waiting:
            part.append(waiting.pop())
            for peer in beside[part[-1]]:
                if peer not in seen:
                    seen[peer] = None
                    waiting.append(peer)
        parts.append(sorted(part))
    return parts if len(parts) > 1 else []


def leave_of(
    broker: BrokerId,
    doors: Sequence[Door],
    *,
    force: bool,
    rate: float,
    wait_seconds: float,
    tell: Callable[[str, int, int], None],
) -> Leave:
    """The brokers that answer, sorted into the one that leaves and the others."""
    hosts, silent = views_of(doors)
    own = next((host for host in hosts if host.view.broker == broker), None)
    others = [host for host in hosts if host is not own]
    if not others:
        raise Silent("; ".join(silent[:3]) or f"no other broker than {broker} is named")
    return Leave(broker, own, others, force, rate, wait_seconds, tell)
