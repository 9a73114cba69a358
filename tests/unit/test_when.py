"""Times and history options, as people write them."""

from __future__ import annotations

import pytest

from latecomer.model.errors import SettingsError
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.when import Options, Wish, format_when, make_wish, parse_options, parse_when

NOW_US = 1_794_808_800_000_000  # 2026-11-16T06:00:00Z
SECOND_US = 1_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("now", NOW_US),
        (" now ", NOW_US),
        ("-90s", NOW_US - 90 * SECOND_US),
        ("-15m", NOW_US - 15 * 60 * SECOND_US),
        ("-1h", NOW_US - 3600 * SECOND_US),
        ("-7d", NOW_US - 7 * 86_400 * SECOND_US),
        ("-2w", NOW_US - 14 * 86_400 * SECOND_US),
        ("-999999w", 0),
        ("2026-11-16T06:00:00Z", NOW_US),
        ("2026-11-16T06:00:00", NOW_US),
        ("2026-11-16t06:00z", NOW_US),
        ("2026-11-16T07:00:00+01:00", NOW_US),
        ("2026-11-16T01:30:00-0430", NOW_US),
        ("2026-11-16T06:00:00.25Z", NOW_US + 250_000),
        ("2026-11-16", NOW_US - 6 * 3600 * SECOND_US),
        ("1794808800", NOW_US),
        ("1794808800.000001", NOW_US + 1),
        ("0", 0),
        ("1969-12-31", 0),
    ],
)
def test_times(text: str, us: int) -> None:
    assert parse_when(text, NOW_US) == us


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "-1", "-1y", "1h", "+1h", "-1.5h", "- 1h", "1e9", "-5", "٣", "9" * 13, "1794808800.1234567"),
        *("2026-13-01", "2026-02-30", "2026-11-16T25:00:00Z", "2026-11-16T06", "16.11.2026"),
        "2026-11-16T06:00:00+99:00",
    ],
)
def test_what_is_not_a_time_is_told_what_is(text: str) -> None:
    with pytest.raises(SettingsError, match="write -90s"):
        parse_when(text, NOW_US)


def test_instants_are_written_so_that_they_can_be_read() -> None:
    assert format_when(NOW_US + 1) == "2026-11-16T06:00:00.000001Z"
    assert format_when(0) == "1970-01-01T00:00:00.000000Z"
    assert format_when(NUMBER_MAX) == "9999-12-31T23:59:59.999999Z"


def test_options() -> None:
    assert parse_options("since=-1h, last = 5") == Options(since="-1h", last="5")
    assert str(Options(last="5", since="-1h")) == "since=-1h,last=5"


@pytest.mark.parametrize("text", ["", "since", "since=", "=1", "first=3", "since=-1h,", "last=1,last=2", "SINCE=now"])
def test_options_that_are_none(text: str) -> None:
    with pytest.raises(SettingsError, match=r"write since=…|say it once"):
        parse_options(text)


def test_wishes() -> None:
    assert make_wish(Options(since="-1h"), NOW_US) == Wish(NOW_US - 3600 * SECOND_US)
    assert make_wish(Options(last="1000000"), NOW_US) == Wish(last=1_000_000)
    assert make_wish(Options(until="now"), NOW_US) == Wish(until=NOW_US)
    assert make_wish(Options(since="now", until="now", last="1"), NOW_US) == Wish(NOW_US, NOW_US, 1)
    assert make_wish(Options(since="2999-01-01"), NOW_US).since > NOW_US


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (Options(since="later"), "since: 'later' is not a time"),
        (Options(until="x" * 99), "until: 'xxx"),
        (Options(since="now", until="-1s"), "since must not lie after until"),
        (Options(until="0"), "until must lie after 1970"),
        (Options(last="0"), "last must be a number from 1 to 1,000,000"),
        (Options(last="1000001"), "last must be"),
        (Options(last="-1"), "last must be"),
        (Options(last="١"), "last must be"),
        (Options(last="9" * 5000), "last must be"),
    ],
)
def test_wishes_that_make_no_sense(options: Options, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_wish(options, NOW_US)
    assert caught.value.problem.startswith(sentence)
    assert len(caught.value.problem) < 250
