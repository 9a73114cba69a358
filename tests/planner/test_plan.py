"""Plans as files."""

from __future__ import annotations

import msgspec
import pytest

from latecomer.model.demand import Demand
from latecomer.model.errors import SettingsError
from latecomer.model.plan import Move, Plan, PlanLimits, Prediction, read_plan, write_plan

PLAN = Plan(
    topology="walk-through",
    brokers=("1", "2", "3"),
    algorithm="wrr",
    stores=("3", "2"),
    replicas={"a": ("3",), "b": ("2", "3")},
    prediction=Prediction("wrr", cost=12.5, rate=5, hops_mean=2.5, bound=12, gap=0.5 / 12),
    limits=PlanLimits(
        stores=2, capacity=2, domains={"1": "x"}, pinned_topics={"a": ("3",)}, objectives=("hops", "moves")
    ),
    others=(Prediction("rnd", cost=20, rate=5, hops_mean=4),),
    refusals=("no",),
    moves=(Move("a", None, "3", 70),),
    demand=Demand(("a", "b"), {"a": {"1": 5}}),
)


def test_what_is_written_is_read() -> None:
    assert read_plan(write_plan(PLAN), "p") == PLAN


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (msgspec.structs.replace(PLAN, version=2), "p: version: a plan of version 2"),
        (msgspec.structs.replace(PLAN, brokers=("1", "2", "2", "3")), "p: brokers: a broker is named twice"),
        (msgspec.structs.replace(PLAN, stores=("3", "2", "2")), "p: stores: a store is named twice"),
        (msgspec.structs.replace(PLAN, stores=("3", "2", "4")), "p: stores: the store '4' is not among the brokers"),
        (msgspec.structs.replace(PLAN, replicas={"a": ("1",)}), "p: replicas.a: '1' is not among the stores"),
        (msgspec.structs.replace(PLAN, replicas={"a": ("3", "3")}), "p: replicas.a: a store is named twice"),
        (msgspec.structs.replace(PLAN, demand=Demand((), {})), "p: topics: demand without topics"),
    ],
)
def test_a_plan_that_contradicts_itself(plan: Plan, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_plan(write_plan(plan), "p")
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"topology": 1}'])
def test_no_plan_at_all(text: str) -> None:
    with pytest.raises(SettingsError, match="p: plan: not a plan"):
        read_plan(text, "p")
