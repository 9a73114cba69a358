"""Links between brokers on real sockets: who is let in, who calls, and what a broken wire does to messages."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trustme
import uvloop

from latecomer.model.errors import SettingsError
from latecomer.runtime.node import Node
from latecomer.runtime.settings import loads
from tests.network.link_net import SECRET, Seat, clients, linked, ready, running, until, wires
from tests.network.net import HOST, free_port
from tests.network.raw import Got, Publisher, Subscriber

QUICK = f'secret = "{SECRET}"\nheartbeat_s = 0.1\nhold_s = 5.0'


def play(story: Coroutine[object, object, None]) -> None:
    """On the loop that brokers have."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(story, 60))


def pair(first: str, second: str) -> tuple[Seat, Seat]:
    """Two brokers of which `a` calls `b`, with these settings of their links."""
    b = Seat("b", {"a": None}, second)
    return Seat("a", {"b": b.link_port}, first), b


async def stays_unlinked(nodes: list[Node], *sentences: str, log: pytest.LogCaptureFixture) -> None:
    await until(lambda: all(sentence in log.text for sentence in sentences), f"the log says {sentences}")
    assert not any(node.links.current for node in nodes)


# -- who is let in -----------------------------------------------------------------------------------------------------


def test_the_same_secret(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, *pair(f'secret = "{SECRET}"', f'secret = "{SECRET}"')) as nodes:
            await until(lambda: ready(nodes), "a tree of two")
            assert not nodes[0].links.problems

    play(story())


@pytest.mark.parametrize(
    ("first", "second", "caller_says", "callee_says"),
    [
        (
            'secret = "another secret of some length"',
            f'secret = "{SECRET}"',
            "refused by the neighbour",
            "a different one",
        ),
        (f'secret = "{SECRET}"', "insecure = true", "refused by the neighbour", "one end has a secret"),
        ("insecure = true", f'secret = "{SECRET}"', "refused by the neighbour", "one end has a secret"),
    ],
    ids=["wrong", "the callee has none", "the caller has none"],
)
def test_secrets_that_differ(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str, second: str, caller_says: str, callee_says: str
) -> None:
    async def story() -> None:
        async with running(tmp_path, *pair(first, second)) as nodes:
            await stays_unlinked(nodes, f"no link with b: {caller_says}", callee_says, log=caplog)
            assert caller_says in nodes[0].links.problems["b"]
            assert nodes[1].counters.refused["link"] >= 1

    play(story())


def test_a_refusal_is_logged_once_and_retried_with_growing_pauses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []

    async def story() -> None:
        wrong = 'secret = "another secret of some length"\nreconnect_min_s = 0.001\nreconnect_max_s = 0.05'
        async with running(tmp_path, *pair(wrong, f'secret = "{SECRET}"')) as nodes:
            await until(lambda: nodes[1].counters.refused.get("link", 0) >= 12, "twelve refusals")
        assert caplog.text.count("no link with b") == 1

    sleep = asyncio.sleep

    async def noting(delay: float) -> None:
        if delay > 0 and delay != 0.005:
            slept.append(delay)
        await sleep(delay)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latecomer.runtime.links.asyncio.sleep", noting)
        play(story())
    calls = [delay for delay in slept if delay <= 0.05][:10]
    bounds = [min(0.001 * 2**turn, 0.05) for turn in range(10)]
    assert all(bound / 2 <= delay <= bound for delay, bound in zip(calls, bounds, strict=True)), calls
    assert len(set(calls)) == 10, "no two pauses are the same"


