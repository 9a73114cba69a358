"""Routes: computed once per topic, shared, and void when a table changes."""

from __future__ import annotations

from collections.abc import Callable

from latecomer.core.inputs import Unsubscribed
from latecomer.core.routes import Routes
from latecomer.core.table import SELF, FilterTable
from latecomer.model.filters import Filter
from latecomer.model.ids import ClientId
from tests.unit.hand import Hand, filters


def routes(*held: tuple[str, str], limit: int = 100, **clients: str) -> Routes:
    """Routes over what neighbours hold and what clients subscribed to."""
    table = FilterTable(covering=True, permits=lambda filter, peer: True)
    subscribers: dict[Filter, dict[ClientId, None]] = {}
    for source, text in held:
        table.add(source, *filters(text))
    for client, text in clients.items():
        [filter] = filters(text)
        table.add(SELF, filter)
        subscribers.setdefault(filter, {})[client] = None
    return Routes(table, subscribers, limit)


def test_a_route_names_clients_and_neighbours() -> None:
    route = routes(("b", "t/#"), ("c", "u"), x="t/+", y="u").of("t/1")
    assert (route.clients, route.peers) == (("x",), ("b",))
    assert not route.picky_clients
    assert not route.picky_peers


def test_content_is_looked_at_only_where_it_decides() -> None:
    route = routes(("b", "t"), ("b", "t ? v > 3"), ("c", "t ? v > 3"), ("c", "t ? v < 1"), x="t ? v = 2").of("t")
    assert route.peers == ("b",), "one of its filters has no condition"
    assert [who for who, _ in route.picky_peers] == ["c"]
    assert route.peers_for({"v": 4}) == route.peers_for({"v": 0}) == ("b", "c")
    assert route.peers_for({"v": 2}) == ("b",)
    assert route.clients_for({"v": 2}) == ("x",)
    assert route.clients_for({}) == ()


def test_an_event_does_not_go_back() -> None:
    plain = routes(("b", "t"), ("c", "t")).of("t")
    picky = routes(("b", "t"), ("c", "t ? v = 1")).of("t")
    for _ in range(2):  # computed, remembered
        assert plain.onward("b", {}) == ("c",)
        assert plain.onward("elsewhere", {}) == ("b", "c")
    assert picky.onward("b", {"v": 1}) == ("c",)
    assert picky.onward("b", {"v": 2}) == ()


def test_the_parent_may_get_everything() -> None:
    all_routes = routes(("c", "t"))
    all_routes.always = ("b",)
    assert all_routes.of("t").peers == ("b", "c")
    assert all_routes.of("u").peers == ("b",)


def test_routes_are_remembered_and_equal_ones_are_one() -> None:
    all_routes = routes(("b", "t/#"))
    assert all_routes.of("t/1") is all_routes.of("t/1")
    assert all_routes.of("t/1") is all_routes.of("t/2")
    assert all_routes.of("u") is not all_routes.of("t/1")
    assert "t/1" in all_routes


def test_only_so_many_are_remembered() -> None:
    all_routes = routes(("b", "#"), limit=3)
    for number in range(10):
        assert all_routes.of(f"t/{number}").peers == ("b",)
        assert len(all_routes.by_topic) <= 3


def test_a_change_of_a_table_voids_them() -> None:
    hand = Hand("b")
    hand.join("b")
    changes: list[Callable[[], object]] = [
        lambda: hand.subscribe("x", "t"),
        lambda: hand.subscribe("y", "t"),
        lambda: hand.tell(Unsubscribed("y", *filters("t"))),
        lambda: hand.tell(Unsubscribed("x", *filters("t"))),
        lambda: hand.join("b", boot=2, wants={"b": ["t"]}),
    ]
    for change in changes:
        before = hand.broker.routes.of("t")
        change()
        assert hand.broker.routes.of("t") != before


def test_what_changes_nothing_voids_nothing() -> None:
    hand = Hand("b")
    hand.join("b")
    hand.subscribe("x", "t")
    before = hand.broker.routes.of("t")
    hand.subscribe("x", "t")
    hand.publish("t")
    assert hand.broker.routes.of("t") is before
