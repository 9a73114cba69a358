"""The paper's reconfiguration protocol: Fig. 4 as a transcript (D14), and its messages as the model counts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latecomer.experiments.dynatops.examples import exchange
from latecomer.experiments.dynatops.overlay import chord, random_points, random_ring
from latecomer.experiments.dynatops.protocol import Protocol
from latecomer.experiments.dynatops.reconfiguring import protocol_messages


def test_the_exchange_of_figure_4_is_as_written_down() -> None:
    written = Path(__file__).with_name("dynatops_figure_4.txt").read_text(encoding="utf-8")
    assert exchange()[1] == written


@pytest.mark.parametrize("seed", range(12))
def test_tables_are_right_afterwards_and_the_model_counts_the_same_messages(seed: int) -> None:
    random = np.random.default_rng(seed)
    brokers, topics = int(random.integers(3, 12)), int(random.integers(1, 6))
    overlay = chord(random_ring(brokers, random), random_points(topics, random))
    names = [f"b{number}" for number in range(brokers)]
    wants = {name: frozenset(np.flatnonzero(random.random(topics) < 0.4).tolist()) for name in names}
    before, after = random.permutation(brokers), random.permutation(brokers)
    network = Protocol(overlay, dict(zip(names, before.tolist(), strict=True)), wants)
    publisher, topic = names[int(random.integers(brokers))], int(random.integers(topics))
    network.reconfigure(dict(zip(names, after.tolist(), strict=True)), during=(publisher, topic, "e"))
    assert network.tables == network.proper()
    assert network.placed().tolist() == after.tolist()
    assert sorted(network.received) == [(name, "e") for name in sorted(names) if topic in wants[name]]
    subscribed = np.array([[topic in wants[name] for topic in range(topics)] for name in names])
    counted = protocol_messages(overlay, before, after, subscribed)
    sent = network.sent
    assert counted.init == counted.finish == counted.tree_update == sent["RCFG_INIT"] == sent["RCFG_FINISH"]
    assert counted.dht_update == sent["RCFG_DHT_UPDATE"] + sent["RCFG_DHT_UPDATED"]
    assert counted.repair == sent["CHORD"]
    assert counted.tables == sent["TABLE"]
    assert counted.trees == sent["LEAVE"] + sent["JOIN"] + sent["TREE"]
    told = sum(number for kind, number in sent.items() if kind not in ("PUBLISH", "NOTIFY"))
    assert counted.total == told


def test_nobody_moves_nothing_is_sent() -> None:
    random = np.random.default_rng(0)
    overlay = chord(random_ring(4, random), random_points(2, random))
    place = np.arange(4)
    assert protocol_messages(overlay, place, place, np.ones((4, 2), np.bool_)).total == 0
