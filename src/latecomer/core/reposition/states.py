"""In which state a broker is about a proposal, as the one who made it and as one that gets ready for it.

A pair of state and fact that is not in a table changes nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Managing(StrEnum):
    """Of a broker that may propose positions: any may."""

    RESTING = "resting"
    PROPOSING = "proposing"


class Moving(StrEnum):
    """Of every broker, about the newest proposal of anybody."""

    IDLE = "idle"
    PREPARING = "preparing"
    """Links that the proposed positions need are not up yet."""
    PREPARED = "prepared"


class Fact(StrEnum):
    """What happens to either."""

    WANTED = "wanted"
    """The operator wants positions."""
    ALL_PREPARED = "all prepared"
    FAILED = "failed"
    """Time is over, a broker came or went or cannot prepare, others have newer positions, or the operator says so."""
    PROPOSED = "proposed"
    """A proposal for the present positions, newer than any before, by a broker of the tree."""
    LINKED = "linked"
    """Every link that is needed is up."""
    HOPELESS = "hopeless"
    """A link that is needed will not come."""
    TREE_READY = "tree ready"
    """What was sent along the tree before may be lost."""
    OVER = "over"
    """Withdrawn, overtaken, in force, or without a proposer."""


class Act(StrEnum):
    """What the broker does about it."""

    PROPOSE = "propose"
    PUT_IN_FORCE = "put in force"
    WITHDRAW = "withdraw"
    PREPARE = "prepare"
    REPORT = "report"
    FORGET = "forget"


MANAGER: Final[dict[tuple[Managing, Fact], tuple[Act, Managing]]] = {
    (Managing.RESTING, Fact.WANTED): (Act.PROPOSE, Managing.PROPOSING),
    (Managing.PROPOSING, Fact.ALL_PREPARED): (Act.PUT_IN_FORCE, Managing.RESTING),
    (Managing.PROPOSING, Fact.FAILED): (Act.WITHDRAW, Managing.RESTING),
}
MOVER: Final[dict[tuple[Moving, Fact], tuple[Act, Moving]]] = {
    (Moving.IDLE, Fact.PROPOSED): (Act.PREPARE, Moving.PREPARING),
    (Moving.PREPARING, Fact.LINKED): (Act.REPORT, Moving.PREPARED),
    (Moving.PREPARING, Fact.HOPELESS): (Act.REPORT, Moving.IDLE),
    (Moving.PREPARED, Fact.TREE_READY): (Act.REPORT, Moving.PREPARED),
    (Moving.PREPARING, Fact.OVER): (Act.FORGET, Moving.IDLE),
    (Moving.PREPARED, Fact.OVER): (Act.FORGET, Moving.IDLE),
}
