"""Access rules, line by line."""

from __future__ import annotations

import pytest

from latecomer.model.access import OPEN, REMEMBERED_MAX, RULES_MAX, Rules, parse_rules
from latecomer.model.errors import SettingsError


def rules(*lines: str) -> Rules:
    return parse_rules("\n".join(lines), "rules")


def test_a_right_is_what_a_line_gives() -> None:
    given = rules("# sensors", "", "  allow alice publish sensors/+/temperature  ", "allow * subscribe sensors/#")
    assert given.may_publish("alice", "c", "sensors/1/temperature")
    assert not given.may_publish("alice", "c", "sensors/1/humidity")
    assert not given.may_publish("bob", "c", "sensors/1/temperature")
    assert not given.may_publish(None, "c", "sensors/1/temperature")
    assert given.may_subscribe(None, "c", "sensors/+/temperature")
    assert given.may_receive(None, "c", "sensors/1/x")
    assert not given.may_receive(None, "c", "alarms")


def test_an_empty_file_gives_nothing() -> None:
    none = rules("# nothing yet")
    assert not none.may_publish("alice", "c", "a")
    assert not none.may_subscribe("alice", "c", "a")
    assert not none.may_receive("alice", "c", "a")
    assert not none.may_request("alice", "c", "a")


@pytest.mark.parametrize("user", ["alice", None])
def test_without_a_file_everything_but_dollar_topics_is_open(user: str | None) -> None:
    assert OPEN.may_publish(user, "c", "a/b")
    assert OPEN.may_subscribe(user, "c", "#")
    assert OPEN.may_subscribe(user, "c", "$SYS/#")
    assert OPEN.may_receive(user, "c", "$SYS/broker/uptime")
    assert not OPEN.may_publish(user, "c", "$SYS/broker/uptime")
    assert not OPEN.may_subscribe(user, "c", "$control/#")
    assert OPEN.pattern_problem("a/#", "+") is None


# -- denial


def test_a_denial_wins_wherever_it_stands() -> None:
    lines = ["allow * subscribe #", "deny * subscribe secret/#"]
    for given in (rules(*lines), rules(*reversed(lines))):
        assert given.may_receive("bob", "c", "open")
        assert not given.may_receive("bob", "c", "secret/x")
        assert not given.may_receive("bob", "c", "secret")


@pytest.mark.parametrize("wide", ["#", "+/x", "+/#", "secret/+", "secret/x", "secret/#", "+/+"])
def test_no_wildcard_reaches_around_a_denial(wide: str) -> None:
    given = rules("allow * subscribe #", "deny bob subscribe secret/#")
    assert not given.may_subscribe("bob", "c", wide)
    assert given.may_subscribe("alice", "c", wide)


@pytest.mark.parametrize(
    "wide", ["#", "+/temperature", "sensors/#", "sensors/+/#", "sensors/+/+", "$share/g/sensors/1"]
)
def test_no_wildcard_asks_for_more_than_was_allowed(wide: str) -> None:
    given = rules("allow * subscribe sensors/+/temperature")
    assert not given.may_subscribe("bob", "c", wide)


def test_a_leading_wildcard_gives_no_dollar_topics() -> None:
    given = rules("allow * all #", "allow admin subscribe $SYS/#")
    assert not given.may_subscribe("bob", "c", "$SYS/#")
    assert not given.may_receive("bob", "c", "$SYS/uptime")
    assert not given.may_publish("bob", "c", "$SYS/uptime")
    assert given.may_subscribe("admin", "c", "$SYS/#")
    assert not given.may_publish("admin", "c", "$SYS/uptime")


# -- the past


