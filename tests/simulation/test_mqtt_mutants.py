"""The checkers of MQTT lives are tested: every planted bug must be caught within a few hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.blocks import catch, mutants
from tests.simulation.mqtt_mutants import MUTANTS

SEEDS_MAX = 300
KNOWN = {
    "a_crash_takes_the_work_of_its_members_along": 14,
    "answers_before_the_disk": 35,
    "late_alarms": 40,
    "members_elsewhere_are_forgotten": 11,
    "old_grades": 135,
    "only_brokers_that_want_it_get_it": 85,
    "packet_ids_are_not_remembered": 12,
    "release_is_not_kept": 76,
    "release_is_not_repeated": 13,
    "subacks_do_not_wait": 15,
    "work_for_a_broker_without_members_is_lost": 8,
    "work_that_may_be_done_is_done_again": 27,
}
"""Seeds that have caught those that the first few seeds do not."""
RARE = (
    "a_crash_takes_the_work_of_its_members_along",
    "crashes_give_more_time",
    "only_brokers_that_want_it_get_it",
    "work_that_may_be_done_is_done_again",
)
"""Those that take longest to catch."""
WANDERING = ("fences_are_answered_at_once",)
"""Those that lives of clients that move catch at once, and others rarely."""


@pytest.mark.parametrize("name", mutants(MUTANTS, RARE))
def test_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    kind = "wander" if name in WANDERING else "mqtt"
    caught = catch(name, KNOWN, SEEDS_MAX, kind)
    assert caught is not None, f"{name} survived {SEEDS_MAX} seeds"
