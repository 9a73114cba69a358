"""The checker of questions about the past: what need not be among the last so many."""

from __future__ import annotations

from random import Random

import pytest

from latecomer.core.settings import BrokerSettings
from latecomer.model.event import Event
from latecomer.model.history import Outcome
from latecomer.model.topology_generators import line
from latecomer.sim.clients import SimRequest
from latecomer.sim.history_checkers import Questions
from latecomer.sim.world import World
from tests.unit.store_hand import past, query

ASKED_AT, BEGUN_AT, ENDED_AT = 50, 60, 70
OLD, NEW = past("b1", 1, 10), past("b1", 9, 40)


def missed(before: list[Event], meanwhile: list[Event], last: int) -> int:
    """How many events the checker misses in an answer that holds `NEW` alone: the store had some when the question was
    asked, and got some before it began to answer."""
    violations: list[str] = []
    world = World(line(2), BrokerSettings(), Random(1))
    world.start_all()
    node = world.nodes["b1"]
    node.topics = ("t/#",)
    taken = [str(event.id) for event in (*before, *meanwhile)]
    questions = Questions(world, lambda promise, detail: violations.append(promise), taken, ())
    for event in before:
        node.disk.store.append(event)
    world.run(ASKED_AT)
    request = SimRequest("p", query(last=last))
    questions.asked(request)
    for event in meanwhile:
        node.disk.store.append(event)
    world.run(BEGUN_AT)
    questions.looked("b1", request.query)
    request.events, request.outcome, request.ended_at = [NEW], Outcome(("b1",), 1, 0, True, ""), ENDED_AT
    node.disk.store.trim(ENDED_AT)
    questions.judge()
    assert set(violations) <= {"lost"}
    return len(violations)


def test_the_last_one_came() -> None:
    assert missed([OLD, NEW], [], last=1) == 0


def test_one_of_the_last_two_did_not_come() -> None:
    assert missed([OLD, NEW], [], last=2) == 1


@pytest.mark.parametrize("expires", [BEGUN_AT + 1, ENDED_AT])
def test_one_of_the_last_two_expired_before_its_turn(expires: int) -> None:
    dead = past("b1", 3, 30, expires=expires)
    assert missed([OLD, dead, NEW], [], last=2) == 0
    assert missed([OLD, NEW], [dead], last=2) == 0
    assert missed([OLD, dead, NEW], [], last=3) == 1


@pytest.mark.parametrize("expires", [BEGUN_AT, ENDED_AT + 1])
def test_what_died_earlier_or_still_lives_takes_no_place(expires: int) -> None:
    assert missed([OLD, past("b1", 3, 30, expires=expires), NEW], [], last=2) == 1


def test_what_died_and_is_older_takes_no_place() -> None:
    assert missed([past("b1", 0, 5, expires=65), OLD, NEW], [], last=2) == 1


def test_what_died_and_was_not_asked_for_takes_no_place() -> None:
    assert missed([OLD, past("b1", 3, 30, "u/x", expires=65), NEW], [], last=2) == 1
