"""Fuses on frames: something goes wrong just before or after the n-th frame of a kind is sent.

Frames are known by the names of their types, pages of leftovers also by a name of their own. Whoever has to do with a
frame can be struck: the two ends of the link it is on, and the two brokers it goes between. *Before* means that the
frame is lost with whatever strikes; *after* that it is under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import get_args

from latecomer.messages.hand_over import HandOverFrame, Leftovers, LeftoversWanted, Remembered
from latecomer.messages.link import LinkMessage
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.sides import Observer
from latecomer.sim.world import World

FRAMES = tuple(kind.__name__ for kind in get_args(HandOverFrame) if not kind.__name__.startswith("Shadow"))
"""The frames of hand-overs, but for those that copy sessions (`wander_ahead`)."""
OF_ABSENT_OWNERS = tuple(kind.__name__ for kind in (Remembered, Leftovers, LeftoversWanted))
"""The frames of clients whose sessions are at brokers that are away, or were."""
PAGE = "page of leftovers"
"""Of all `Leftovers`, those that have rows."""
STRIKES = ("crash", "crash", "torn", "cut", "partition", "deafen", "pause", "hop", "break")
ENDS = ("from_broker", "to")
"""Fields in which frames say between whom they go."""


@dataclass(slots=True)
class Fuse:
    """Burns down with every frame of its kind."""

    frame: str
    count: int
    before: bool
    strike: str
    role: int
    """Who is struck, of those who have to do with the frame."""
    time_us: int


@dataclass(slots=True)
class Fuses(Observer):
    """All fuses of a life; an observer of its world."""

    world: World
    strike_client: Callable[[str, str], None]
    """Told what strikes, and the client id in the frame, if it has one."""
    tree_ready: Callable[[BrokerId], None]
    """Told which broker has another tree."""
    say: Callable[[str], None]
    strikes_until: Callable[[Instant], None]
    """Told when the fault of a fuse is over."""
    armed: list[Fuse] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)

    def arm(self, frames: Sequence[str] = FRAMES, draw: Random | None = None) -> None:
        """Put a fuse on one of the frames. What is drawn elsewhere changes nothing until the fuse has burnt down."""
        random = draw or self.world.random
        fuse = Fuse(
            random.choice(frames),
            random.choice((1, 1, 2, 3, 5, 8)),
            random.random() < 0.5,
            random.choice(STRIKES),
            random.randrange(4),
            random.choice((50_000, 300_000, 1_000_000, 2_050_000, 3_000_000, 6_000_000)),
        )
        self.armed.append(fuse)

    def arm_page(self, draw: Random) -> None:
        """A page of leftovers is lost on its way, because one of the brokers it goes between crashes."""
        count, role, time_us = draw.choice((1, 1, 2)), draw.randrange(4), draw.choice((50_000, 300_000, 1_000_000))
        self.armed.append(Fuse(PAGE, count, True, "crash", role, time_us))

    def disarm(self) -> None:
        self.armed.clear()

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        if not self.armed:
            return
        for frame in frames:
            names = _names(frame)
            for fuse in [fuse for fuse in self.armed if fuse.frame in names]:
                fuse.count -= 1
                if not fuse.count:
                    self.armed.remove(fuse)
                    self._blow(fuse, sender, receiver, frame)

    def _blow(self, fuse: Fuse, sender: BrokerId, receiver: BrokerId, frame: LinkMessage) -> None:
        world, when = self.world, "before" if fuse.before else "after"
        ends = [sender, receiver, *_ends(frame, world)]
        broker = ends[fuse.role % len(ends)]
        self.strikes_until(world.now + fuse.time_us)
        self.fired[f"{fuse.frame} {fuse.strike}"] += 1
        self.say(f"fault: {fuse.strike} at {broker} {when} {fuse.frame} from {sender} to {receiver}")
        if fuse.before and fuse.strike in ("crash", "torn", "cut", "partition"):
            self._lose(fuse, broker, sender, receiver)
        # What strikes must not come in the middle of what a broker is doing.
        delay_us = 0 if fuse.before else world.random.choice((0, 0, world.wires[sender, receiver].latency_us, 5_000))
        world.at(world.now + delay_us, self._strike, fuse, broker, sender, receiver, frame)

    def _lose(self, fuse: Fuse, broker: BrokerId, sender: BrokerId, receiver: BrokerId) -> None:
        """The frame does not arrive."""
        if fuse.strike == "cut" or broker not in (sender, receiver):
            self.world.break_wire(sender, receiver, fuse.time_us, silently=True)
            return
        for peer in self.world.nodes[broker].neighbours:
            self.world.break_wire(broker, peer, 0, silently=True)

    def _strike(self, fuse: Fuse, broker: BrokerId, sender: BrokerId, receiver: BrokerId, frame: LinkMessage) -> None:
        world, time_us, silently = self.world, fuse.time_us, self.world.random.random() < 0.5
        if fuse.strike == "crash":
            self._crash(broker, time_us)
        elif fuse.strike == "torn":  # it dies while it writes, or just before or after
            world.nodes[broker].disk_us = 50_000
            world.at(world.now + world.random.randint(0, 150_000), self._crash, broker, time_us)
        elif fuse.strike == "cut":
            world.break_wire(sender, receiver, time_us, silently=silently)
        elif fuse.strike == "partition":
            world.partition([broker], time_us, silently=silently)
        elif fuse.strike == "deafen":
            world.deafen(sender, receiver)
        elif fuse.strike == "pause":
            world.pause(broker, time_us)
        else:
            self.strike_client(fuse.strike, _client(frame))

    def _crash(self, broker: BrokerId, time_us: int) -> None:
        self.world.crash(broker)
        self.world.at(self.world.now + time_us, self.world.start, broker)

    def noted(self, record: Record) -> None:
        if record.kind is Kind.TREE_READY:
            self.tree_ready(record.broker)


def _ends(frame: object, world: World) -> list[BrokerId]:
    found = (getattr(frame, name, "") for name in ENDS)
    return [broker for broker in found if broker in world.nodes]


def _names(frame: LinkMessage) -> tuple[str, ...]:
    """What fuses call a frame."""
    name = type(frame).__name__
    return (name, PAGE) if type(frame) is Leftovers and frame.rows else (name,)


def _client(frame: object) -> str:
    return str(getattr(frame, "client", ""))
