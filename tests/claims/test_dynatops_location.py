"""The location model of *dynatops*: people on a ground, the systems that are compared, and how sentences are judged."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from latecomer.experiments.claim import Claim
from latecomer.experiments.dynatops.comparators.bayeux import random_ids, tapestry
from latecomer.experiments.dynatops.comparators.bayeux_proximity import near_tapestry
from latecomer.experiments.dynatops.comparators.geops import geops, regrouped
from latecomer.experiments.dynatops.location.claims import CLAIMS
from latecomer.experiments.dynatops.location.delays import Chance, round_trips
from latecomer.experiments.dynatops.location.ground import NOWHERE, PAPER, Ground
from latecomer.experiments.dynatops.location.located import (
    BAYEUX_PLACE,
    BAYEUX_STATIC,
    BNR,
    BOTH,
    BS,
    CHORD_PLACE,
    GEOPS,
    ON_CHORD,
    OTHERS,
    Located,
    of,
)
from latecomer.experiments.dynatops.location.reading import SIZES
from latecomer.experiments.dynatops.location.spread import made_up, spread_calibration
from latecomer.experiments.dynatops.location.visits import friends_by_chance, published_by_hour, rows_of, workload_of
from latecomer.experiments.dynatops.workload import MOVE
from latecomer.experiments.grid import Measures, Setting, Table
from latecomer.pipeline.calibration import built_in

SEEDS = 20
SMALL = Ground(rows=4, columns=12, south=30.0, west=-125.0, north=50.0, east=-65.0)
TINY = Located(
    rows=4,
    columns=12,
    south=30.0,
    west=-125.0,
    degrees=5.0,
    side=8,
    branches=(2, 2, 2),
    users=200,
    months=1,
    checkins=6_000,
    every_h=100,
    free_h=336,
    sizes=(4,),
    systems=(*OTHERS, *ON_CHORD, BS, BNR, BOTH),
)


# -- ground, delays


def test_a_broker_stands_in_its_own_cell_and_nothing_is_outside_but_what_is() -> None:
    assert PAPER.cells == 1200
    assert (PAPER.cell_of(*PAPER.middles()) == np.arange(1200)).all()
    outside = PAPER.cell_of(np.array([28.9, 49.0, 40.0, 40.0]), np.array([-100.0, -100.0, -126.1, -66.0]))
    assert (outside == NOWHERE).all()


@pytest.mark.parametrize("size", [1, 5, 10, 50])
def test_a_cluster_has_so_many_brokers_and_they_are_near(size: int) -> None:
    clusters = PAPER.clusters(size)
    assert set(np.bincount(clusters)) == {size}
    far = PAPER.kilometres()
    same = clusters[:, None] == clusters[None, :]
    assert far[same].mean() < far[~same].mean() / 4


@pytest.mark.parametrize("chance", ["uniform", "exponential", "none"])
def test_a_round_trip_is_as_long_as_the_way_on_average_and_the_same_both_ways(chance: Chance) -> None:
    far = SMALL.kilometres()
    draws = [round_trips(far, chance, np.random.default_rng(seed)) for seed in range(30)]
    assert all((one == one.T).all() and not np.diag(one).any() for one in draws)
    apart = ~np.eye(len(far), dtype=bool)
    assert np.mean([one[apart].sum() for one in draws]) == pytest.approx(far[apart].sum(), rel=0.05)
    assert (round_trips(far, chance, np.random.default_rng(3)) == draws[3]).all()


# -- people


def test_successive_check_ins_in_a_cell_are_one_visit_and_followers_follow() -> None:
    user = np.array([0, 0, 0, 0, 1, 1])
    time_s = np.array([0, 3600, 7200, 9000, 10, 8000])
    cell = np.array([5, 5, 2, 5, 4, 3])
    friends = np.array([[1], [0]])
    rows = rows_of(user, time_s, cell, friends)
    workload = workload_of(rows, published_by_hour(time_s, cell, 0, 6), 0, 6, users=2, followed=1)
    assert workload.where.tolist() == [5, 4]
    assert workload.slots.tolist() == [[5, 4], [4, 5]]
    told = zip(*(getattr(workload.changes, name).tolist() for name in ("time", "user", "slot", "what")), strict=True)
    assert list(told) == [
        (2.0, 0, MOVE, 2),
        (2.0, 0, 0, 2),
        (2.0, 1, 1, 2),
        (pytest.approx(8000 / 3600), 0, 1, 3),
        (pytest.approx(8000 / 3600), 1, MOVE, 3),
        (pytest.approx(8000 / 3600), 1, 0, 3),
        (2.5, 0, MOVE, 5),
        (2.5, 0, 0, 5),
        (2.5, 1, 1, 5),
    ]
    assert workload.published.sum(axis=1).tolist() == [2, 1, 3]


@pytest.mark.parametrize("users", [2, 4, 5, 100])
def test_everybody_follows_others_and_nobody_twice(users: int) -> None:
    friends = friends_by_chance(users, 4, np.random.default_rng(users))
    assert friends.shape == (users, min(4, users - 1))
    assert all(len({one, *row}) == 1 + len(row) for one, row in enumerate(friends.tolist()))


def test_the_new_calibration_has_people_in_every_cell_and_most_of_them_where_they_were() -> None:
    spread = spread_calibration(built_in(), PAPER).check("here")
    assert len(spread.places) == PAPER.cells
    homes = np.array([place.homes for place in spread.places])
    assert homes.min() > 0
    largest = spread.places[int(homes.argmax())]
    assert (largest.row, largest.column) == (40, -74)  # New York


def test_the_same_seed_makes_the_same_people_and_all_are_inside() -> None:
    some, again, others = (
        made_up(SMALL, "spread", users=60, months=1, checkins=1_500, seed=seed) for seed in (1, 1, 2)
    )
    assert (some.changes.what == again.changes.what).all()
    assert (some.slots == again.slots).all()
    assert not np.array_equal(some.slots, others.slots)
    assert some.where.min() >= 0
    assert some.slots.min() >= 0


# -- comparators


@pytest.mark.parametrize(("branches", "most"), [((2, 2, 2), 6), ((4, 2), 4), ((8,), 2)])
def test_routes_of_geops_form_trees_of_squares(branches: tuple[int, ...], most: int) -> None:
    overlay = geops(8, branches)
    trees = overlay.trees
    assert trees.depth.max() <= most
    assert ((trees.parent < 0).sum(axis=1) == 1).all()
    for root in range(64):
        for at in range(64):
            if at != root:
                assert trees.depth[root, at] == trees.depth[root, trees.parent[root, at]] + 1


def test_who_stays_in_a_square_of_geops_does_not_move() -> None:
    workload = made_up(SMALL, "spread", users=60, months=1, checkins=1_500)
    squares = np.arange(SMALL.cells) // 2
    other = regrouped(workload, squares, SMALL.cells // 2)
    assert (other.where == workload.where // 2).all()
    assert other.published.sum() == workload.published.sum()
    assert other.published[:, 0].sum() == workload.published[:, :2].sum()


def test_proximity_makes_hops_shorter() -> None:
    delay = round_trips(PAPER.kilometres()[:200, :200], "uniform", np.random.default_rng(0))
    ids, keys = (random_ids(200, np.random.default_rng(seed)) for seed in (1, 2))
    near = near_tapestry(ids, keys, delay)
    other = tapestry(ids, keys, np.random.default_rng(3).random(delay.shape))
    everywhere = np.arange(200)
    assert (near.roots == other.roots).all()
    assert near.lengths(everywhere, delay).down.mean() < 0.8 * other.lengths(everywhere, delay).down.mean()


# -- a run


@pytest.fixture(scope="module")
def measured() -> Measures:
    return TINY.measure(0)


def test_hand_overs_follow_the_rule(measured: Measures) -> None:
    workload = made_up(TINY.ground, "spread", users=TINY.users, months=1, checkins=TINY.checkins, seed=0)
    moves = int((workload.changes.slot == MOVE).sum())
    assert measured[f"hand_overs:{BAYEUX_STATIC}"] == 0
    assert measured[f"hand_overs:{BAYEUX_PLACE}"] == measured[f"hand_overs:{CHORD_PLACE}"] == moves > 0
    assert 0 < measured[f"hand_overs:{GEOPS}"] <= moves
    literal = msgspec.structs.replace(TINY, systems=(BS,), similarity="after", load_weight=0.0)
    assert literal.measure(0)[f"hand_overs:{of(BS, 4)}"] == 0
    area = msgspec.structs.replace(literal, area=True).measure(0)[f"hand_overs:{of(BS, 4)}"]
    clusters = TINY.ground.clusters(4)
    where, crossed = workload.where.copy(), 0
    for user, slot, what in zip(workload.changes.user, workload.changes.slot, workload.changes.what, strict=True):
        if slot == MOVE:
            crossed += clusters[where[user]] != clusters[what]
            where[user] = what
    assert area == crossed


def test_exchange_is_counted_for_each_pair_of_a_cluster(measured: Measures) -> None:
    brokers, hours = TINY.ground.cells, 31 * 24
    assert measured[f"exchange:{of(BS, 4)}"] == brokers * 3 * (hours // 24)
    assert measured[f"management:{of(BS, 4)}"] == measured[f"exchange:{of(BS, 4)}"] + measured[f"trees:{of(BS, 4)}"]
    assert measured[f"exchange:{BAYEUX_PLACE}"] == 0


def test_reconfiguration_does_not_change_who_subscribes_to_what(measured: Measures) -> None:
    for name in ("changes", "hand_overs", "load_spread", "topics"):
        assert measured[f"{name}:{BNR}"] == measured[f"{name}:{CHORD_PLACE}"]
        assert measured[f"{name}:{of(BOTH, 4)}"] == measured[f"{name}:{of(BS, 4)}"]


# -- claims


def claim(id: str) -> Claim:
    return next(one for one in CLAIMS if one.id == id)


def table(found: Claim, value: Callable[[Located, str, str, int], float]) -> Table:
    """As if this had been measured, `value` of setting, measure, system and cluster size; seeds are nearly alike."""

    def row(setting: Setting, seed: int) -> Measures:
        assert isinstance(setting, Located)
        measures = {}
        for key in TEMPLATE:
            for system in setting.systems:
                for size in setting.sizes if system in (BS, BOTH) else (0,):
                    label = of(system, size) if size else system
                    measures[f"{key}:{label}"] = value(setting, key, system, size) * (1 + seed / 1e5)
        return measures

    return Table(
        {
            setting: [row(setting, seed) for seed in range(setting.runs(SEEDS))]
            for setting in found.settings(quick=False)
        }
    )


TEMPLATE = (
    "management", "trees", "core_trees", "exchange", "changes", "hand_overs", "load_spread", "load_highest", "topics",
    "delay", "delay_from_root", "core_delay", "overhead", "core_overhead", "internal", "external", "climb",
    "reconfigurations", "movers", "price", "counted", "reports",
)  # fmt: skip


def words(found: Claim, value: Callable[[Located, str, str, int], float]) -> tuple[str, list[str]]:
    verdict = found.judge(table(found, value), quick=False)
    return verdict.verdict, [part.word for part in verdict.judged()]


def test_the_measures_that_claims_read_are_those_of_a_run(measured: Measures) -> None:
    assert {key.partition(":")[0] for key in measured} == set(TEMPLATE)


def test_d3_falls_and_rises() -> None:
    def papers(setting: Located, key: str, system: str, size: int) -> float:
        return {5: 50.0, 10: 45.0, 20: 40.0, 50: 44.0}.get(size, 100.0)

    assert words(claim("D3"), papers) == ("reproduced", ["reproduced"] * 3)

    def only_falls(setting: Located, key: str, system: str, size: int) -> float:
        return 60.0 - size / 2 if size else 100.0

    assert words(claim("D3"), only_falls)[1] == ["reproduced", "reproduced", "not reproduced"]


def test_d4_compares_the_weights() -> None:
    def papers(setting: Located, key: str, system: str, size: int) -> float:
        return 1.0 if setting.load_weight or not size else 1.1 + size / 100

    assert words(claim("D4"), papers)[0] == "reproduced"

    def weight_is_worse(setting: Located, key: str, system: str, size: int) -> float:
        return 1.0 if setting.load_weight or not size else 0.9 - size / 100

    assert words(claim("D4"), weight_is_worse)[0] == "not reproduced"


def test_d5_is_judged_with_the_literal_rule() -> None:
    def papers(setting: Located, key: str, system: str, size: int) -> float:
        return 100.0 if not size else 60.0 if setting.area else 5.0

    assert words(claim("D5"), papers) == ("reproduced", ["reproduced"])


def test_d6_is_judged_against_every_bayeux_and_geops() -> None:
    def papers(setting: Located, key: str, system: str, size: int) -> float:
        if system == BOTH:
            return 30.0
        return 60.0 if system == GEOPS else 100.0

    assert words(claim("D6"), papers) == ("reproduced", ["reproduced"] * 4)

    def static_only(setting: Located, key: str, system: str, size: int) -> float:
        return 100.0 if system in (BAYEUX_STATIC, GEOPS) else 30.0

    assert words(claim("D6"), static_only)[0] == "partly"


def test_d7_and_d12_are_directions() -> None:
    falling = dict(zip(SIZES, (90.0, 85.0, 80.0, 70.0), strict=True))
    assert words(claim("D7"), lambda s, key, system, size: falling.get(size, 100.0))[0] == "reproduced"
    assert words(claim("D7"), lambda s, key, system, size: 200.0 - falling.get(size, 0.0))[0] == "not reproduced"

    def only_bnr(setting: Located, key: str, system: str, size: int) -> float:
        return 80.0 if system == BNR else 110.0 if system == BS else 100.0

    assert words(claim("D12"), only_bnr)[1] == ["not reproduced", "not reproduced", "reproduced", "reproduced"]


def test_d10_degrades_slightly() -> None:
    def papers(setting: Located, key: str, system: str, size: int) -> float:
        return 1e6 / setting.free_h if key in ("price", "counted") else 100 + setting.free_h / 100

    assert words(claim("D10-location"), papers)[0] == "reproduced"


@pytest.mark.parametrize("found", CLAIMS, ids=lambda found: found.id)
def test_every_claim_draws_its_figure_and_shows_its_sweeps(found: Claim) -> None:
    told = table(found, lambda setting, key, system, size: 1.0 + size)
    assert all(
        curve.points for chart in found.charts(told, quick=False) for panel in chart.panels for curve in panel.curves
    )
    for sweep in found.sweeps():
        assert sweep.chosen in sweep.options
        assert all(column.show(told, setting) for setting in sweep.options.values() for column in sweep.columns)
