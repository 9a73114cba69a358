"""Times as text: whatever is written can be read, and whatever is read is an instant or a sentence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latecomer.model.errors import SettingsError
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.when import UNITS_S, Options, format_when, make_wish, parse_options, parse_when

instants = st.integers(0, 253_402_300_799_999_999)


@given(us=instants)
def test_what_is_written_is_read_again(us: int) -> None:
    assert parse_when(format_when(us), 0) == us
    assert parse_when(f"{us // 1_000_000}.{us % 1_000_000:06}", 0) == us


@given(one=instants, other=instants)
def test_texts_stand_in_the_order_of_instants(one: int, other: int) -> None:
    assert (format_when(one) < format_when(other)) == (one < other)


@given(now=instants, count=st.integers(0, 999_999_999), unit=st.sampled_from(sorted(UNITS_S)))
def test_what_is_relative_is_counted_from_now(now: int, count: int, unit: str) -> None:
    assert parse_when(f"-{count}{unit}", now) == max(0, now - count * UNITS_S[unit] * 1_000_000)


@given(text=st.text() | st.from_regex(r"[-0-9TZ:.+smhdw]{0,30}", fullmatch=True), now=instants)
def test_no_text_leads_to_anything_else(text: str, now: int) -> None:
    problem = ""
    try:
        assert 0 <= parse_when(text, now) <= NUMBER_MAX
    except SettingsError as error:
        problem = error.problem
    assert not problem or "write " in problem


@given(text=st.text(alphabet="sincelatu=,-1h09 ", max_size=40))
def test_options_can_be_written_and_read_again(text: str) -> None:
    try:
        options = parse_options(text)
    except SettingsError:
        return
    assert parse_options(str(options)) == options


@given(since=instants, until=instants, last=st.integers(1, 1_000_000))
def test_a_wish_is_what_was_written(since: int, until: int, last: int) -> None:
    options = Options(format_when(since), format_when(until), str(last))
    try:
        wish = make_wish(options, 0)
    except SettingsError:
        assert since > until or until == 0
    else:
        assert (wish.since, wish.until, wish.last) == (since, until, last)
        assert until > 0
        assert since <= until
