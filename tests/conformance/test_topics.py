"""Chapter 4.7: topic names and topic filters."""

from __future__ import annotations

import pytest

from tests.conformance.codec import PUBACK, PUBLISH, SUBACK, V5
from tests.conformance.conftest import Join, Place, unique
from tests.conformance.raw import Closed
from tests.conformance.statement import both, v5, v311

# filter, what it matches, what it does not; $ stands for a prefix that is the test's own
MATCHES: dict[str, tuple[list[str], list[str]]] = {
    "~/tennis/player1/#": (
        ["~/tennis/player1", "~/tennis/player1/ranking", "~/tennis/player1/score/wimbledon", "~/tennis/player1/"],
        ["~/tennis/player2", "~/tennis/player11", "~/tennis"],
    ),
    "~/#": (["~", "~/", "~/a", "~//", "~/a/b/c"], ["~a", "other~/a"]),
    "~/tennis/+": (
        ["~/tennis/player1", "~/tennis/"],
        ["~/tennis", "~/tennis/player1/ranking", "~/tennis//"],
    ),
    "~/+/+": (["~/a/b", "~//", "~/a/", "~//b"], ["~/a", "~/a/b/c", "~/"]),
    "~/+/tennis/#": (["~/a/tennis", "~//tennis/x", "~/a/tennis/x/y"], ["~/tennis", "~/a/b/tennis"]),
    "+/~/+": (["/~/", "a/~/b"], ["~/b", "a/~", "a/~/b/c"]),
    "/+~": ([], ["/x~"]),
    "/~": (["/~"], ["~", "//~", "/~/"]),
    "~/": (["~/"], ["~", "~//", "/~/"]),
    "~//a": (["~//a"], ["~/a", "~///a"]),
    "~/A": (["~/A"], ["~/a"]),
    "~/a b": (["~/a b"], ["~/ab", "~/a  b", "~/a%20b"]),
    "~/ ": (["~/ "], ["~/", "~"]),
    "~/é": (["~/é"], ["~/e\u0301", "~/É"]),
    "~/\u00e5/\u212b": (["~/\u00e5/\u212b"], ["~/a\u030a/\u212b", "~/\u00e5/\u00c5"]),
    "~/$a": (["~/$a"], ["~/a"]),
    "~/$a/+": (["~/$a/$b", "~/$a/b"], ["~/a/b"]),
    "~/a?b": (["~/a?b"], ["~/a", "~/axb"]),
    "~/*/%": (["~/*/%"], ["~/x/y"]),
    "~/\U0001f600/+": (["~/\U0001f600/\U0001f4a9"], ["~/:)/x"]),
    "~/\ufdd0\x01": (["~/\ufdd0\x01"], ["~/"]),
}


@v5("MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.7.3-4", "MQTT-3.3.2-3", "MQTT-3.8.3-1")
@v311("MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.3-4", "MQTT-3.3.2-3", "MQTT-3.8.3-1")
@both
@pytest.mark.parametrize("pattern", [pattern for pattern, (yes, _) in MATCHES.items() if yes])
def test_a_filter_matches_what_it_should(join: Join, version: int, pattern: str) -> None:
    """Control characters and non-characters may be refused (§1.5.4); if they are not, they match as they are.

    So may a `?` of a 3.1.1 client, behind which Latecomer looks for a content filter.
    """
    own = unique("t")
    yes, no = ([name.replace("~", own) for name in names] for names in MATCHES[pattern])
    client, publisher = join(version), join(version)
    try:
        assert client.subscribe((pattern.replace("~", own), 0)) == [0]
    except AssertionError:
        if "\x01" in pattern or (version != V5 and "?" in pattern):
            return
        raise
    for name in [*no, *yes, *no]:
        publisher.publish(name, name.encode())
    assert [found.topic for found in client.leftovers()] == yes


BAD_FILTERS = ["a/#/b", "a#", "#a", "a/b#", "a+", "+a", "a/b+/c", "a/+b/c", "##", "#/", "++", "+#"]


