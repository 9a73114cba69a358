"""Families of trees: those of the ring, as the model has them, or the agreed one from every root."""

from __future__ import annotations

import pytest

from latecomer.core.ring.family import Family, family_of
from latecomer.core.ring.places import fingers_of
from latecomer.messages.link import LinkState, Neighbour
from latecomer.messages.reposition import NO_STAMP, Positions
from latecomer.model import ring as model
from latecomer.model.ids import BrokerId


def family(count: int, without: tuple[BrokerId, BrokerId] | None = None) -> Family:
    """Of so many brokers at their hashes, with the links that their ring needs but one."""
    brokers = [f"b{number}" for number in range(count)]
    beside: dict[BrokerId, dict[BrokerId, None]] = {broker: {} for broker in brokers}
    for broker in brokers:
        for finger in fingers_of({}, brokers, broker):
            if without is None or {broker, finger} != set(without):
                beside[broker][finger] = beside[finger][broker] = None
    view = tuple(LinkState(b, 1, 1, tuple(Neighbour(o, 1, 1_000) for o in beside[b])) for b in sorted(brokers))
    return family_of(f"{count} {without}", view, None, Positions(NO_STAMP, ()))


@pytest.mark.parametrize("count", [3, 4, 7, 16, 40])
def test_the_trees_of_a_ring_are_those_of_the_model(count: int) -> None:
    found = family(count)
    fingers = model.Ring(tuple(found.points)).all_fingers()
    assert found.ring
    for root in range(count):
        tree = found.tree(found.order[root])
        for at, broker in enumerate(found.order):
            above = model.parent(fingers, root, at)
            below = [found.order[child] for child in model.children(fingers, root, at)]
            assert tree.parent[broker] == (None if above is None else found.order[above])
            assert tree.depth[broker] == model.depth(fingers, root, at)
            assert tree.peers(broker) == [*([] if above is None else [found.order[above]]), *below]
            assert all(peer in found.beside[broker] for peer in tree.peers(broker))
    depths = [model.depth(fingers, root, at) for root in range(count) for at in range(count)]
    assert found.longest == max(depths)


def test_without_a_link_to_a_successor_every_tree_is_the_agreed_one() -> None:
    whole = family(16)
    broken = family(16, (whole.order[3], whole.order[4]))
    assert not broken.ring
    for root in broken.order:
        tree = broken.tree(root)
        assert tree.root == root
        for broker in broken.order:
            assert sorted(tree.peers(broker)) == sorted(broken.agreed.peers(broker))
            assert broken.beside[broker] == broken.agreed.peers(broker)
