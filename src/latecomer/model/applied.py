"""What became of a plan: the steps that were taken to it, and what was measured afterwards. Files beside the plan."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, TypeAlias, TypeVar

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId
from latecomer.model.plan import Plan

APPLIED_VERSION = 1
"""Of the format; a reader refuses what is newer."""

What: TypeAlias = Literal["fill", "withdraw"]


class Done(msgspec.Struct, frozen=True):
    """A step that was taken."""

    what: What
    broker: BrokerId
    topics: tuple[str, ...]
    begun_us: int
    ended_us: int
    events: int = 0
    """In the store of the broker when it ended."""


class Applied(msgspec.Struct, frozen=True):
    """A plan as it was applied to a running network. Instants are microseconds since 1970."""

    plan: str
    """Identifies the plan."""
    network: str
    begun_us: int
    ended_us: int
    """From then on the network was as the plan says."""
    before: dict[BrokerId, tuple[str, ...]]
    """What each broker kept."""
    after: dict[BrokerId, tuple[str, ...]]
    steps: tuple[Done, ...] = ()
    links: tuple[tuple[BrokerId, BrokerId], ...] = ()
    """The tree that was in force: the ways that requests took."""
    version: int = APPLIED_VERSION


class Reach(msgspec.Struct, frozen=True):
    """How far requests went."""

    requests: int
    hops_mean: float
    error: float = 0.0
    """Standard error of the mean: it is from a sample."""
    unserved: int = 0
    """Requests that nobody could answer."""


class TopicReach(msgspec.Struct, frozen=True):
    topic: str
    requests: int
    measured: float
    expected: float
    """Of these requests, if each goes to the nearest store of the plan."""


class Verdict(msgspec.Struct, frozen=True):
    """What was measured under a plan, beside what was predicted."""

    plan: str
    since_us: int
    until_us: int
    predicted: Reach
    expected: Reach
    """Of the requests that came, if each goes to the nearest store of the plan: without the drift of the demand."""
    measured: Reach
    low: float
    high: float
    """Between these the measured mean must lie for the prediction to hold."""
    confidence: float
    holds: bool
    topics: tuple[TopicReach, ...] = ()
    version: int = APPLIED_VERSION


def plan_id(plan: Plan) -> str:
    """Twelve characters that no other plan has, the same before and after it was a file."""
    read = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)  # a whole number where one may be broken is 1.0
    return blake2b(msgspec.json.encode(read), digest_size=6).hexdigest()


T = TypeVar("T", Applied, Verdict)


def read_record(text: str, source: str, kind: type[T]) -> T:
    try:
        found = msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise SettingsError("", f"not what became of a plan: {error}", source=source) from None
    if found.version > APPLIED_VERSION:
        told = f"of version {found.version}; this program reads up to {APPLIED_VERSION}: use a newer one"
        raise SettingsError("version", told, source=source)
    return found


def write_record(record: Applied | Verdict) -> str:
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"