class Authority:
    """Certificates for brokers, as files."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.path = self.put(f"{name}.pem", self.ca.cert_pem.bytes())
        self.name = name

    def put(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path

    def link(self, broker: str, *, trusts: Authority | None = None, expired: bool = False) -> str:
        """Settings of a link whose certificate names the broker."""
        ends = datetime.now(UTC) - timedelta(days=1) if expired else None
        starts = ends - timedelta(days=1) if ends is not None else None
        issued = self.ca.issue_cert(broker, not_after=ends, not_before=starts)
        chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        certificate = self.put(f"{self.name}-{broker}.pem", chain)
        key = self.put(f"{self.name}-{broker}.key", issued.private_key_pem.bytes())
        return f'certificate = "{certificate}"\nkey = "{key}"\nca = "{(trusts or self).path}"'


def test_certificates_that_name_the_brokers(tmp_path: Path) -> None:
    async def story() -> None:
        ours = Authority(tmp_path)
        with_secret = f'\nsecret = "{SECRET}"'
        async with running(tmp_path, *pair(ours.link("a") + with_secret, ours.link("b") + with_secret)) as nodes:
            await until(lambda: ready(nodes), "a tree of two")
            cipher = nodes[0].links.current["b"].transport.get_extra_info("cipher")
            assert cipher is not None

    play(story())


def test_a_certificate_that_names_another_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        ours = Authority(tmp_path)
        async with running(tmp_path, *pair(ours.link("c"), ours.link("b"))) as nodes:
            await stays_unlinked(nodes, "the certificate does not name the broker 'a'", "no link with b", log=caplog)

    play(story())


def test_certificates_of_a_foreign_authority(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        ours, theirs = Authority(tmp_path), Authority(tmp_path, "theirs")
        async with running(tmp_path, *pair(theirs.link("a", trusts=ours), ours.link("b"))) as nodes:
            await stays_unlinked(nodes, "no link with b", f"link connection with {HOST}", log=caplog)
            assert nodes[1].counters.refused["link"] >= 1

    play(story())


def test_a_callee_whose_authority_is_foreign(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        ours, theirs = Authority(tmp_path), Authority(tmp_path, "theirs")
        async with running(tmp_path, *pair(ours.link("a"), theirs.link("b", trusts=ours))) as nodes:
            await stays_unlinked(nodes, "its certificate is refused: ", log=caplog)

    play(story())


@pytest.mark.parametrize("late", ["a", "b"])
def test_certificates_that_expired(tmp_path: Path, caplog: pytest.LogCaptureFixture, late: str) -> None:
    async def story() -> None:
        ours = Authority(tmp_path)
        both = pair(ours.link("a", expired=late == "a"), ours.link("b", expired=late == "b"))
        async with running(tmp_path, *both) as nodes:
            await stays_unlinked(nodes, "expired", "no link with b", log=caplog)

    play(story())


@pytest.mark.parametrize("plain", ["a", "b"])
def test_only_one_end_speaks_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture, plain: str) -> None:
    async def story() -> None:
        ours = Authority(tmp_path)
        link = {broker: "insecure = true" if broker == plain else ours.link(broker) for broker in ("a", "b")}
        async with running(tmp_path, *pair(link["a"], link["b"])) as nodes:
            await stays_unlinked(nodes, "no link with b", f"link connection with {HOST}", log=caplog)
            assert nodes[1].counters.refused["link"] >= 1

    play(story())


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = pair(f'secret = "{SECRET}"', f'secret = "{SECRET}"')
        second.link_port = first.link_port
        with pytest.raises(SettingsError, match="choose another one") as wrong:
            async with running(tmp_path, first, second):
                pass
        assert wrong.value.key == "link.port"

    play(story())


def test_frames_must_be_as_long_as_events(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(SettingsError, match="must be at least") as wrong:
            async with running(tmp_path, Seat("a", {"b": None}, "insecure = true\nreceive_bytes = 1000")):
                pass
        assert wrong.value.key == "link.receive_bytes"

    play(story())


# -- who calls ---------------------------------------------------------------------------------------------------------


def test_both_call_and_one_connection_stays(tmp_path: Path) -> None:
    """Ten times: all connections cut at once, both ends call again at once, and both keep the same one."""

    async def story() -> None:
        ports = free_port(), free_port()
        link = QUICK + "\nreconnect_min_s = 0.001"
        async with wires(*ports) as (to_a, to_b):
            a = Seat("a", {"b": to_b.port}, link, link_port=ports[0])
            b = Seat("b", {"a": to_a.port}, link, link_port=ports[1])
            async with running(tmp_path, a, b) as nodes:
                for _ in range(10):
                    await until(lambda: ready(nodes), "a tree of two")
                    await until(lambda: linked(nodes[0], "b") and linked(nodes[1], "a"), "both greeted")
                    before = nodes[0].links.current["b"].closed, nodes[1].links.current["a"].closed
                    to_a.cut()
                    to_b.cut()
                    await asyncio.wait(before)
                await until(lambda: linked(nodes[0], "b") and linked(nodes[1], "a"), "both greeted")
                await until(lambda: all(len(node.links.open) == 1 for node in nodes), "one socket each")
                here, there = nodes[0].links.current["b"], nodes[1].links.current["a"]
                assert here.caller == there.caller
                sockets = [each.transport.get_extra_info("socket") for each in (here, there)]
                assert all(each.getsockopt(6, 1) for each in sockets), "TCP_NODELAY"
                assert all(node.core.neighbours.links[peer].number == 1 for node, peer in zip(nodes, "ba", strict=True))

    play(story())


@pytest.mark.parametrize("caller", ["a", "b"])
def test_only_one_end_calls(tmp_path: Path, caller: str) -> None:
    async def story() -> None:
        ports = {"a": free_port(), "b": free_port()}
        seats = [
            Seat(one, {other: ports[other] if one == caller else None}, QUICK, link_port=ports[one])
            for one, other in ("ab", "ba")
        ]
        async with running(tmp_path, *seats) as nodes:
            await until(lambda: ready(nodes), "a tree of two")
            assert nodes[0].links.current["b"].caller == nodes[1].links.current["a"].caller == caller

    play(story())


def test_stopping_while_calling(tmp_path: Path) -> None:
    """The neighbour's port accepts and says nothing; or nobody is there at all."""

    async def story() -> None:
        async with wires(free_port()) as (silent,):
            silent.flows.clear()
            async with running(tmp_path, Seat("a", {"b": silent.port, "c": free_port()}, QUICK)) as (node,):
                await until(lambda: node.links.pending or "b" in node.links.problems, "it calls")
                await until(lambda: "c" in node.links.problems, "nobody is there")
            assert not node.links.open

    play(story())