def test_who_may_subscribe_may_read_the_past_unless_denied() -> None:
    given = rules("allow * subscribe news/#", "deny bob history news/#", "allow archivist history #")
    assert given.may_request("alice", "c", "news/+")
    assert given.may_receive_past("alice", "c", "news/a")
    assert not given.may_request("bob", "c", "news/+")
    assert not given.may_receive_past("bob", "c", "news/a")
    assert given.may_subscribe("bob", "c", "news/+")
    assert given.may_request("archivist", "c", "old/#")
    assert not given.may_subscribe("archivist", "c", "old/#")


def test_who_may_not_subscribe_may_not_read_the_past() -> None:
    given = rules("allow bob history #", "deny bob subscribe secret/#")
    assert not given.may_request("bob", "c", "secret/x")
    assert not given.may_receive_past("bob", "c", "secret/x")


# -- names in rules


def test_names_are_put_in_as_plain_text() -> None:
    given = rules("allow * all home/%u/%c/100%%/#")
    assert given.may_publish("bob", "phone", "home/bob/phone/100%/x")
    assert not given.may_publish("bob", "phone", "home/alice/phone/100%/x")
    assert given.may_subscribe("%c", "phone", "home/%c/phone/100%/#")
    assert not given.may_subscribe("%c", "phone", "home/phone/phone/100%/#")


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a+", "$SYS", "a\0"])
def test_names_that_would_not_stay_plain_are_refused_and_have_no_rights(name: str) -> None:
    given = rules("allow * all %u/#", "allow bob all #", "deny * publish x/%u")
    assert given.pattern_problem(name, "c")
    assert not given.may_publish(name, "c", "a/b")
    assert not given.may_subscribe(name, "c", f"{name}/#")
    assert given.pattern_problem("bob", name) is None
    by_client = rules("allow bob all %c/#")
    assert by_client.pattern_problem("bob", name)
    assert by_client.pattern_problem("alice", name) is None


def test_a_pattern_of_users_says_nothing_to_anonymous_clients() -> None:
    given = rules("allow * all home/%u/#", "allow anonymous subscribe public/#")
    assert given.pattern_problem(None, "c") is None
    assert not given.may_publish(None, "c", "home//x")
    assert given.may_subscribe(None, "c", "public/a")
    assert not given.may_subscribe("bob", "c", "public/a")


def test_an_empty_client_id_is_no_name() -> None:
    assert rules("allow * all %c/#").pattern_problem("bob", "")


# -- lines that are not understood


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("allow bob publish", "a rule is four words"),
        ("allow bob publish a b", "a rule is four words"),
        ("permit bob publish a", "a rule begins with allow or deny, not 'permit'"),
        ("Allow bob publish a", "a rule begins with allow or deny"),
        ("allow bob write a", "there is no action 'write'; known are publish, subscribe, history, all"),
        ("allow bob publish a/#/b", "'#' must be the last character"),
        ("allow bob publish a+", "'+' must stand alone"),
        ("allow bob publish +%u", "'+' must stand alone"),
        ("allow bob publish a/%x", "'%' is followed by"),
        ("allow bob publish a%", "'%' is followed by"),
        ("allow bob publish $SYS/#", "nobody publishes to topics that begin with '$'"),
        ("allow bob all $SYS/#", "nobody publishes to topics that begin with '$'"),
        ("allow bob subscribe $share/g/a", "leave out $share/…"),
        ("allow bob history $history/since=-1h/a", "leave out $history/…"),
    ],
)
def test_a_line_that_is_not_understood_is_named(line: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        rules("# first", line)
    assert str(caught.value).startswith(f"rules:2: {problem}")


def test_rules_are_bounded() -> None:
    with pytest.raises(SettingsError, match=f"rules:{RULES_MAX + 1}: more than {RULES_MAX} rules"):
        rules(*["allow bob publish a"] * (RULES_MAX + 1))


def test_what_is_remembered_of_clients_is_bounded() -> None:
    given = rules("allow * publish %c")
    for number in range(REMEMBERED_MAX + 10):
        assert given.may_publish("bob", f"c{number}", f"c{number}")
    assert len(given._remembered) <= REMEMBERED_MAX
