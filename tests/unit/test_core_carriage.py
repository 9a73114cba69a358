"""Request, Response and Credit on their way: the one way there is, or the link ends (bad input 24)."""

from __future__ import annotations

import pytest

from latecomer.core.carriage import PATH_MAX
from latecomer.core.effects import Answer, Disconnect
from latecomer.core.inputs import Requested
from latecomer.messages.link import (
    Compare,
    Compared,
    Credit,
    LinkMessage,
    RequestId,
    Response,
    ResponseEnd,
    StoreAdvertise,
)
from tests.unit.hand import frames, of
from tests.unit.store_hand import (
    CLASS,
    StoreHand,
    carried,
    ends,
    past,
    query,
    request,
    requests,
    responses,
    triangle,
)

D1 = RequestId("d", 1, 1)
A1 = RequestId("a", 1, 1)


def middle(*, far: str = "c") -> StoreHand:
    """d – b – a – c – e; the store of the class is behind `c`."""
    hand = StoreHand("b", "c")
    hand.line()
    hand.hear(far, StoreAdvertise(((CLASS, 2),)))
    return hand


def response(asker: str, path: str, store: str, number: int = 1) -> Response:
    return Response(RequestId(asker, 1, number), tuple(path), store, (past("e", 1, 5),), (0,))


def end(asker: str, path: str, store: str, number: int = 1) -> ResponseEnd:
    return ResponseEnd(RequestId(asker, 1, number), tuple(path), store, 2, 0)


# -- what is carried ---------------------------------------------------------------------------------------------------


def test_a_request_follows_the_table_and_its_path_grows() -> None:
    hand = middle()
    asked = request("d", "db", asked=query(CLASS, last=3), user="u", client="x", credit=7)
    effects = hand.hear("b", asked)
    assert carried(effects, "b", "c") == [
        request("d", "dba", asked=query(CLASS, last=3), user="u", client="x", credit=7),
    ]


def test_an_answer_takes_the_path_back_and_each_takes_itself_off() -> None:
    hand = middle()
    effects = hand.hear("c", response("d", "dba", "e"), end("d", "dba", "e"))
    assert carried(effects, "b", "c") == [response("d", "db", "e"), end("d", "db", "e")]


def test_credit_goes_to_the_store_it_names() -> None:
    hand = middle()
    effects = hand.hear("b", Credit(D1, "e", 6))
    assert carried(effects, "b", "c") == [Credit(D1, "e", 6)]


def test_a_request_for_one_store_takes_no_notice_of_the_table() -> None:
    hand = middle()
    assert len(requests(hand.hear("c", request("e", "ec", store="d")), "b")) == 1
    [answer] = ends(hand.hear("c", request("e", "ec", store="nobody")), "c")
    assert (answer.store, answer.final, bool(answer.problem)) == ("a", False, True)
    assert answer.problem == "the way ends here"


def test_where_nothing_is_known_the_way_ends_and_the_asker_is_told() -> None:
    hand = middle()
    [answer] = ends(hand.hear("b", request("d", "db", topics="other/#")), "b")
    assert (answer.path, answer.store, answer.final) == (("d", "b"), "a", False)
    assert carried(hand.hear("c", request("e", "ec")), "b") == []


def test_nothing_is_kept_on_the_way() -> None:
    hand = middle()
    hand.hear("b", request("d", "db"))
    history = hand.broker.history
    assert (history.store.streams, history.store.waiting, history.retrieval.parts) == ({}, {}, {})


def test_nothing_is_carried_in_a_tree_that_is_not_ready() -> None:
    hand = StoreHand("b", "c")
    for peer, behind in (("b", "d"), ("c", "e")):
        hand.meet(peer)
        hand.hear(peer, hand.states(peer, behind))
    hand.settle()
    said = (request("d", "db"), Credit(D1, "e", 1), response("d", "dba", "e"), Compare("d", "e", 1, CLASS, 0, 1, 1))
    for frame in said:
        for peer in ("b", "c"):
            effects = hand.hear(peer, frame)
            assert (of(effects, Disconnect), carried(effects, "b", "c")) == ([], [])


# -- what is made up ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "it does not lead from who asks to who sends"),
        ("b", "it does not lead from who asks to who sends"),
        ("bd", "it does not lead from who asks to who sends"),
        ("d", "it does not lead from who asks to who sends"),
        ("dbdb", "it is not the way along the tree"),
        ("dab", "it is not the way along the tree"),
        ("dcb", "it is not the way along the tree"),
        ("d" * PATH_MAX + "b", f"it has more than {PATH_MAX} hops"),
    ],
)
def test_a_path_that_is_not_the_way_ends_the_link(path: str, why: str) -> None:
    hand = middle()
    effects = hand.hear("b", request("d", path))
    assert hand.away(effects) == [f"bad route of request d.1/1: {why}"]
    assert carried(effects, "b", "c") == []


@pytest.mark.parametrize(("asker", "path"), [("e", "eb"), ("e", "ecb"), ("a", "ab"), ("x", "xb"), ("c", "cb")])
def test_nobody_asks_in_the_name_of_another_side(asker: str, path: str) -> None:
    hand = middle()
    effects = hand.hear("b", request(asker, path))
    assert hand.away(effects) == [f"bad route of request {asker}.1/1: it is not the way along the tree"]
    assert carried(effects, "b", "c") == []