def test_stopping_in_the_middle_of_tls(tmp_path: Path) -> None:
    async def story() -> None:
        _, b = pair("", Authority(tmp_path).link("b"))
        async with running(tmp_path, b) as (node,):
            _, writer = await asyncio.open_connection(HOST, b.link_port)
            await until(lambda: node.links._handshakes, "it waits for a handshake")
        assert not node.links._handshakes
        assert not node.links.open
        writer.close()

    play(story())


def test_a_host_that_is_no_name(tmp_path: Path) -> None:
    async def story() -> None:
        seat = Seat("a", {"b": 1}, QUICK)
        text = seat.text(tmp_path).replace(f'host = "{HOST}"', 'host = "a..b"')
        node = Node(loads(text))
        await node.start()
        try:
            await until(lambda: "b" in node.links.problems, "it cannot be called")
            assert "cannot be reached" in node.links.problems["b"]
            assert not any(task.done() for task in node.links._callers.values()), "and is called again"
        finally:
            await node.stop()

    play(story())


def test_a_connection_lost_in_the_middle_of_the_challenge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        b = Seat("b", {"a": None}, QUICK)
        async with wires(b.link_port) as (wire,):
            wire.flows.clear()
            async with running(tmp_path, Seat("a", {"b": wire.port}, QUICK), b) as nodes:
                await until(lambda: nodes[0].links.pending and wire.connections, "it called")
                wire.cut()
                await until(lambda: "b" in nodes[0].links.problems, "it noticed")
                assert "before both ends knew one another" in nodes[0].links.problems["b"]
                wire.flows.set()
                await until(lambda: ready(nodes), "a tree of two")
                assert not nodes[0].links.problems

    play(story())


# -- a wire that breaks ------------------------------------------------------------------------------------------------


async def publish_all(publisher: Publisher, count: int) -> None:
    while publisher.sent < count:
        if not publisher.publish():
            await asyncio.sleep(0.001)


def check(publishers: list[Publisher], subscriber: Subscriber) -> None:
    for publisher in publishers:
        got = subscriber.got[publisher.topic]
        assert got.order == [f"{publisher.name}:{number}".encode() for number in range(publisher.sent)]
        assert set(got.count.values()) == {1}


