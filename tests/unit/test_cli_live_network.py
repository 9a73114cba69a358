"""A network as `plan`, `apply` and `verify` see it: running, or described."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

import pytest

from latecomer.cli.doors import Refused, Silent
from latecomer.cli.live_network import agreed_tree, read_live
from latecomer.core.routing import Forwarding
from latecomer.core.settings import BrokerSettings
from latecomer.model import topology_generators as generators
from latecomer.model.errors import SettingsError
from latecomer.model.topology import Topology
from latecomer.runtime.network_views import KeptView, MemberView, NetworkView, WireView
from latecomer.runtime.store_views import StoresView
from latecomer.sim.world import World
from tests.unit.admin_hand import Answer, answering, token_file

SECOND = 1_000_000
MEMBERS = (MemberView("b1", True), MemberView("b2", True, "b1"), MemberView("b3", True, "b2"), MemberView("b9", False))
WIRES = (WireView("b1", "b2", 5, True), WireView("b2", "b3", 7, True), WireView("b1", "b3", 9, False))
VIEW = NetworkView("b2", "net", "v1", True, "b1", MEMBERS, WIRES, (KeptView("b3", "t/#", 9, True),))


STORES = StoresView("b3", None, (), (), 5, {"t/#": (1, 2)})


def network(asked: list[tuple[str, bytes]], status: int = 200) -> AbstractContextManager[str]:
    """An admin interface that knows the network, and answers everything else with this status."""

    def answer(path: str, body: bytes) -> Answer:
        asked.append((path, body))
        if path.endswith("/network"):
            return 200, VIEW
        return status, STORES if status == 200 else {"problem": "there is no way to b3"}

    return answering(answer)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    return token_file(tmp_path)


# -- running -----------------------------------------------------------------------------------------------------------


def test_one_address_is_enough(token: Path) -> None:
    asked: list[tuple[str, bytes]] = []
    with network(asked) as url:
        live = read_live(url, token)
        assert live.running
        assert live.topology.ids() == ("b1", "b2", "b3")
        assert [(link.a, link.b, link.latency_us) for link in live.topology.links] == [("b1", "b2", 5), ("b2", "b3", 7)]
        assert (live.name, live.absent, live.kept) == ("net", ("b9",), VIEW.kept)
        asked.clear()
        live.stores("b2")
        live.assign("b2", ["t/#"], "p7")
        assert live.stores("b3", ["t/#"]).sizes == {"t/#": (1, 2)}
        live.assign("b3", [])
    assert asked == [
        ("/api/v1/stores", b""),
        ("/api/v1/store", b'{"topics":["t/#"],"plan":"p7"}'),
        ("/api/v1/stores?broker=b3", b""),
        ("/api/v1/stores?broker=b3&size=t%2F%23", b""),
        ("/api/v1/store", b'{"topics":[],"plan":"","broker":"b3"}'),
    ]


@pytest.mark.parametrize(("status", "kind"), [(503, Silent), (409, Refused), (401, Refused)])
def test_who_cannot_be_reached_is_told_from_who_refuses(token: Path, status: int, kind: type[Exception]) -> None:
    with network([], status) as url:
        live = read_live(url, token)
        with pytest.raises(kind, match="the token is not the right one" if status == 401 else "there is no way to b3"):
            live.assign("b3", ["t/#"])


def test_nobody_is_there(token: Path) -> None:
    with pytest.raises(Silent, match=r"no broker answers at http://127\.0\.0\.1:1: connection refused"):
        read_live("http://127.0.0.1:1", token)


# -- described ---------------------------------------------------------------------------------------------------------

FILE = """
name = "net"
[[brokers]]
id = "b1"
[[brokers]]
id = "b2"
store = ["t/#", "u/#"]
[[brokers]]
id = "b3"
[[links]]
a = "b1"
b = "b2"
[[links]]
a = "b2"
b = "b3"
[[links]]
a = "b1"
b = "b3"
"""


def test_a_file_that_nobody_runs(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(FILE)
    live = read_live(str(file))
    assert (live.running, live.name) == (False, "net")
    assert [(link.a, link.b) for link in live.topology.links] == [("b1", "b2"), ("b1", "b3")]
    assert [(kept.broker, kept.topics) for kept in live.kept] == [("b2", "t/#"), ("b2", "u/#")]
    file.write_text(FILE.replace('name = "net"', '[settings.core.routing]\nkind = "forwarding"\nroot = "b3"'))
    assert [(link.a, link.b) for link in read_live(str(file)).topology.links] == [("b3", "b1"), ("b3", "b2")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nowhere", "is neither a file"),
        (".", "is not the data folder of a broker or of 'latecomer up'"),
        ("ftp://x", "is neither a file"),
    ],
)
def test_words_that_name_no_network(words: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as caught:
        read_live(words)
    assert caught.value.key == "--network"


def test_a_token_is_for_an_address(token: Path) -> None:
    with pytest.raises(SettingsError, match="opens an address as in"):
        read_live("tree:5", token)


@pytest.mark.parametrize(
    "topology",
    [generators.ring(6), generators.line(4), generators.star(5), generators.random_tree(9, Random(3))],
    ids=lambda topology: topology.name,
)
@pytest.mark.parametrize("rooted", [False, True])
def test_the_tree_is_the_one_that_brokers_agree_on(topology: Topology, rooted: bool) -> None:
    root = topology.ids()[-1] if rooted else None
    world = World(topology, BrokerSettings(routing=Forwarding(root=root)), Random(1))
    world.start_all()
    world.run(5 * SECOND)
    expected = agreed_tree(topology, root)
    for node in world.nodes.values():
        assert node.core is not None
        assert node.core.interest.tree is not None
        assert node.core.interest.tree.parent == expected.parent
