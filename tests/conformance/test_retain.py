"""Chapter 3.3.1.3: retained messages, and what a subscription has to do with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.codec import AS_PUBLISHED, PUBLISH, RETAINED_IF_NEW, RETAINED_NEVER, V5
from tests.conformance.conftest import Join, Place, unique
from tests.conformance.statement import both, v5, v311


@pytest.fixture
def kept(broker: Place, topic: str) -> Iterator[str]:
    """A topic on which nothing stays retained."""
    yield topic
    janitor = Join(broker)()
    janitor.publish(topic, b"", retain=True)
    janitor.close()


@v5("MQTT-3.3.1-5", "MQTT-3.3.1-9")
@v311("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
@both
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_last_retained_message_is_sent(join: Join, kept: str, version: int, qos: int, granted: int) -> None:
    publisher, late = join(version), join(version)
    publisher.publish(kept, b"first", qos=1, retain=True)
    publisher.publish(kept, b"last", qos=qos, retain=True)
    publisher.ping()
    late.subscribe((kept, granted))
    assert late.take(topic=kept, payload=b"last", retain=True).qos == min(qos, granted)
    late.expect_nothing()


@v311("MQTT-3.3.1-7")
def test_a_retained_qos_0_message_replaces_the_other(join: Join, kept: str) -> None:
    publisher, late = join(4), join(4)
    publisher.publish(kept, b"old", qos=2, retain=True)
    publisher.publish(kept, b"new", qos=0, retain=True)
    publisher.ping()
    late.subscribe((kept, 2))
    late.expect(PUBLISH, payload=b"new", qos=0, retain=True)


@v5("MQTT-3.3.1-6", "MQTT-3.3.1-7")
@v311("MQTT-3.3.1-10", "MQTT-3.3.1-11")
@both
def test_an_empty_message_clears(join: Join, kept: str, version: int) -> None:
    publisher, watcher, late = join(version), join(version), join(version)
    watcher.subscribe((kept, 1))
    publisher.publish(kept, b"something", retain=True)
    watcher.take(payload=b"something", retain=False)
    publisher.publish(kept, b"", retain=True)
    watcher.take(payload=b"", retain=False)  # it is an ordinary message to those who are there
    late.subscribe((kept, 1))
    late.expect_nothing()


@v5("MQTT-3.3.1-8")
@v311("MQTT-3.3.1-12")
@both
@pytest.mark.parametrize("payload", [b"live", b""])
def test_a_message_that_is_not_retained_changes_nothing(join: Join, kept: str, version: int, payload: bytes) -> None:
    publisher, late = join(version), join(version)
    publisher.publish(kept + "/never", payload)
    publisher.publish(kept, b"stays", retain=True)
    publisher.publish(kept, payload)
    late.subscribe((kept + "/#", 1))
    late.take(topic=kept, payload=b"stays", retain=True)
    late.expect_nothing()


@v5("MQTT-3.3.1-12")
@v311("MQTT-3.3.1-9")
@both
def test_retain_is_cleared_for_established_subscriptions(join: Join, kept: str, version: int) -> None:
    client = join(version)
    client.subscribe((kept, 0))
    client.publish(kept, b"x", retain=True)
    client.expect(PUBLISH, topic=kept, payload=b"x", retain=False)


@v5("MQTT-3.3.1-12", "MQTT-3.3.1-13")
def test_retain_as_published(join: Join, kept: str) -> None:
    as_published, not_so = join(), join()
    as_published.subscribe((kept, AS_PUBLISHED))
    not_so.subscribe((kept, 0))
    for retain in (True, False):
        not_so.publish(kept, b"x", retain=retain)
        as_published.expect(PUBLISH, payload=b"x", retain=retain)
        not_so.expect(PUBLISH, payload=b"x", retain=False)


@v5("MQTT-3.3.1-13", "MQTT-3.3.1-9")
@pytest.mark.parametrize("options", [0, AS_PUBLISHED])
def test_retained_messages_say_so_with_either_option(join: Join, kept: str, options: int) -> None:
    client = join()
    client.publish(kept, b"x", retain=True)
    client.subscribe((kept, options))
    client.expect(PUBLISH, payload=b"x", retain=True)


@v5("MQTT-3.3.1-9", "MQTT-3.3.1-10", "MQTT-3.3.1-11", "MQTT-3.8.4-4")
@pytest.mark.parametrize(
    ("handling", "first", "second"), [(0, 1, 1), (RETAINED_IF_NEW, 1, 0), (RETAINED_NEVER, 0, 0)], ids=["0", "1", "2"]
)
def test_retain_handling(join: Join, kept: str, handling: int, first: int, second: int) -> None:
    client = join()
    client.publish(kept, b"x", retain=True)
    for expected in (first, second):
        client.subscribe((kept, handling))
        assert [found.payload for found in client.leftovers()] == [b"x"] * expected
    client.unsubscribe(kept)
    client.subscribe((kept, handling))  # new again
    assert len(client.leftovers()) == first


@v5("MQTT-3.3.1-10")
def test_if_new_looks_at_the_session(join: Join, kept: str) -> None:
    """A subscription that the session had before this connection is not new."""
    name = unique("c")
    lasting = ((0x11, 600),)
    client = join(client_id=name, properties=lasting)
    client.publish(kept, b"x", retain=True)
    client.subscribe((kept, RETAINED_IF_NEW))
    client.expect(PUBLISH, payload=b"x")
    client.disconnect()
    again = join(client_id=name, clean=False, properties=lasting)
    again.subscribe((kept, RETAINED_IF_NEW))
    again.expect_nothing()


@v311("MQTT-3.8.4-3")
def test_subscribing_again_sends_retained_messages_again(join: Join, kept: str) -> None:
    client = join(4)
    client.publish(kept, b"x", retain=True)
    for qos in (0, 0, 1):
        client.subscribe((kept, qos))
        client.take(payload=b"x", retain=True)


@v5("MQTT-3.3.1-9", "MQTT-4.7.2-1")
@v311("MQTT-3.3.1-6")
@both
def test_wildcards_find_all_retained_messages(join: Join, version: int) -> None:
    root, client = unique("t"), join(version)
    names = [f"{root}/{name}" for name in ("a", "a/b", "a/b/c", "", "/", "b")] + [root]
    for name in names:
        client.publish(name, name.encode(), retain=True)
    for pattern, expected in {
        f"{root}/#": names,
        f"{root}/+": [f"{root}/a", f"{root}/", f"{root}/b"],
        f"{root}/+/+": [f"{root}/a/b", f"{root}//"],
        f"{root}/a/#": [f"{root}/a", f"{root}/a/b", f"{root}/a/b/c"],
        f"+/a/+/{'c'}": [f"{root}/a/b/c"],
    }.items():
        other = join(version)
        other.subscribe((pattern, 0))
        came = [found.topic for found in other.leftovers() if found.topic.startswith(root)]
        assert sorted(came) == sorted(expected), pattern
    for name in names:
        client.publish(name, b"", retain=True)


@v5("MQTT-3.3.1-9", "MQTT-3.8.4-5")
@v311("MQTT-3.3.1-6", "MQTT-3.8.4-4")
@both
def test_each_filter_of_a_subscribe_gets_its_own(join: Join, kept: str, version: int) -> None:
    client = join(version)
    client.publish(kept, b"x", retain=True)
    client.subscribe((kept, 0), (kept + "/#", 0))
    assert [found.payload for found in client.leftovers()] == [b"x", b"x"]


@v5("MQTT-3.3.1-5")
def test_a_retained_message_is_one_for_both_versions(join: Join, kept: str) -> None:
    join(4).publish(kept, b"old", retain=True)
    new = join(V5)
    new.subscribe((kept, 1))
    new.take(payload=b"old", retain=True)