def test_a_cut_wire_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """The link session resumes: the tree stays, and what was under way comes once."""

    async def story() -> None:
        b = Seat("b", {"a": None}, QUICK)
        async with wires(b.link_port) as (wire,), running(tmp_path, Seat("a", {"b": wire.port}, QUICK), b) as nodes:
            wire.delay_s = 0.002
            await until(lambda: ready(nodes), "a tree of two")
            version = nodes[0].core.membership.version
            subscriber = Subscriber(b.port, "s", {"one": 1, "two": 2})
            publishers = [Publisher(nodes[0].settings.listeners[0].number, f"p{qos}", topic, qos, 50)
                          for qos, topic in ((1, "one"), (2, "two"))]  # fmt: skip

            def came(count: int) -> bool:
                return len(subscriber.got.get("two", Got()).order) >= count

            async with clients(subscriber, *publishers):
                await until(subscriber.subscribed.is_set, "subscribed")
                await until(lambda: all(nodes[0].core.routes.of(p.topic).peers for p in publishers), "a route")
                sending = asyncio.gather(*(publish_all(publisher, 600) for publisher in publishers))
                for mark in (90, 180, 270, 360, 450):
                    await until(partial(came, mark), "progress")
                    await until(lambda: linked(nodes[0], "b") and linked(nodes[1], "a"), "a connection")
                    before = nodes[0].links.current["b"].closed
                    wire.cut()
                    await before
                await sending
                await until(lambda: all(not p.pending for p in publishers), "all acknowledged")
                await until(lambda: all(len(subscriber.got[p.topic].order) == 600 for p in publishers), "all there")
                await until(lambda: not nodes[0].core.events.outbox.entries, "all reported done")
                check(publishers, subscriber)
            await until(lambda: linked(nodes[0], "b") and linked(nodes[1], "a"), "a connection")
            assert wire.connections >= 6
            assert nodes[0].core.membership.version == version, "the session outlived its connections"

    play(story())


def test_a_ring_goes_the_other_way(tmp_path: Path) -> None:
    """One wire stalls for longer than three heartbeats and the hold: the link is lost, the others carry everything."""

    async def story() -> None:
        link = QUICK.replace("hold_s = 5.0", "hold_s = 0.3") + "\nchallenge_s = 0.5"
        ports = {name: free_port() for name in "abc"}
        async with wires(ports["c"]) as (direct,):
            a = Seat("a", {"b": ports["b"], "c": direct.port}, link, link_port=ports["a"])
            b = Seat("b", {"a": None, "c": ports["c"]}, link, link_port=ports["b"])
            c = Seat("c", {"a": None, "b": None}, link, link_port=ports["c"])
            async with running(tmp_path, a, b, c) as nodes:
                await until(lambda: ready(nodes), "a tree of three")
                await until(lambda: linked(nodes[0], "c") and linked(nodes[2], "a"), "the direct way")
                subscriber = Subscriber(c.port, "s", {"t": 2})
                publisher = Publisher(a.port, "p", "t", 2, 50)
                async with clients(subscriber, publisher):
                    await until(subscriber.subscribed.is_set, "subscribed")
                    await until(lambda: nodes[0].core.routes.of("t").peers, "a route")
                    sending = asyncio.create_task(publish_all(publisher, 400))
                    await until(lambda: subscriber.got.get("t"), "the first")
                    direct.flows.clear()
                    await until(lambda: "c" not in nodes[0].core.neighbours.up(), "the link is lost")
                    assert "silent for too long" in nodes[0].links.problems["c"]
                    await sending
                    await until(lambda: len(subscriber.got["t"].order) == 400, "all there")
                    check([publisher], subscriber)
                    assert nodes[0].core.interest.peers == ["b"]
                    direct.flows.set()
                    await until(lambda: linked(nodes[0], "c") and ready(nodes), "the direct way is back")

    play(story())


def test_a_large_event_on_a_slow_wire_is_a_sign_of_life(tmp_path: Path) -> None:
    """It takes longer than three heartbeats, and the other end is not silent all the while."""

    async def story() -> None:
        # Silence is noticed after 0.9 s. A chunk takes 0.15 s, so a busy machine may be six times slower; all take 2 s.
        link = QUICK.replace("heartbeat_s = 0.1", "heartbeat_s = 0.3")
        b = Seat("b", {"a": None}, link)
        async with wires(b.link_port) as (wire,), running(tmp_path, Seat("a", {"b": wire.port}, link), b) as nodes:
            await until(lambda: ready(nodes), "a tree of two")
            subscriber = Subscriber(b.port, "s", {"t": 1})
            publisher = Publisher(nodes[0].settings.listeners[0].number, "p", "t", 1)
            async with clients(subscriber, publisher):
                await until(subscriber.subscribed.is_set, "subscribed")
                await until(lambda: nodes[0].core.routes.of("t").peers, "a route")
                await until(lambda: publisher.writer, "connected")
                number = nodes[0].links.current["b"].number
                wire.delay_s = 0.15
                publisher.name = "x" * 900_000
                assert publisher.publish()
                await until(lambda: subscriber.got.get("t"), "it came")
                assert nodes[0].links.current["b"].number == number, "and the connection stood"

    play(story())
