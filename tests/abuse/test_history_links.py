"""Bad inputs 24, 25 and 27 for the past: a neighbour that has stolen the secret, and lies about requests, answers and
stores. b calls a; the store is at s, on the other side of a."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from latecomer.messages.link import (
    Compare,
    Compared,
    Credit,
    Errand,
    ErrandAnswer,
    Keeping,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    SessionFrame,
    StoreAdvertise,
    StoreWithdraw,
)
from latecomer.model.event import Event
from latecomer.model.history import Key, Slice
from latecomer.model.ids import NUMBER_MAX, EventId
from tests.abuse.house import LONG, House, MiB, nothing_came, running, settled
from tests.abuse.rogue import Rogue
from tests.conformance.codec import PUBACK, PUBLISH, P
from tests.conformance.conftest import free_port
from tests.conformance.raw import PATIENCE_S, Client

SECRET = "a secret of some length"
PORT = free_port()
LINK = {"secret": SECRET, "heartbeat_s": 0.5}
SETTINGS: dict[str, Any] = {
    "broker": {"id": "a", "network": "ours"},
    "link": {"port": PORT, **LINK},
    "link.neighbours": [{"id": "b"}, {"id": "s"}],
}
STORE: dict[str, Any] = {
    "broker": {"id": "s", "network": "ours"},
    "link": {"port": 0, **LINK},
    "link.neighbours": [{"id": "a", "host": "127.0.0.1", "port": PORT}],
    "store": {"topics": ["past/#"], "reserve": "1MB"},
    "core": {"response_events": 20},
}
COUNT = 500
TOPIC = "past/x"
EVERYTHING = f"$history/since=2020-01-01/{TOPIC}"


@pytest.fixture(scope="module")
def hired(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rogue]:
    """It is there before the store, which would wait for a neighbour that is expected."""
    rogue = Rogue(tmp_path_factory.mktemp("rogue"), "b", "a", PORT, SECRET)
    yield rogue
    rogue.stop()


@pytest.fixture(scope="module", autouse=True)
def store(house: House, hired: Rogue, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The broker that keeps the past, with something to keep."""
    with running(tmp_path_factory.mktemp("store"), **STORE) as found:
        settled(lambda: "the store answers for past/#" in found.log, "the store answers")
        settled(lambda: end_of(house.join(), "$history/last=1/past/#")["stores"] == ["s"], "a knows of it")
        client = house.join()
        for start in range(0, COUNT, 500):
            numbers = range(start, start + 500)
            client.send(b"".join(client.publication(TOPIC, b"%d" % n, qos=1, packet_id=n - start + 1) for n in numbers))
            for _ in numbers:
                client.expect(PUBACK)
        yield found


@pytest.fixture
def rogue(hired: Rogue, house: House) -> Iterator[Rogue]:
    """A member of the tree, until it goes too far; the past of others is as it was."""
    hired.join(3)
    hired.answers.clear()
    hired.ends.clear()
    yield hired
    hired.repent()
    assert whole(house.join()) == COUNT


def end_of(client: Client, text: str) -> dict[str, Any]:
    client.subscribe((text, 1))
    while (found := client.take()).topic != "$history/end":
        pass
    told: dict[str, Any] = json.loads(found.payload)
    return told


def rest(client: Client, first: int) -> int:
    """Everything up to the end of history, and that it is what it should be; where it ended."""
    while (found := client.take()).topic != "$history/end":
        assert found.payload == b"%d" % first
        first += 1
    assert json.loads(found.payload)["stores"] == ["s"]
    return first


def whole(client: Client) -> int:
    """All of the past, in order."""
    assert client.subscribe((EVERYTHING, 1)) == [1]
    return rest(client, 0)


def event(number: int = 1) -> Event:
    now = time.time_ns() // 1000
    return Event(EventId("b", 1, number), TOPIC, "liar", now, True, {}, b"forged", 1)