@pytest.mark.parametrize(
    ("peer", "frame"),
    [
        ("b", response("d", "dba", "e")),  # the store is on the other side
        ("c", response("d", "dba", "d")),
        ("c", response("d", "dba", "a")),
        ("c", response("d", "dba", "x")),
        ("c", response("d", "db", "e")),  # not by way of us
        ("c", response("d", "", "e")),
        ("c", response("e", "eca", "e")),  # back to where it comes from
        ("c", response("d", "dxa", "e")),
        ("c", response("d", "bda", "e")),
        ("c", response("d", "da", "e")),
        ("c", response("d", "a", "e")),  # not ours
        ("c", response("b", "dba", "e")),  # whoever is last would blame us for it
        ("c", response("x", "dba", "e")),
        ("c", response("a", "ba", "e")),
    ],
)
def test_an_answer_on_another_way_ends_the_link(peer: str, frame: Response) -> None:
    for said in (frame, ResponseEnd(frame.id, frame.path, frame.store, 1, 0)):
        hand = middle()
        effects = hand.hear(peer, said)
        [why] = hand.away(effects)
        assert str(frame.id) in why
        assert carried(effects, "b", "c") == []


def test_an_answer_to_a_request_of_this_broker_that_nobody_made_is_told_to_stop() -> None:
    hand = middle()
    effects = hand.hear("c", response("a", "a", "e", number=99))
    assert hand.away(effects) == []
    assert carried(effects, "b", "c") == [Credit(RequestId("a", 1, 99), "e", 0)]
    assert carried(hand.hear("c", end("a", "a", "e", number=99)), "b", "c") == []


@pytest.mark.parametrize(
    ("peer", "frame"),
    [
        ("c", Credit(D1, "e", 3)),  # who asked is on the other side
        ("b", Credit(A1, "e", 3)),  # we give credit for our requests ourselves
        ("b", Credit(RequestId("x", 1, 1), "e", 3)),
        ("b", Credit(D1, "x", 3)),
        ("b", Credit(D1, "d", 3)),
        ("b", Credit(D1, "b", 3)),  # it has passed the store already
    ],
)
def test_credit_that_does_not_come_from_who_asked_ends_the_link(peer: str, frame: Credit) -> None:
    hand = middle()
    effects = hand.hear(peer, frame)
    [why] = hand.away(effects)
    assert str(frame.id) in why
    assert carried(effects, "b", "c") == []


def test_stores_compare_along_the_tree_or_not_at_all() -> None:
    hand = middle()
    compare, compared = Compare("d", "e", 1, CLASS, 0, 10, 10), Compared("d", "e", 1, ())
    assert compare in frames(hand.hear("b", compare), "c")
    assert compared in frames(hand.hear("c", compared), "b")
    bad: list[tuple[str, LinkMessage]] = [
        ("c", compare),
        ("b", compared),
        ("b", Compare("d", "b", 1, CLASS, 0, 10, 10)),
        ("c", Compared("e", "e", 1, ())),
    ]
    for peer, frame in bad:
        hand = middle()
        effects = hand.hear(peer, frame)
        assert len(hand.away(effects)) == 1, frame
        assert frame not in frames(effects, "b") + frames(effects, "c")


@pytest.mark.parametrize(
    "frame",
    [
        request("c", "c"),
        Response(RequestId("z", 1, 1), ("z",), "c", (), ()),
        ResponseEnd(RequestId("z", 1, 1), ("z",), "c", 1, 0),
        Credit(RequestId("c", 1, 1), "z", 1),
        Compare("c", "z", 1, CLASS, 0, 10, 10),
        Compared("z", "c", 1, ()),
    ],
)
def test_late_words_of_a_tree_that_had_this_link_are_nobodys_fault(frame: LinkMessage) -> None:
    """`c` sent it in a tree that used the link between us; the tree that is ready now was completed by other ways."""
    hand = triangle()
    effects = hand.hear("c", frame)
    assert of(effects, Disconnect) == []
    assert hand.link("c").up


# -- from end to end ---------------------------------------------------------------------------------------------------


def test_a_request_of_our_own_goes_out_and_its_answer_comes_in() -> None:
    hand = middle()
    effects = hand.tell(Requested("x", 7, query(CLASS)))
    assert carried(effects, "b", "c") == [request("a", "a", client="x", credit=4)]
    effects = hand.hear("c", response("a", "a", "e"), ResponseEnd(A1, ("a",), "e", 2, 0))
    answers = of(effects, Answer)
    assert [answer.token for answer in answers] == [7, 7]
    outcome = answers[-1].outcome
    assert outcome is not None
    assert (outcome.stores, outcome.hops, outcome.complete) == (("e",), 2, True)


def test_a_request_that_ends_here_is_answered_here() -> None:
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    hand.stock(past("d", 1, 5), past("d", 2, 6))
    hand.settled()
    effects = hand.perform(hand.hear("b", request("d", "db")))
    assert [len(answer.events) for answer in responses(effects, "b")] == [2]
    [over] = ends(effects, "b")
    assert (over.path, over.store, over.hops, over.problem) == (("d", "b"), "a", 2, "")


def test_more_requests_than_a_store_can_remember_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.core.store.STREAMS_MAX", 2)
    hand = StoreHand("b", "c")
    hand.line()
    hand.keep()
    effects = hand.hear("b", *[request("d", "db", number) for number in (1, 2, 3)])
    [end] = ends(effects, "b")
    assert (end.id.number, end.final, bool(end.problem)) == (3, False, True)
    assert len(hand.broker.history.store.waiting) == 2
