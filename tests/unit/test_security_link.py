"""The preamble of a link: who proves what to whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.runtime.link_challenge import PREAMBLE_MAX, LinkChallenge, Progress, Role

SECRET = b"a secret of the network"


def caller(**changed: object) -> LinkChallenge:
    return LinkChallenge(**{"role": Role.CALLER, "broker": "a", "network": "n", "expected": ["b"], "secret": SECRET,
                            **changed})  # type: ignore[arg-type]  # fmt: skip


def callee(**changed: object) -> LinkChallenge:
    return caller(**{"role": Role.CALLEE, "broker": "b", "expected": ["a", "c"], **changed})


def converse(left: LinkChallenge, right: LinkChallenge, size: int = 1 << 20) -> tuple[Progress, Progress]:
    """Let both ends talk, in pieces of this size, until nobody has anything to say; the last word of each."""
    ends, last = [left, right], [Progress(), Progress()]
    under_way = [right.begin(), left.begin()]  # to the left, to the right
    while any(under_way):
        for me in (0, 1):
            data, under_way[me] = under_way[me][:size], under_way[me][size:]
            decided = last[me].peer or last[me].refused
            if data and not decided:
                last[me] = ends[me].feed(data)
                under_way[1 - me] += last[me].send
    return last[0], last[1]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("secret", [SECRET, None])
def test_both_ends_learn_who_the_other_is(secret: bytes | None, size: int) -> None:
    left, right = converse(caller(secret=secret), callee(secret=secret), size)
    assert (left.peer, right.peer) == ("b", "a")
    assert (left.refused, right.refused, left.rest, right.rest) == (None, None, b"", b"")


def test_names_may_be_long_and_of_any_letters() -> None:
    name = "ä" * 127
    left, right = caller(broker=name, network=name), callee(network=name, expected=[name])
    assert len(left.begin()) <= PREAMBLE_MAX
    assert converse(left, right)[1].peer == name


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (caller(secret=b"another"), callee(), "the secret of the other end is a different one"),
        (caller(secret=None), callee(), "one end has a secret and the other has none"),
        (caller(), callee(secret=None), "one end has a secret and the other has none"),
        (caller(network="m"), callee(), "this is the network 'n', not 'm'"),
        (caller(broker="x"), callee(), "the broker 'x' is not the neighbour expected here"),
        (caller(broker="b", expected=["b"]), callee(), "there are two brokers with the id 'b'"),
        (caller(), callee(certified=["x", "y"]), "the certificate does not name the broker 'a'"),
        (caller(), callee(certified=[]), "the certificate does not name the broker 'a'"),
    ],
)
def test_who_is_refused_is_told_why(left: LinkChallenge, right: LinkChallenge, reason: str) -> None:
    told, refused = converse(left, right)
    assert refused.refused == reason
    assert (told.peer, refused.peer) == (None, None)
    assert told.refused == f"refused by the neighbour: {reason!r}"


def test_the_caller_looks_as_closely() -> None:
    refused, told = converse(caller(expected=["c"]), callee())
    assert refused.refused == "the broker 'b' is not the neighbour expected here"
    assert told.peer is None
    refused, told = converse(caller(certified=["c"]), callee(certified=["a"]))
    assert refused.refused == "the certificate does not name the broker 'b'"


def test_a_certificate_that_names_the_broker_is_good() -> None:
    left, right = converse(caller(certified=["host", "b"]), callee(certified=["a"]))
    assert (left.peer, right.peer) == ("b", "a")


def test_what_comes_behind_the_preamble_belongs_to_the_link() -> None:
    left, right = caller(), callee()
    right.begin()
    proof = left.feed(right.feed(left.begin()).send).send
    done = right.feed(proof)
    assert left.feed(done.send + b"first frame").rest == b"first frame"


def test_the_callee_proves_nothing_before_the_caller_has() -> None:
    left, right = caller(secret=b"another"), callee()
    right.begin()
    hello = right.feed(left.begin()).send
    assert len(hello) == len(left.begin())  # the same fields, and no proof with them


# -- attacks


def test_a_proof_cannot_be_replayed() -> None:
    left, right = caller(), callee()
    right.begin()
    hello = left.begin()
    proof = left.feed(right.feed(hello).send).send
    assert right.feed(proof).peer == "a"
    fresh = callee()
    fresh.begin()
    fresh.feed(hello)
    assert fresh.feed(proof).refused == "the secret of the other end is a different one"


def test_a_hello_cannot_be_reflected() -> None:
    left = caller(expected=["a", "b"])
    assert left.feed(left.begin()).refused == "this is our own hello"


def test_a_proof_cannot_be_reflected() -> None:
    """Whoever echoes the caller's own proof, or one it lured out of the callee's role, has proved nothing."""
    left, right = caller(), callee()
    right.begin()
    proof = left.feed(right.feed(left.begin()).send).send
    assert left.feed(proof).refused == "the secret of the other end is a different one"


def test_the_man_in_the_middle_cannot_change_who_speaks() -> None:
    left, right = caller(), callee()
    right.begin()
    hello = bytearray(left.begin())
    hello[3 + 3 + 32 + 1] = ord("c")  # the id, which `right` would take as well
    answer = right.feed(bytes(hello)).send
    assert right.feed(left.feed(answer).send).refused == "the secret of the other end is a different one"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "does not speak the link protocol"),
        (b"\x10\x20\x00\x04MQTT", "does not speak the link protocol"),
        (b"\x01\xff\xff", "too long"),
        (b"\x02\x00\x20" + bytes(32), "out of turn"),
        (b"\x01\x00\x00", "cannot be read"),
        (b"\x01\x00\x01\x01", "cannot be read"),
        (b"\x01\x00\x01\x09", "version 1 of the preamble, not 9"),
        (b"\x01\x00\x27\x01\x01\x01" + b"x" * 32 + b"\x01\xff\x01n", "cannot be read"),
        (b"\x01\x00\x25\x01\x01\x01" + b"x" * 32 + b"\x00\x00", "cannot be read"),
        (b"\x01\x00\x28\x01\x01\x01" + b"x" * 32 + b"\x01a\x01n!", "cannot be read"),
        (b"\x01\x00\x27\x01\x07\x01" + b"x" * 32 + b"\x01a\x01n", "cannot be read"),
        (b"\x03\x00\x04\x1b[2J", r"refused by the neighbour: '\x1b[2J'"),
    ],
)
def test_what_is_no_preamble(data: bytes, reason: str) -> None:
    end = callee()
    end.begin()
    refused = end.feed(data).refused
    assert refused is not None
    assert reason in refused


def test_a_second_hello_is_out_of_turn() -> None:
    left, right = caller(), callee()
    right.begin()
    right.feed(left.begin())
    assert right.feed(left.begin()).refused == "a frame of the preamble came out of turn"


@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans(), st.booleans())
def test_nobody_gets_in_by_chance(pieces: list[bytes], calling: bool, greeted: bool) -> None:
    end, other = (caller(), callee()) if calling else (callee(), caller())
    hello = other.begin() if not calling else b""
    own = end.begin()
    if calling:
        hello = other.feed(own).send
    if greeted:
        end.feed(hello)
    for piece in pieces:
        progress = end.feed(piece)
        assert progress.peer is None
        assert len(progress.send) <= PREAMBLE_MAX
        if progress.refused:
            break
