"""Lives in which operators add and take away links and brokers, and bugs planted where that is done."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.core.broker import Broker
from latecomer.core.mobility.apart import Apart
from latecomer.core.neighbours import Neighbours
from latecomer.messages.link import Neighbour
from latecomer.sim.chaos import _Chaos
from latecomer.sim.linking import with_links
from latecomer.sim.soak import judge
from latecomer.sim.wander_chaos import WanderChaos

Patch = pytest.MonkeyPatch
SEEDS = range(1000, 1006)


@pytest.mark.parametrize("clients", ["plain", "mqtt", "history", "wander"])
def test_links_change_in_all_kinds_of_lives(clients: str) -> None:
    failed = [verdict for seed in SEEDS if (verdict := judge(seed, f"links-{clients}")).violations]
    assert failed == []


@pytest.mark.parametrize(
    ("seed", "clients"),
    [
        (1069, "wander"),  # a broker whose last link was taken away restarted, and took itself for a network of one
        (
            1795129523,
            "history",
        ),  # a store that had met nobody, and no longer waited, claimed everything
        (1170, "history"),  # a broker lost its disk, and the changes of its links with it
        (1084, "wander"),  # a neighbour was taken away that nobody had heard of, and still waited for
    ],
)
def test_seeds_that_failed_once(seed: int, clients: str) -> None:
    assert not judge(seed, f"links-{clients}").violations


def test_everything_is_done_in_few_lives() -> None:
    said: list[str] = []
    for seed in range(1000, 1030):
        chaos = with_links(_Chaos(seed, None), seed, links=True)
        assert chaos.linking is not None
        chaos.linking.say = said.append
        chaos.run()
    words = " ".join(said)
    for what in ("neighbour no more", "is its neighbour ", "joins for a while", "joins, beside", "leaves", "forget"):
        assert what in words + " "


def settled(seed: int) -> bool:
    """Whether a life of clients that wander keeps its promises, also to brokers that joined."""
    return not with_links(WanderChaos(seed, None), seed, links=True).run().violations


@pytest.mark.parametrize("seed", [1015, 1068, 1118])
def test_sessions_move_to_brokers_that_joined(seed: int) -> None:
    """What had been published before they joined, by brokers that were away then, came to nobody; or whoever had left
    was still waited for, since all had crashed who had heard that it left."""
    assert settled(seed)


# -- planted bugs ------------------------------------------------------------------------------------------------------


def removed_is_still_named(patch: Patch) -> None:
    """Who is taken away is still in the link state."""

    def view(self: Neighbours) -> list[Neighbour]:
        return [Neighbour(link.peer, link.known_boot, link.cost_us) for link in self.links.values()]

    patch.setattr(Neighbours, "view", view)


def removed_without_a_word(patch: Patch) -> None:
    """The link is hung up at once, and nobody is told."""

    def remove(self: Neighbours, peer: str) -> None:
        link = self.links.get(peer)
        if link is not None and link.wanted:
            link.wanted = False
            self._hang_up(link)

    patch.setattr(Neighbours, "remove", remove)


def newcomers_wait_for_nobody(patch: Patch) -> None:
    """A broker that joins takes over sessions, whoever was away when it came."""
    right = Apart.tree_ready

    def tree_ready(self: Apart) -> None:
        self.heard.update(dict.fromkeys(self.membership.link_states.absent_since))
        right(self)

    patch.setattr(Apart, "tree_ready", tree_ready)


def alone_without_links(patch: Patch) -> None:
    """A broker without neighbours serves whoever comes, though it knows that there are others."""
    right = Broker.started

    def started(self: Broker, fact: Any) -> None:
        self.mobility.alone = not self.neighbours.wanted()
        right(self, fact)

    patch.setattr(Broker, "started", started)


@pytest.mark.parametrize(
    ("bug", "clients", "seed"),
    [
        (removed_is_still_named, "plain", 1000),
        (removed_without_a_word, "plain", 1000),
        (alone_without_links, "wander", 1069),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_planted_bug_is_caught(bug: Any, clients: str, seed: int, monkeypatch: Patch) -> None:
    bug(monkeypatch)
    seeds = [seed, *range(1000, 1000 + 30)]
    assert any(judge(seed, f"links-{clients}").violations for seed in seeds)


def test_newcomers_wait_for_those_who_were_away(monkeypatch: Patch) -> None:
    newcomers_wait_for_nobody(monkeypatch)
    assert not settled(1015)
