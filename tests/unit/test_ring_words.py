"""Words: filters that cross slots, flooded as differences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from latecomer.core.ring import words as module
from latecomer.core.ring.words import Words
from latecomer.messages.link import SessionFrame
from latecomer.messages.ring import FILTERS_MAX, WORD_MAX, Wants, WantsChange, size_of
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId
from latecomer.wire.link import HEADER, decode_body, encode
from tests.unit.hand import filters

BOOT = 7


class Speaker:
    """Words of broker `a`, whose neighbours are b and c."""

    def __init__(self, *, brokers_max: int = 5) -> None:
        self.sent: list[tuple[BrokerId, SessionFrame]] = []
        self.rejected: list[tuple[BrokerId, str]] = []
        self.heard = 0
        self.words = Words(
            "a",
            cast(Any, SimpleNamespace(boot=BOOT)),
            lambda peer, frame: self.sent.append((peer, frame)),
            lambda: ["b", "c"],
            self._hear,
            lambda peer, reason: self.rejected.append((peer, reason)),
            brokers_max,
        )

    def _hear(self) -> None:
        self.heard += 1

    def told(self) -> list[tuple[BrokerId, SessionFrame]]:
        """What was sent since this was asked for the last time."""
        sent, self.sent = self.sent, []
        return sent

    def wants(self, broker: BrokerId) -> list[str]:
        return [str(filter) for filter in self.words.told[broker].filters]

    def holders(self, topic: str) -> list[tuple[str, BrokerId]]:
        return sorted((str(filter), broker) for filter, broker in self.words.holders(topic))


def change(number: int, added: tuple[str, ...] = (), dropped: tuple[str, ...] = (), boot: int = 1) -> WantsChange:
    return WantsChange("d", boot, number, filters(*added), filters(*dropped))


def wants(number: int, *texts: str, boot: int = 1, broker: BrokerId = "d") -> Wants:
    return Wants(broker, boot, number, filters(*texts))


# --- own words ------------------------------------------------------------------------------------------------------


def test_own_filters_are_told_as_differences() -> None:
    speaker = Speaker()
    speaker.words.add(Filter("#"))
    frame = WantsChange("a", BOOT, 2, filters("#"), ())
    assert speaker.told() == [("b", frame), ("c", frame)]
    speaker.words.add(Filter("+/x"))
    speaker.told()
    speaker.words.drop(Filter("#"))
    frame = WantsChange("a", BOOT, 4, (), filters("#"))
    assert speaker.told() == [("b", frame), ("c", frame)]
    speaker.words.greet("b")
    assert speaker.told() == [("b", Wants("a", BOOT, 4, filters("+/x")))]


def test_an_empty_word_is_told_as_well() -> None:
    """It ends what was said in an earlier life."""
    speaker = Speaker()
    speaker.words.greet("c")
    assert speaker.told() == [("c", Wants("a", BOOT, 1, ()))]


def test_filters_that_nothing_can_satisfy_are_not_told() -> None:
    speaker = Speaker()
    speaker.words.add(*filters("# ? v > 5 and v < 3"))
    speaker.words.drop(*filters("# ? v > 5 and v < 3"))
    assert speaker.told() == []
    assert speaker.words.number == 1


def test_a_word_that_is_too_large_asks_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILTERS_MAX", 3)
    speaker = Speaker()
    for text in ("+/1", "$x/+/1", "$x/+/2"):
        speaker.words.add(Filter(text))
    speaker.told()
    speaker.words.add(Filter("$y/+"))
    short = Wants("a", BOOT, 5, filters("#", "$x/#", "$y/#"))
    assert speaker.told() == [("b", short), ("c", short)]
    speaker.words.add(Filter("+/2"))
    assert speaker.told()[0] == ("b", Wants("a", BOOT, 6, short.filters))
    for text in ("+/2", "+/1"):
        speaker.words.drop(Filter(text))
    frame = Wants("a", BOOT, 8, filters("$x/+/1", "$x/+/2", "$y/+"))
    assert speaker.told()[-1] == ("c", frame), "as it is again, all of it"
    speaker.words.drop(Filter("$y/+"))
    assert speaker.told()[-1] == ("c", WantsChange("a", BOOT, 9, (), filters("$y/+")))


def test_a_word_fits_a_frame_whatever_clients_want() -> None:
    """Neighbours read it, also when there are more first levels with `$` than it can hold."""
    speaker = Speaker()
    for number in range(12):
        speaker.words.own |= dict.fromkeys([Filter(f"$é{number}{'x' * 30_000}/+/{n}") for n in range(3)])
        speaker.words.own |= dict.fromkeys([Filter(f"+/{number}/{'ä' * 30_000}")])
    speaker.words.add(Filter("$ö/+"))
    speaker.words._size = sum(map(size_of, speaker.words.own))
    for size in (speaker.words._size, WORD_MAX + 1):
        speaker.words._size = size
        word = speaker.words._word()
        assert sum(map(size_of, word.filters)) <= WORD_MAX
        assert len(word.filters) <= FILTERS_MAX
        assert decode_body(encode(word)[HEADER:]) == word


def test_what_does_not_fit_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILTERS_MAX", 3)
    speaker = Speaker()
    for number in range(9):
        speaker.words.add(Filter(f"${number}/+"))
    assert speaker.told()[-1] == ("c", Wants("a", BOOT, 10, filters("#", "$0/#", "$1/#")))


# --- words of others ------------------------------------------------------------------------------------------------


def test_a_word_is_remembered_and_told_on() -> None:
    speaker = Speaker()
    frame = wants(3, "#", "+/x")
    speaker.words.on_wants("b", frame)
    assert speaker.told() == [("c", frame)]
    assert speaker.heard == 1
    assert speaker.holders("t/x") == [("#", "d"), ("+/x", "d")]
    assert speaker.holders("$s/x") == []
    later = change(4, ("+/y",), ("#",))
    speaker.words.on_change("c", later)
    assert speaker.told() == [("b", later)]
    assert speaker.wants("d") == ["+/x", "+/y"]
    assert speaker.holders("t/x") == [("+/x", "d")]
    speaker.words.greet("b")
    assert speaker.told() == [("b", Wants("a", BOOT, 1, ())), ("b", wants(4, "+/x", "+/y"))]


def test_two_brokers_may_want_the_same() -> None:
    speaker = Speaker()
    for broker in "de":
        speaker.words.on_wants("b", wants(1, "#", broker=broker))
    assert speaker.holders("t") == [("#", "d"), ("#", "e")]
    speaker.words.on_wants("b", wants(2, broker="d"))
    assert speaker.holders("t") == [("#", "e")]
    speaker.words.on_wants("b", wants(2, broker="e"))
    assert speaker.holders("t") == []


def test_a_whole_word_takes_the_place_of_the_one_before() -> None:
    speaker = Speaker()
    speaker.words.on_wants("b", wants(1, "#", "+/x"))
    speaker.words.on_wants("b", wants(5, "+/x", "+/y"))
    assert speaker.wants("d") == ["+/x", "+/y"]
    assert speaker.holders("t/y") == [("+/y", "d")]


def test_a_new_life_begins_anew() -> None:
    """Its numbers begin at 1 again, and an empty word takes back what was wanted in the life before."""
    speaker = Speaker()
    speaker.words.on_wants("b", wants(9, "#"))
    speaker.words.on_wants("b", wants(1, boot=2))
    assert speaker.wants("d") == []
    speaker.words.on_change("b", change(2, ("+/y",), boot=2))
    assert speaker.wants("d") == ["+/y"]
    assert speaker.rejected == []


@pytest.mark.parametrize(
    "frame",
    [
        wants(3, "#", "+/y"),
        wants(2, "+/y"),
        wants(9, "+/y", boot=0),
        change(3, ("+/y",)),
        change(2, ("+/y",)),
        change(9, ("+/y",), boot=0),
    ],
)
def test_what_comes_again_or_late_says_nothing(frame: Wants | WantsChange) -> None:
    """Along another way, or of an earlier life."""
    speaker = Speaker()
    speaker.words.on_wants("b", wants(3, "#"))
    speaker.told()
    if isinstance(frame, Wants):
        speaker.words.on_wants("c", frame)
    else:
        speaker.words.on_change("c", frame)
    assert (speaker.told(), speaker.rejected, speaker.heard) == ([], [], 1)
    assert speaker.wants("d") == ["#"]


def test_nobody_tells_a_broker_what_it_wants_itself() -> None:
    speaker = Speaker()
    speaker.words.on_wants("b", wants(9, "#", broker="a", boot=99))
    speaker.words.on_change("b", WantsChange("a", 99, 10, filters("#"), ()))
    assert (speaker.told(), speaker.rejected, speaker.words.told) == ([], [], {})


@pytest.mark.parametrize("before", [None, wants(3, "#"), wants(1, "#", boot=0)])
def test_a_change_needs_the_word_before_it(before: Wants | None) -> None:
    speaker = Speaker()
    if before is not None:
        speaker.words.on_wants("b", before)
        speaker.told()
    speaker.words.on_change("b", change(5, ("+/y",)))
    assert speaker.rejected == [("b", "it tells a change of what 'd' wants without what was before it")]
    assert speaker.told() == []
    assert speaker.holders("t/y") == ([] if before is None else [("#", "d")])


def test_a_change_of_what_was_not_there_is_harmless() -> None:
    speaker = Speaker()
    speaker.words.on_wants("b", wants(1, "#"))
    speaker.words.on_change("b", change(2, ("#",), ("+/z",)))
    assert speaker.wants("d") == ["#"]
    assert speaker.words.told["d"].size == size_of(Filter("#"))


def test_only_so_many_brokers_are_heard_of() -> None:
    speaker = Speaker(brokers_max=2)
    for broker in "def":
        speaker.words.on_wants("b", wants(1, "#", broker=broker))
    assert speaker.rejected == [("b", "it tells of more than 2 brokers, which core.brokers_max allows")]
    assert list(speaker.words.told) == ["d", "e"]


@pytest.mark.parametrize(("name", "most"), [("FILTERS_MAX", 3), ("WORD_MAX", 3 * size_of(Filter("+/1")))])
def test_a_word_does_not_grow_by_changes_for_ever(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """No neighbour could be told of it when its link comes up."""
    monkeypatch.setattr(module, name, most)
    speaker = Speaker()
    speaker.words.on_wants("b", wants(1, "+/1", "+/2", "+/3"))
    speaker.words.on_change("b", change(2, ("+/4",), ("+/1",)))
    assert speaker.rejected == []
    speaker.words.on_change("b", change(3, ("+/5",)))
    assert speaker.rejected == [("b", "it tells more of what 'd' wants than one word can hold")]
    assert speaker.wants("d") == ["+/2", "+/3", "+/4"]
