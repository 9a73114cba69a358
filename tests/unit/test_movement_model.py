"""The movement predictor as a broker has it: what it predicts, and what its file holds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from random import Random

import msgspec
import pytest

from latecomer.model.errors import SettingsError
from latecomer.model.movement import (
    BUCKETS,
    FIRST_ORDER,
    LEVELS,
    MAGIC,
    SECOND_ORDER,
    WEIGHT_ONE,
    Guess,
    Movement,
    bucket,
    indexed,
    read_movement,
    write_movement,
)

HALF = (WEIGHT_ONE // 2,) * BUCKETS
PLACES = ("a", "b", "c", "d")
A, B, C, D = range(4)


def model(
    population: Mapping[tuple[int, int, int], tuple[int, ...]],
    own: Mapping[tuple[int, int, int], tuple[int, ...]],
    *,
    levels: tuple[int, ...] = SECOND_ORDER,
    moves_only: bool = True,
) -> Movement:
    empty = indexed(Movement(PLACES, 6, levels, (HALF,) * len(levels), moves_only, {}, {}))
    return msgspec.structs.replace(
        empty,
        population={empty.key(*key): followers for key, followers in population.items()},
        clients={"ann": {empty.key(*key): followers for key, followers in own.items()}},
    )


def test_each_context_takes_its_share_of_what_the_more_particular_ones_left() -> None:
    asked = model({(-1, A, -1): (4, B, 3, C, 1)}, {(-1, A, -1): (2, D, 2)})
    assert asked.predict("ann", "a", 12) == (
        Guess("d", 0.5),
        Guess("b", 0.1875),  # half of the half that is left, three times in four
        Guess("c", 0.0625),
    )


def test_a_stranger_is_predicted_by_what_others_did_there() -> None:
    asked = model({(-1, A, -1): (4, B, 3, C, 1)}, {(-1, A, -1): (2, D, 2)})
    assert [guess.place for guess in asked.predict("bob", "a", 12)] == ["b", "c"]


def test_a_place_never_seen_is_left_for_where_the_client_mostly_is() -> None:
    asked = model({(-1, -1, -1): (9, B, 9)}, {(-1, -1, -1): (2, D, 2)})
    assert [guess.place for guess in asked.predict("ann", "the moon", 12)] == ["d", "b"]


def test_the_hour_and_the_place_before_decide_where_they_are_known() -> None:
    asked = model({}, {(-1, A, 0): (2, B, 2), (-1, A, 3): (2, C, 2), (D, A, -1): (2, D, 2)})
    assert asked.predict("ann", "a", 5)[0].place == "b"
    assert asked.predict("ann", "a", 23)[0].place == "c"
    assert asked.predict("ann", "a", 9) == ()
    assert [guess.place for guess in asked.predict("ann", "a", 5, "d")] == ["d", "b"]


def test_a_client_does_not_move_to_where_it_is() -> None:
    everywhere = {(-1, -1, -1): (10, A, 8, B, 2)}
    assert model({}, everywhere).predict("ann", "a", 0) == (Guess("b", 0.5),)
    assert model({}, {(-1, -1, -1): (8, A, 8)}).predict("ann", "a", 0) == ()
    staying = model({}, everywhere, moves_only=False)
    assert [guess.place for guess in staying.predict("ann", "a", 0)] == ["a", "b"]


def test_of_equals_the_first_by_name_comes_first_and_no_more_than_wanted() -> None:
    asked = model({(-1, A, -1): (3, D, 1, C, 1, B, 1)}, {})
    assert [guess.place for guess in asked.predict("ann", "a", 0)] == ["b", "c", "d"]
    assert len(asked.predict("ann", "a", 0, limit=2)) == 2


def test_what_was_seen_but_is_not_remembered_is_nobodys() -> None:
    asked = model({(-1, A, -1): (10, B, 4)}, {})
    assert asked.predict("ann", "a", 0) == (Guess("b", 0.2),)


def followers(chance: Random) -> tuple[int, ...]:
    return (12, *(number for place in chance.sample(range(4), 3) for number in (place, chance.randint(1, 4))))


def test_the_probabilities_of_all_places_add_up_to_no_more_than_one() -> None:
    chance = Random(7)
    for _ in range(50):
        contexts = {key: followers(chance) for key in [(-1, A, -1), (-1, -1, -1), (B, A, -1), (-1, A, 2)]}
        told = model(contexts, contexts).predict("ann", "a", 12, "b", limit=9)
        assert 0 < sum(guess.probability for guess in told) <= 1
        assert [guess.probability for guess in told] == sorted((guess.probability for guess in told), reverse=True)


@pytest.mark.parametrize(
    ("total", "different", "expected"),
    [(1, 1, 0), (2, 1, 4), (2, 2, 7), (7, 2, 9), (40, 1, 20), (31, 20, 18), (3, 3, 7)],
)
def test_buckets(total: int, different: int, expected: int) -> None:
    assert bucket(total, different) == expected < BUCKETS


# --- files ---


def test_a_file_is_read_as_it_was_written_and_written_as_it_was_read() -> None:
    made = model({(-1, A, -1): (4, B, 3, C, 1), (-1, -1, -1): (9, B, 9)}, {(B, A, -1): (2, D, 2)}, levels=SECOND_ORDER)
    data = write_movement(made)
    assert read_movement(data, "m") == made
    assert write_movement(read_movement(data, "m")) == data
    turned = msgspec.structs.replace(made, population=dict(reversed(made.population.items())))
    assert write_movement(turned) == data


def test_only_the_levels_of_its_order_are_asked() -> None:
    first = model({}, {(D, A, -1): (2, D, 2), (-1, A, -1): (2, B, 2)}, levels=FIRST_ORDER)
    assert [guess.place for guess in first.predict("ann", "a", 5, "d")] == ["b"]


def _file(**changes: object) -> bytes:
    body: dict[str, object] = {
        "band_h": 6,
        "moves_only": True,
        "levels": [6, 7],
        "weights": [[1] * BUCKETS] * 2,
        "places": ["a", "b"],
        "population": {},
        "clients": {},
    }
    return MAGIC + zlib.compress(msgspec.msgpack.encode(list({**body, **changes}.values())))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is no movement model"),
        (b"PK\x03\x04", "is no movement model"),
        (b"latecomer movement 2\n", "another version"),
        (MAGIC, "too early"),
        (MAGIC + b"garbage", "damaged"),
        (_file()[:-3], "too early"),
        (_file() + b"x", "something follows"),
        (MAGIC + zlib.compress(b"\x93\x01\x02"), "damaged"),
        (_file(band_h="4"), "damaged"),
        (_file(band_h=0), "bands of 0 hours"),
        (_file(band_h=7), "bands of 7 hours"),
        (_file(levels=[6, len(LEVELS)]), "unknown levels"),
        (_file(levels=[7, 6]), "unknown levels"),
        (_file(levels=[6]), "not one weight"),
        (_file(weights=[[1] * BUCKETS, [1]]), "not one weight"),
        (_file(weights=[[1] * BUCKETS, [WEIGHT_ONE + 1] * BUCKETS]), "a weight out of range"),
        (_file(places=["a", "a"]), "named twice"),
        (_file(population={1: [1]}), "cut off"),
        (_file(population={1: [1, 0, 1, 1]}), "cut off"),
        (_file(population={1: [1, 2, 1]}), "unknown place"),
        (_file(population={1: [1, -1, 1]}), "unknown place"),
        (_file(population={1: [1, 0, 2]}), "sums are wrong"),
        (_file(clients={"ann": {1: [1, 0, 0]}}), "sums are wrong"),
        (_file(clients={"ann": {"x": [1, 0, 1]}}), "damaged"),
    ],
)
def test_a_file_that_is_none_is_told_in_a_sentence(data: bytes, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_movement(data, "m.movement")
    assert told in str(error.value)
    assert str(error.value).startswith("m.movement: ")
    assert "latecomer movement FILE --model" in str(error.value)


def test_any_damage_gives_a_sentence_or_a_model_that_answers() -> None:
    data = write_movement(model({(-1, A, -1): (4, B, 3, C, 1)}, {(-1, A, -1): (2, D, 2)}))
    chance = Random(3)
    for _ in range(300):
        broken = bytearray(data)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        try:
            found = read_movement(bytes(broken), "m")
        except SettingsError:
            continue
        found.predict("ann", "a", 3, "b")


def test_a_file_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latecomer.model.movement.SIZE_MAX", 1000)
    with pytest.raises(SettingsError, match="more than 1,000 bytes"):
        read_movement(MAGIC + zlib.compress(b"\0" * 100_000), "m")
