"""The counted model of whole runs, next to a simulation that is as slow and plain as can be."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.algorithms.registry import ALGORITHMS, DRAWN
from latecomer.experiments.mobility.cost_model import events, migration
from latecomer.experiments.mobility.ground import Ground, ground
from latecomer.experiments.mobility.interest import multicast_hops
from latecomer.experiments.mobility.movements import LEAVES, MINUTE_S, Name, folded
from latecomer.experiments.mobility.play import Conditions, Played, play
from latecomer.experiments.mobility.publications import SUBSCRIPTIONS, covering, matching
from latecomer.experiments.mobility.tables import Covering, advertised_hops
from latecomer.experiments.mobility.traffic import EVENT_HOPS, EVENTS, relays, traffic
from latecomer.experiments.mobility.transfers import Fetches, transfer, ways
from latecomer.experiments.mobility.tree import city
from latecomer.experiments.mobility.wandering import Wandering
from tests.claims.mobility_oracle import Oracle

FAST = Conditions(speed=1e9, hop_s=0.5, log_size=20)
LENGTH_S = 75 * MINUTE_S


def small(scenario: Name, seed: int = 3, **options: float) -> Ground:
    return ground(scenario, 12, seed, length_s=LENGTH_S, gap_s=5.0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("scenario", ["commute", "random", "pervasive"])
@pytest.mark.parametrize("name", DRAWN)
def test_the_model_counts_what_happens(scenario: Name, name: str) -> None:
    found = small(scenario)
    algorithm = ALGORITHMS[name]
    played = play(found, algorithm, FAST)
    oracle = Oracle(found, algorithm, FAST.hop_s, FAST.log_size)
    oracle.run()
    assert int(played.multicast.sum()) == oracle.multicast
    assert event_hops(found, played) == oracle.event_hops
    edges = np.array([0.0, LENGTH_S])
    sent = traffic(found, played, edges, home=algorithm.arrival() == "attach")
    assert (oracle.relay_hops > 0) == (name == "home-broker")
    other = int((played.arrived - played.arrived[:, [EVENT_HOPS]])[found.movements.came < LENGTH_S, 1].sum())
    assert oracle.event_hops > 0
    if name == "home-broker":
        assert int(sent.unicast[-1]) == oracle.event_hops + oracle.relay_hops + other
        assert sent.relayed == relays_counted(found)


def event_hops(found: Ground, played: Played) -> int:
    came = found.movements.came < LENGTH_S
    return int(played.departed[:, EVENT_HOPS].sum() + played.arrived[came, EVENT_HOPS].sum())


def relays_counted(found: Ground) -> int:
    spans = relays(found)
    return int(found.wanted.between(spans.subscription, spans.since, spans.until).sum())


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("accuracy", [1.0, 0.0])
def test_every_event_arrives_once(name: str, accuracy: float) -> None:
    """In the plain simulation, which the model agrees with: all that is published, in order, at each client."""
    found = small("random", accuracy=accuracy)
    oracle = Oracle(found, ALGORITHMS[name], FAST.hop_s, FAST.log_size)
    oracle.run()
    for client in oracle.clients:
        wanted = found.publications.wanted_by(client.subscription).tolist()
        assert client.got + client.waiting == wanted


@pytest.mark.parametrize("seed", range(4))
def test_wrong_guesses_are_counted_as_they_happen(seed: int) -> None:
    found = small("random", seed, accuracy=0.5)
    played = play(found, ALGORITHMS["prefetching"], FAST)
    oracle = Oracle(found, ALGORITHMS["prefetching"], FAST.hop_s, FAST.log_size)
    oracle.run()
    assert int(played.multicast.sum()) == oracle.multicast
    assert event_hops(found, played) == oracle.event_hops


def test_what_is_missed_is_stored_or_live_whatever_the_transfers_take() -> None:
    """Slow links: clients leave before they have been given anything, and the session moves as a whole."""
    found = small("random", 5)
    slow = Conditions(speed=0.01, hop_s=0.0, log_size=1000)
    played = play(found, ALGORITHMS["standard"], slow)
    moves = found.movements
    held_back = 0
    for number, move in enumerate(played.fetched.tolist()):
        earlier = int(played.fetched[played.transfers.since[number]])
        assert moves.client[earlier] == moves.client[move]
        assert earlier <= move
        held_back += earlier < move
        assert played.stored[move] == missed_between(found, move, float(moves.left[earlier]), float(played.ready[move]))
        assert played.arrived[move, EVENTS] == played.stored[move]
    assert held_back > 3
    fast = play(found, ALGORITHMS["standard"], FAST)
    assert played.stored.sum() > fast.stored.sum(), "what was not given is sent again"


def missed_between(found: Ground, move: int, since: float, until: float) -> int:
    times = found.wanted.times[int(found.subscriptions[found.movements.client[move]])]
    return int(((times >= since) & (times < until)).sum())


def test_several_destinations_raise_the_multicast_and_spare_the_events() -> None:
    found = ground("random", 12, 3, length_s=LENGTH_S, accuracy=1.0, destinations=3)
    several = play(found, ALGORITHMS["prefetching to several"], FAST)
    standard = play(found, ALGORITHMS["standard"], FAST)
    assert several.arrived[:, EVENTS].sum() == 0
    assert several.multicast.sum() > standard.multicast.sum()
    wrong = ground("random", 12, 3, length_s=LENGTH_S, accuracy=0.0, destinations=3)
    assert play(wrong, ALGORITHMS["prefetching to several"], FAST).arrived[:, EVENTS].sum() > 0


# -- pieces


def test_the_forty_subscriptions_are_those_of_the_paper() -> None:
    rows = matching()
    assert rows.shape == (SUBSCRIPTIONS, 27)
    assert sorted(rows.sum(axis=1).tolist()) == [1] * 27 + [3] * 9 + [9] * 3 + [27]
    assert rows.sum(axis=0).tolist() == [4] * 27
    assert covering(39, 0)
    assert covering(27, 2)
    assert not covering(27, 3)


def test_clients_turn_round_at_the_edge() -> None:
    cells = np.array([0.5, 63.9, 64.1, 66.5, -0.5, 128.5])
    assert folded(cells, "reflect").tolist() == [0, 63, 63, 61, 0, 0]
    assert folded(cells, "wrap").tolist() == [0, 63, 0, 2, 63, 0]


@pytest.mark.parametrize("edge", ["reflect", "clamp", "wrap"])
def test_who_passes_brokers_on_the_way_ends_where_others_do(edge: str) -> None:
    """*random* and *pervasive* are the same trips; steps are to neighbours, and nobody is in two places."""
    options = {"length_s": 2 * 3600.0, "edge": edge, "gap_s": 1.0}
    trips = ground("random", 30, 1, **options).movements  # type: ignore[arg-type]
    steps = ground("pervasive", 30, 1, **options).movements  # type: ignore[arg-type]
    assert len(steps.client) > 5 * len(trips.client)
    for client in range(30):
        ours = steps.client == client
        assert (steps.left[ours][1:] >= steps.came[ours][:-1]).all()
        assert (steps.old[ours][1:] == steps.new[ours][:-1]).all()
        done = trips.came[trips.client == client]
        for end, place in zip(done.tolist(), trips.new[trips.client == client].tolist(), strict=True):
            if end < 2 * 3600:
                before = steps.new[ours][steps.left[ours] < end]
                assert (before[-1] if len(before) else steps.starts[client]) == place
    gaps = np.abs(steps.old - steps.new)
    assert set(gaps.tolist()) <= ({1, LEAVES - 1} if edge == "wrap" else {1})


def test_an_event_climbs_to_the_root_and_descends_where_it_is_wanted() -> None:
    found = small("commute")
    tree = city()
    wanted = np.zeros((len(found.publications.times), LEAVES), dtype=np.bool_)
    assert set(multicast_hops(found.publications, wanted, tree).tolist()) == {3}
    assert set(multicast_hops(found.publications, wanted, tree, climbs=False).tolist()) == {0}
    wanted[:, 0] = True  # the west end; publishers are downtown, in the middle two of four parts
    assert set(multicast_hops(found.publications, wanted, tree).tolist()) == {6}
    assert set(multicast_hops(found.publications, wanted, tree, climbs=False).tolist()) == {6}
    wanted[:] = True
    assert set(multicast_hops(found.publications, wanted, tree).tolist()) == {84}


def test_with_covering_a_subscription_climbs_until_it_is_covered() -> None:
    tables = Covering(city())
    assert tables.begin(21, 0) == 3
    assert tables.begin(21, 0) == 0, "the same again"
    assert tables.begin(22, 0) == 1, "its parent knows it from the sister"
    assert tables.begin(84, 0) == 3
    assert tables.begin(21, 27) == 3 + 3, "the wide one is told, and the narrow one taken back, on each of three links"
    assert tables.begin(22, 1) == 1
    assert tables.end(22, 1) == 1
    assert tables.end(21, 27) == 3 + 3
    assert tables.end(84, 0) == 3
    assert [tables.end(22, 0), tables.end(21, 0), tables.end(21, 0)] == [1, 0, 3]
    assert not tables.held.any()


def test_with_advertisements_a_subscription_descends_to_its_publishers() -> None:
    found = small("commute")
    hops = advertised_hops(city(), found.publications)
    nobody = [e for e in range(27) if e not in found.publications.published.tolist()]
    assert (hops >= 3).all()
    for event in nobody:
        assert (hops[:, event] == 3).all()
    assert (hops[:, 39] >= hops[:, :27].max(axis=1)).all()


HUNDRED = np.array([100, 100])
NOTHING = np.array([0, 0])


def fetches(client: list[int], left: list[float], ready: list[float], source: list[int], target: list[int]) -> Fetches:
    """Of a hundred events each, since the client left."""
    return Fetches(
        np.array(client), np.array(left), np.array(ready), np.array(source), np.array(target), NOTHING, HUNDRED
    )


def test_transfers_share_the_links_on_their_way() -> None:
    """100 messages from leaf 0 to 1 take 10 s alone at 10/s. Two at once take twice as long, but not on other links."""
    links = ways(city())
    two = fetches([0, 1], [0.0, 0.0], [5.0, 5.0], [0, 0], [1, 2])
    found = transfer(two, NOTHING, links, 10.0)
    assert found.end == pytest.approx([25.0, 25.0])
    assert found.most == 2
    apart = fetches([0, 1], [0.0, 0.0], [5.0, 5.0], [0, 8], [1, 9])
    assert transfer(apart, NOTHING, links, 10.0).end == pytest.approx([15.0, 15.0])
    later = fetches([0, 1], [0.0, 0.0], [5.0, 10.0], [0, 0], [1, 2])
    assert transfer(later, NOTHING, links, 10.0).end == pytest.approx([20.0, 25.0])
    backwards = fetches([1, 0], [0.0, 0.0], [10.0, 5.0], [0, 0], [2, 1])
    assert transfer(backwards, NOTHING, links, 10.0).end == pytest.approx([25.0, 20.0])
    assert transfer(two, HUNDRED, links, 10.0).end.tolist() == [5.0, 5.0], "all of it is spared"


def test_a_client_that_moves_on_waits_for_what_is_under_way() -> None:
    """It comes to leaf 1 at 5 s and to leaf 2 at 10 s, when half of its hundred events are at leaf 1."""
    links = ways(city())
    twice = replace(fetches([0, 0], [0.0, 8.0], [5.0, 10.0], [0, 1], [1, 2]), before_left=np.array([0, 80]))
    found = transfer(twice, NOTHING, links, 10.0)
    assert found.begin.tolist() == [5.0, 15.0]
    assert found.since.tolist() == [0, 0], "the client has had nothing since it left for the first time"
    assert found.end.tolist() == [15.0, 25.0], "and everything is sent on"
    once = transfer(twice, NOTHING, links, 10.0, again=False)
    assert once.end.tolist() == [15.0, 17.0], "a home-broker sends only the rest"


def test_a_third_move_waits_for_the_second_which_waits_for_the_first() -> None:
    links = ways(city())
    thrice = Fetches(
        np.array([0, 0, 0]),
        np.array([0.0, 6.0, 8.0]),
        np.array([5.0, 7.0, 9.0]),
        np.array([0, 1, 2]),
        np.array([1, 2, 3]),
        np.array([0, 0, 0]),
        np.array([100, 100, 100]),
    )
    found = transfer(thrice, np.array([0, 100, 0]), links, 10.0)
    assert found.begin.tolist() == [5.0, 15.0, 15.0], "the second has nothing to send"
    assert found.end.tolist() == [15.0, 15.0, 25.0]
    assert found.since.tolist() == [0, 0, 0]


def test_the_cost_model_is_that_of_the_equations() -> None:
    assert migration(4) == 12
    assert migration(4, covered_new=True, covered_old=True) == 4
    assert events(0.5, 60.0) == 30.0
    assert events(0.5, 60.0, logged=10) == 20.0


def test_with_fast_links_the_model_predicts_the_messages_of_standard() -> None:
    row = Wandering(scenario="random", clients=40, speed=1e6, algorithms=("standard", "home-broker")).measure(1)
    for name in ("standard", "home-broker"):
        assert row[f"model_{name}"] == pytest.approx(row[f"messages_{name}"], rel=0.05)


# -- one measurement


def test_a_measurement_is_the_same_again_and_other_seeds_are_others() -> None:
    setting = Wandering(clients=40, series=True)
    assert setting.measure(1) == setting.measure(1)
    assert setting.measure(1)["unicast_standard"] != setting.measure(2)["unicast_standard"]


def test_steps_of_a_series_add_up() -> None:
    row = Wandering(clients=40, series=True).measure(0)
    steps = [row[f"unicast_{number:03}_home-broker"] * 5 for number in range(42)]
    assert sum(steps) == pytest.approx(row["unicast_home-broker"])


def test_a_tenth_more_to_say_about_the_last_hop() -> None:
    """Deliveries are hops of the multicast, and more than without them: the overhead falls, but for home-broker."""
    row = Wandering(scenario="random", clients=100).measure(0)
    assert row["client overhead_standard"] < row["overhead_standard"]
    assert row["client overhead_home-broker"] > row["client overhead_standard"]


def test_locality_gives_so_many_the_same_interest() -> None:
    found = ground("random", 100, 0, length_s=LENGTH_S, locality=60)
    assert np.bincount(found.subscriptions).max() == 60


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 1.0])
def test_guesses_are_right_as_often_as_is_said(accuracy: float) -> None:
    found = ground("random", 300, 0, length_s=LENGTH_S, accuracy=accuracy, destinations=3)
    right = found.guesses == found.movements.new[:, None]
    assert right[:, 0].mean() == pytest.approx(accuracy, abs=0.06)
    assert right.sum(axis=1).max() <= 1
    second = (1 - accuracy) * accuracy / 2
    assert right[:, 1].mean() == pytest.approx(second, abs=0.06)
    assert all(len(set(row)) == 3 for row in found.guesses.tolist())


def test_a_log_may_keep_what_was_sent_there_as_well() -> None:
    """With a log that is never full, keeping more helps; what it has is held against a list of all that came."""
    found = ground("random", 60, 2, length_s=3 * LENGTH_S)
    plain, more = (
        play(found, ALGORITHMS["logging"], Conditions(1e9, 0.5, 10**6, log_transferred=too)) for too in (False, True)
    )
    assert more.logged.sum() > plain.logged.sum()
    moves = found.movements
    sent: dict[int, set[int]] = {}
    checked = 0
    for move in sorted(plain.fetched.tolist(), key=lambda one: float(plain.ready[one])):
        leaf, subscription = int(moves.new[move]), int(found.subscriptions[moves.client[move]])
        times = found.wanted.times[subscription]
        span = (times >= moves.left[move]) & (times < plain.ready[move])
        missed = set(found.wanted.numbers[subscription][span].tolist())
        there = sent.setdefault(leaf, set())
        assert int(more.logged[move]) >= len(missed & there)
        if more.logged[move] == len(missed):
            checked += bool(missed & there)
        there |= missed
    assert checked


def test_an_algorithm_of_ones_own_is_a_struct_with_an_answer() -> None:
    class NoLog(Algorithm, frozen=True, kw_only=True):
        """Asks the log, which is empty."""

        def outline(self) -> bool:
            return True

    found = small("random")
    empty = msgspec.structs.replace(NoLog())
    played = play(found, empty, Conditions(1e9, 0.5, 0))
    standard = play(found, ALGORITHMS["standard"], FAST)
    assert played.arrived[:, EVENTS].tolist() == standard.arrived[:, EVENTS].tolist()