# -- 24: routes


def answer(id: RequestId, path: tuple[str, ...], store: str) -> Response:
    return Response(id, path, store, (event(),), (0,))


THEIRS = RequestId("s", 1, 1)
MINE = RequestId("b", 1, 1)
OURS = RequestId("a", 1, 1)
ROUTES: dict[str, tuple[Callable[[Rogue], SessionFrame], str]] = {
    "no path": (lambda b: b.request("past/#", ()), "a path has 1 to 64 brokers, not 0"),
    "a path from elsewhere": (lambda b: b.request("past/#", ("x", "b")), "it does not lead from who asks"),
    "a path to elsewhere": (lambda b: b.request("past/#", ("b", "x")), "it does not lead from who asks"),
    "a path in circles": (lambda b: b.request("past/#", ("b", "a", "b")), "a path leads to each broker once"),
    "a path that is longer": (lambda b: b.request("past/#", ("x", "b"), asker="x"), "it is not the way along the tree"),
    "a path of somebody else": (lambda b: b.request("past/#", ("s", "b"), asker="s"), "it is not the way along"),
    "an endless path": (lambda b: b.request("past/#", ("b",) * 5000), "a path has 1 to 64 brokers, not 5000"),
    "a request of the receiver": (lambda b: b.request("past/#", ("a", "b"), asker="a"), "it is not the way"),
    "an answer for another store": (lambda b: answer(OURS, ("a",), "s"), "bad route of an answer"),
    "an answer of the receiver": (lambda b: answer(OURS, ("a",), "a"), "bad route of an answer"),
    "an answer of nobody": (lambda b: answer(OURS, ("a",), "x"), "bad route of an answer"),
    "an answer to itself": (lambda b: answer(MINE, ("b", "a"), "b"), "bad route of an answer"),
    "an answer to nobody": (lambda b: answer(RequestId("x", 1, 1), ("x", "a"), "b"), "bad route of an answer"),
    "an answer that goes round": (lambda b: answer(THEIRS, ("s", "b", "a"), "b"), "bad route of an answer"),
    "an answer without a path": (lambda b: answer(OURS, (), "b"), "a path has 1 to 64 brokers, not 0"),
    "an end for another store": (lambda b: ResponseEnd(OURS, ("a",), "s", 1, 0), "bad route of an answer"),
    "credit of the receiver": (lambda b: Credit(OURS, "s", 9), "bad route of credit"),
    "credit of somebody else": (lambda b: Credit(THEIRS, "a", 9), "bad route of credit"),
    "credit for itself": (lambda b: Credit(MINE, "b", 9), "on no way to its store"),
    "credit for nobody": (lambda b: Credit(MINE, "x", 9), "on no way to its store"),
    "a comparison of somebody else": (
        lambda b: Compare("s", "a", 1, "past/#", 0, 1, 1),
        "bad route between the stores of s and a",
    ),
    "an answer to a comparison": (lambda b: Compared("a", "s", 1, (Slice(0, 1, 1),)), "bad route between the stores"),
    "a store that is too far": (lambda b: StoreAdvertise((("past/#", 3),)), "a store 3 hops away among 3 brokers"),
    "a store at the end of the world": (lambda b: StoreAdvertise((("x", NUMBER_MAX),)), "hops away among 3 brokers"),
}


@pytest.mark.parametrize(("frame", "why"), ROUTES.values(), ids=ROUTES)
def test_24_routes_that_cannot_be(house: House, rogue: Rogue, frame: Callable[[Rogue], SessionFrame], why: str) -> None:
    """The link ends with a sentence; a client that is being answered meanwhile misses nothing."""
    client = house.join(properties=((P.RECEIVE_MAXIMUM, 1),))
    client.subscribe((EVERYTHING, 1))
    first = client.expect(PUBLISH, payload=b"0")
    at, counted = len(house.log), house.refused("link")
    rogue.say(frame(rogue))
    settled(lambda: why in house.log[at:], f"the log says {why!r}")
    settled(lambda: house.refused("link") > counted, "it is counted")
    assert all(" b " in line for line in house.log[at:].splitlines() if why in line)
    client.acknowledge(PUBACK, first.packet_id)
    assert rest(client, 1) == COUNT


