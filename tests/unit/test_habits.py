"""Where a client goes next, by where it was."""

from __future__ import annotations

import pytest

from latecomer.core.mobility.habits import PLACES_MAX, likely_after, remember
from latecomer.core.session.state import Session, SessionRow


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ("", []),
        ("a", []),
        ("ab", [("a", 1 / 3)]),
        ("aba", [("b", (1 + 1 / 3) / 2)]),
        ("abab", [("a", (1 + (1 + 2 / 4) / 2) / 2)]),
    ],
)
def test_who_goes_to_and_fro_is_expected_back(places: str, expected: list[tuple[str, float]]) -> None:
    assert [(guess.place, guess.probability) for guess in likely_after(tuple(places), 3)] == expected


def test_the_last_two_places_count_most() -> None:
    """From b it goes on to c if it came from a, and to a if it came from c."""
    to_and_fro = tuple("abcbabcba")
    assert likely_after((*to_and_fro, "b"), 1)[0].place == "c"
    assert likely_after((*to_and_fro, "b", "c", "b"), 1)[0].place == "a"


def test_the_likeliest_come_first_and_no_more_than_asked_for() -> None:
    guesses = likely_after(tuple("acabacabad"), 2)
    assert len(guesses) == 2
    assert guesses[0].place == "a"
    assert guesses[0].probability >= guesses[1].probability
    assert sum(guess.probability for guess in likely_after(tuple("acabacabad"), 9)) < 1


def test_a_session_remembers_its_last_places_and_takes_them_along() -> None:
    session = Session("c", "", expiry_s=60)
    assert remember(session, "b1")
    assert not remember(session, "b1"), "it was there before"
    for number in range(2 * PLACES_MAX):
        assert remember(session, f"b{number % 3 + 2}")
    assert len(session.places) == PLACES_MAX
    assert session.row().places == session.places
    assert not remember(Session("d", ""), "b1"), "its session ends with its connection"
    assert SessionRow("", 5, 60).places == ()