@v5("MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.7.3-1")
@v311("MQTT-4.7.1-2", "MQTT-4.7.1-3", "MQTT-4.7.3-1")
@both
@pytest.mark.parametrize("pattern", [*BAD_FILTERS, ""])
def test_a_filter_that_is_none_is_refused(join: Join, version: int, pattern: str) -> None:
    """In the SUBACK, or by the end of the connection."""
    client = join(version)
    client.send(client.subscription([(pattern, 0)], 9))
    try:
        answer = client.receive()
    except Closed:
        assert version != V5, "an MQTT 5 client is told why"
        return
    if answer.kind == SUBACK:
        assert answer.reasons == [0x8F if version == V5 else 0x80]
    else:
        assert answer.reason in (0x81, 0x82, 0x8F), f"{answer}"
        client.expect_closed()


@v5("MQTT-4.7.2-1")
@v311("MQTT-4.7.2-1")
@both
def test_leading_wildcards_do_not_match_dollar_topics(join: Join, version: int) -> None:
    """A broker may refuse to let clients publish there; a will, a retained or a live message must not come."""
    own = unique("t")
    client, publisher = join(version), join(version)
    client.subscribe(("#", 0), (f"+/{own}", 0), (f"+/{own}/#", 0))
    publisher.send(publisher.publication(f"${own}/{own}", b"x", qos=0))
    publisher.publish(f"a/{own}", b"y")
    came = [found for found in client.leftovers() if own in found.topic]
    assert {found.topic for found in came} == {f"a/{own}"}
    assert not any(found.topic.startswith("$") for found in came)


@v5("MQTT-4.7.2-1")
@v311("MQTT-4.7.2-1")
@both
def test_sys_is_not_part_of_everything(join: Join, version: int) -> None:
    client = join(version)
    client.subscribe(("#", 0), ("+/#", 0), ("+/broker/#", 0))
    assert not [found.topic for found in client.leftovers() if found.topic.startswith("$")]


@v5("MQTT-4.7.3-3")
@v311("MQTT-4.7.3-3")
@both
@pytest.mark.parametrize("size", [1024, 1025, 65_535])
def test_long_names(join: Join, broker: Place, version: int, size: int) -> None:
    """Up to what two bytes can count, a name is a name; a broker with a smaller limit says so."""
    own = unique("t")
    name = own + "/" + "x" * (size - len(own) - 1)
    client = join(version)
    client.send(client.subscription([(name, 0)], 9))
    accepted = client.expect(SUBACK, packet_id=9).reasons == [0]
    if broker.ours:
        assert accepted == (size <= 1024)
    client.send(client.publication(name, b"x", qos=1, packet_id=8))
    if accepted:
        came = {found.kind: found for found in (client.receive(), client.receive())}
        assert came[PUBACK].reason == 0
        assert came[PUBLISH].topic == name
    elif version == V5:
        assert client.expect(PUBACK, packet_id=8).reason == 0x90
        client.expect_nothing()


@v5("MQTT-4.7.3-3")
@pytest.mark.parametrize("levels", [128, 129, 512])
def test_deep_names(join: Join, broker: Place, levels: int) -> None:
    own = unique("t")
    name = "/".join([own, *[""] * (levels - 1)])
    client = join()
    client.send(client.subscription([(name, 0), ("/".join([own, *["+"] * (levels - 1)]), 0)], 9))
    answer = client.receive()
    if broker.ours:
        assert answer.kind == SUBACK
        assert answer.reasons[0] == (0 if levels <= 128 else 0x8F)
        assert client.publish(name, b"x").reason == (0 if levels <= 128 else 0x90)  # type: ignore[union-attr]
    elif answer.kind == SUBACK and answer.reasons[0] == 0:
        client.publish(name, b"x")
        assert client.expect(PUBLISH).topic == name


@v5("MQTT-4.7.3-1", "MQTT-4.7.3-4")
@v311("MQTT-4.7.3-1", "MQTT-4.7.3-4")
@both
@pytest.mark.parametrize("name", ["/", "//", " ", "a", "$", "/ /"])
def test_names_of_few_characters(join: Join, version: int, name: str) -> None:
    """One character is enough, also if it is a separator; others may use the same topic, so the payload is our own."""
    client, payload = join(version), unique("p").encode()
    client.subscribe((name, 0))
    if name == "$":
        client.expect_nothing()
        return
    client.publish(name, payload)
    assert payload in [found.payload for found in client.leftovers() if found.topic == name]