def test_24_answers_to_questions_that_others_were_asked(house: House, rogue: Rogue) -> None:
    """It knows how requests are numbered and answers all of them first: nobody believes it."""
    client = house.join(properties=((P.RECEIVE_MAXIMUM, 1),))
    client.subscribe((EVERYTHING, 1))
    first = client.expect(PUBLISH, payload=b"0")
    states = rogue.node.core.membership.link_states
    boot = rogue.do(lambda: states.states["a"].boot)
    ids = [RequestId("a", boot, number) for number in range(1, 500)]
    rogue.say(*(answer(id, ("a",), "b") for id in ids))
    rogue.say(*(ResponseEnd(id, ("a",), "b", 1, 0) for id in ids))
    client.acknowledge(PUBACK, first.packet_id)
    assert rest(client, 1) == COUNT


# -- 24: floods


def test_24_a_flood_of_requests(house: House, store: House, rogue: Rogue) -> None:
    """More than a store answers at a time, none of them read to its end: the rest of the world is answered."""
    memory = house.rss(), store.rss()
    rogue.say(*(rogue.request("past/#") for _ in range(20_000 if LONG else 3000)))
    settled(lambda: len(rogue.answers) >= 1000, "it is answered")
    client = house.join()
    assert whole(client) == COUNT
    assert house.rss() - memory[0] < 100 * MiB
    assert store.rss() - memory[1] < 100 * MiB


def test_24_a_flood_of_credit(house: House, store: House, rogue: Rogue) -> None:
    """Credit without end makes a store send no more than it would otherwise; credit for nothing does nothing."""
    memory = house.rss(), store.rss()
    request = rogue.request("past/#", credit=NUMBER_MAX)
    rogue.say(request, *(Credit(request.id, "s", NUMBER_MAX) for _ in range(20_000)))
    rogue.say(*(Credit(RequestId("b", 7, number), "s", NUMBER_MAX) for number in range(20_000)))
    settled(lambda: rogue.ends, "it is answered")
    assert sum(len(found.events) for found in rogue.answers) == COUNT
    assert house.rss() - memory[0] < 64 * MiB
    assert store.rss() - memory[1] < 64 * MiB


def test_24_questions_that_no_store_can_answer(house: House, rogue: Rogue) -> None:
    """Topics that are not kept, stores that are none, queries from beyond all time: an end with a sentence."""
    far = Key(NUMBER_MAX, "z", NUMBER_MAX, NUMBER_MAX)
    asked = rogue.request("past/#")
    query = asked.query
    for request in (
        rogue.request("other/#"),
        Request(MINE, ("b",), "past/#", query, store="x"),
        Request(MINE, ("b",), "other/#", query, store="s"),
        Request(MINE, ("b",), "past/#", query, store="b"),
        Request(MINE, ("b",), "x" * 65_535, query),
        Request(MINE, ("b",), "past/#", type(query)(query.filter, NUMBER_MAX, NUMBER_MAX, NUMBER_MAX), credit=4),
        Request(MINE, ("b",), "past/#", type(query)(query.filter, 0, 0, 0, far), credit=4),
    ):
        rogue.ends.clear()
        rogue.say(request)
        settled(lambda: rogue.ends, f"{request} is answered")
        assert len(rogue.ends[0].problem) < 300
    assert rogue.answers == []


# -- 25 and 27: stores that are none


