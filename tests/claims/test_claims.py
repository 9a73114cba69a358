"""The papers' claims, in small: examples to the digit, figures by direction and order."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from latecomer.experiments.claim import Claim
from latecomer.experiments.grid import Measures, Table, measure
from latecomer.experiments.live import Live
from latecomer.experiments.papers import PAPERS, chosen, reproduce
from latecomer.experiments.parts import agreement
from latecomer.experiments.planning.drift import BASE as DRIFT
from latecomer.experiments.planning.failures import BASE as FAILURES
from latecomer.experiments.planning.locality import BASE as LOCALITY
from latecomer.experiments.planning.popularity import BASE as POPULARITY
from latecomer.experiments.planning.replication import BASE as REPLICATION
from latecomer.experiments.storing.placement import BASE as STORING
from latecomer.experiments.trials import Placing
from latecomer.model.errors import SettingsError

NOTHING = Table({})
change = msgspec.structs.replace


def claim(id: str) -> Claim:
    return chosen([id])[0]


@pytest.mark.parametrize(("id", "first"), [("S1", "consistent, input fitted"), ("S2", "reproduced")])
def test_the_worked_examples_are_exact(id: str, first: str) -> None:
    """S1's rates were searched for until the printed votes came out; what follows from the votes is the paper's."""
    verdict = claim(id).judge(NOTHING, quick=True)
    assert verdict.verdict == first
    assert [part.word for part in verdict.parts] == [first] + ["reproduced"] * (len(verdict.parts) - 1)
    assert verdict.old == "reproduced"


def means(setting: Placing, seeds: int = 6) -> Measures:
    rows = measure([setting], seeds).rows[setting]
    return {name: sum(row[name] for row in rows) / seeds for name in rows[0]}


def test_s3_full_stores_do_as_well_as_no_limits_with_fewer_stores() -> None:
    base = means(change(STORING, brokers=60))
    assert base["hops_grd_opt"] < base["hops_seq"] < base["hops_rnd"]
    found = means(change(STORING, brokers=60, capacity=10))
    assert found["hops_seq"] == pytest.approx(found["hops_grd_opt"], rel=0.1)
    assert 1.5 < found["stores_grd_opt"] / found["stores_seq"] < 4


def test_s4_between_rnd_and_grd_opt_and_better_with_more_room_and_replicas() -> None:
    base = means(change(REPLICATION, brokers=60))
    assert base["hops_grd_opt"] < base["hops_wrr"] < base["hops_rnd"]
    assert means(change(REPLICATION, brokers=60, capacity=10))["hops_wrr"] < base["hops_wrr"]
    assert means(change(REPLICATION, brokers=60, replicas=3))["hops_wrr"] < base["hops_wrr"]
    assert base["hops_wrr"] < means(change(REPLICATION, brokers=120))["hops_wrr"] < 2 * base["hops_wrr"]


def test_s5_the_exponent_of_popularity_shortens_the_way_and_its_sign_is_a_name() -> None:
    uniform, positive, negative = (means(change(POPULARITY, brokers=60, popularity=s)) for s in (0.0, 1.0, -1.0))
    assert positive["hops_wrr"] < uniform["hops_wrr"]
    assert negative["hops_grd_opt"] == pytest.approx(positive["hops_grd_opt"])


def test_s6_who_has_no_limits_uses_three_times_the_stores() -> None:
    found = means(change(LOCALITY, stores=10, locality=0.5))
    assert found["hops_wrr"] > 2 * found["hops_grd_opt"]
    assert found["stores_grd_opt"] / found["stores_wrr"] == pytest.approx(3.3, abs=0.6)


def test_s7_every_failure_makes_the_way_longer_by_about_as_much() -> None:
    hops = [means(change(FAILURES, failed=failed), 4)["hops_wrr"] for failed in (0, 2, 4)]
    assert hops[0] < hops[1] < hops[2]
    assert hops[2] - hops[1] == pytest.approx(hops[1] - hops[0], rel=0.5)


def test_s8_reassignment_gains_most_at_full_inversion_and_is_as_good_as_a_new_plan() -> None:
    kept, half, inverted = (means(change(DRIFT, popularity=s), 4) for s in (-1.0, -0.5, 1.0))
    assert kept["reassigned_wrr"] == kept["kept_wrr"], "under unchanged demand nothing moves"
    assert half["reassigned_wrr"] > 0.9 * half["kept_wrr"]
    assert inverted["reassigned_wrr"] < 0.65 * inverted["kept_wrr"]
    assert inverted["reassigned_wrr"] < 1.08 * inverted["replanned_wrr"]


def test_s9_reassignment_gains_when_locality_drifts() -> None:
    kept, inverted = (means(change(DRIFT, locality=s, neighbourhood="relative"), 4) for s in (-1.0, 1.0))
    assert kept["reassigned_seq"] == kept["kept_seq"]
    assert inverted["reassigned_wrr"] < 0.6 * inverted["kept_wrr"]


def test_the_planners_own_answer_is_between_the_bound_and_the_papers() -> None:
    found = means(change(REPLICATION, brokers=60, solved=True), 3)
    assert found["hops_bound"] <= found["hops_refined"] <= found["hops_within"] <= found["hops_wrr"]


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(STORING, id="S3"),
        pytest.param(REPLICATION, id="S4", marks=pytest.mark.long),
        pytest.param(LOCALITY, id="S6", marks=pytest.mark.long),
    ],
)
def test_simulated_requests_travel_as_far_as_the_closed_form_says(base: Placing) -> None:
    """On the broker core, message by message; twelve runs, within the 95 % interval of their mean."""
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    few = {"stores": 8} if base.stores is not None else {}
    live = Live(**{**fields, "brokers": 30, **few}, algorithm="seq", asked=400)
    table = measure([live], 12)
    check = agreement(table, [live])
    assert (check.old, check.judged) == ("reproduced", False)
    assert min(table.values(live, "answers")) > 300
    off = [abs(row["simulated"] - row["expected"]) / row["error"] for row in table.rows[live]]
    assert max(off) < 4


def test_quick_figures_are_drawn_and_judged(tmp_path: Path) -> None:
    outcome = reproduce(claim("S7"), tmp_path, 2, quick=True)
    assert outcome.verdict.id == "S7"
    assert outcome.verdict.parts[0].interval is not None
    drawn = tmp_path / "planning-fig9.svg"
    first = drawn.read_bytes()
    assert b"<svg" in first
    again = reproduce(claim("S7"), tmp_path, 2, quick=True)
    assert again.verdict == outcome.verdict
    assert drawn.read_bytes() == first


def test_claims_are_chosen_by_paper_and_by_id_in_the_order_of_the_ledger() -> None:
    stores = ["S3", "S10-storing", "S1", "S2", "S4", "S5", "S6", "S7", "S8", "S9", "S10-planning"]
    moves = ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11", "M12", "M13", "M14", "M15"]
    minds = [f"D{number}" for number in (1, *range(3, 10))] + [
        "D10-poisson",
        "D10-location",
        "D11",
        "D12",
        "D13",
        "D14",
    ]
    ledger = stores + minds + moves
    assert ids([]) == ids(["mobility", "planning", "dynatops", "storing"]) == ledger
    assert ids(["planning", "storing"]) == stores
    assert ids(["mobility"]) == moves
    assert ids(["dynatops"]) == minds
    assert ids(["storing"]) == ["S3", "S10-storing"]
    assert ids(["S9", "S4", "S3", "S9"]) == ["S3", "S4", "S9"]
    assert {found.paper for found in chosen(["planning"])} == {"planning"}
    assert sum(map(len, PAPERS.values())) == len(ledger)
    with pytest.raises(
        SettingsError, match="there is no 'S12'; choose from storing, planning, dynatops, mobility, S3, S10, S1"
    ):
        chosen(["S12"])


def test_a_paper_beside_claims_adds_no_others() -> None:
    assert ids(["storing", "planning", "S1", "S2"]) == ["S1", "S2"]
    assert ids(["S10"]) == ["S10-storing", "S10-planning"]
    assert ids(["S10", "storing"]) == ["S10-storing"]
    assert ids(["S10-planning"]) == ["S10-planning"]
    with pytest.raises(SettingsError, match="S4 is a claim of planning: leave out storing"):
        chosen(["storing", "S4"])


def ids(names: list[str]) -> list[str]:
    return [found.id for found in chosen(names)]