@pytest.mark.parametrize("manner", ["says no", "says nothing"] if LONG else ["says no"])
def test_25_a_store_that_is_none(house: House, rogue: Rogue, manner: str) -> None:
    """It offers what it has not, as near as the true store: who asks it asks another one then."""
    core = rogue.node.core
    served: list[Request] = []

    def serve(request: Request) -> None:
        served.append(request)
        if manner == "says no":
            core.history.carriage.respond(ResponseEnd(request.id, request.path, "b", 1, 0, "no", False))

    honest = core.history.carriage.serve
    core.history.carriage.serve = serve
    rogue.do(lambda: core.advertisements.open(["past/#"]))
    for _ in range(4):  # equal ways are taken in turn
        client = house.join()
        client.socket.settimeout(10 * PATIENCE_S)  # longer than a store may be silent
        assert whole(client) == COUNT
    assert served
    rogue.do(lambda: core.advertisements.close(["past/#"]))
    core.history.carriage.serve = honest


def test_25_a_store_that_is_gone_by_hearsay(house: House, store: House, rogue: Rogue) -> None:
    """Whatever it says of the true store, it takes nothing away."""
    rogue.say(StoreAdvertise((("past/#", 2),)), StoreWithdraw(("past/#", "never/#")))
    rogue.say(Keeping("s", NUMBER_MAX, NUMBER_MAX, ()), Keeping("a", NUMBER_MAX, NUMBER_MAX, ("past/#",)))
    rogue.say(Keeping("s", 1, NUMBER_MAX, ("#",), 0, True))
    assert whole(house.join()) == COUNT
    assert whole(store.join()) == COUNT


def test_27_floods_of_words(house: House, store: House, rogue: Rogue) -> None:
    """Of stores that nobody has heard of, with topics in bulk: they are not kept."""
    topics = tuple(f"{number}/{'x' * 1000}" for number in range(1000))
    memory = house.rss(), store.rss()
    for number in range(500 if LONG else 100):
        rogue.say(Keeping(f"x{number}", 1, 1, topics))
    settled(lambda: rogue.do(lambda: not rogue.node.core.neighbours.links["a"].unacked), "all of it has been read")
    assert house.rss() - memory[0] < 64 * MiB
    assert store.rss() - memory[1] < 64 * MiB


def test_27_floods_of_comparisons(house: House, store: House, rogue: Rogue) -> None:
    """Wide ones, narrow ones, of topics that are kept and others: the store has time for everybody else."""
    memory = store.rss()
    now = time.time_ns() // 1000
    spans = [(0, NUMBER_MAX, 1), (0, NUMBER_MAX, NUMBER_MAX), (now - 10**12, now, 10**7), (now, 0, 10**7)]
    for topics in ("past/#", "#", "other"):
        rogue.say(*(Compare("b", "s", n, topics, *spans[n % 4]) for n in range(3000)))
    assert whole(house.join()) == COUNT
    assert store.rss() - memory < 64 * MiB


def test_27_floods_of_errands(house: House, store: House, rogue: Rogue) -> None:
    """Questions, answers to nobody's questions, nonsense, assignments that are none: the store keeps what it kept."""
    memory = store.rss()
    bodies = (
        b"{}",
        b"{",
        b"",
        b'{"topics":["#/x"]}',
        b'{"topics":["$SYS/#"]}',
        b'{"topics":5}',
        b'{"sizes":["past/#"]}',
    )
    rogue.say(*(Errand("b", "s", n, bodies[n % len(bodies)]) for n in range(3000)))
    rogue.say(*(ErrandAnswer("b", "s", n, b"{}") for n in range(100)))
    assert whole(house.join()) == COUNT
    assert store.rss() - memory < 64 * MiB


def test_25_what_it_says_to_who_asks_nothing(house: House, rogue: Rogue) -> None:
    """Answers to nobody's questions: a client that only listens hears nothing of them."""
    listener = house.join()
    listener.subscribe(("past/#", 1))
    rogue.say(*(answer(RequestId("a", 1, number), ("a",), "b") for number in range(100)))
    nothing_came(listener)
