"""What a network remembers for clients: retained messages, wills, sessions, groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from uuid import uuid4

import pytest

from tests.network.conftest import Place
from tests.network.peer import LIMIT_SECONDS, Peer, told


@pytest.fixture
def topic() -> str:
    return f"t/{uuid4().hex[:12]}"


def eventually(look: Callable[[], object], expected: object) -> None:
    """Something that becomes true when word has spread."""
    until = time.monotonic() + LIMIT_SECONDS
    while (seen := look()) != expected:
        assert time.monotonic() < until, f"{seen!r} instead of {expected!r}"


def retained(port: int, filter: str) -> list[tuple[str, bytes, bool]]:
    """What a new subscriber is given at once."""
    with Peer(port) as newcomer:
        newcomer.subscribe(filter, 1)
        newcomer.ready(newcomer)
        got = newcomer.rest(newcomer)
    return sorted((message.topic, bytes(message.payload), message.retain) for message in got)


# -- retained


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_is_set_replaced_and_deleted(place: Place, topic: str, qos: int) -> None:
    with Peer(place.publisher) as publisher:
        publisher.publish(topic, "first", qos, retain=True)
        eventually(lambda: retained(place.subscriber, topic), [(topic, b"first", True)])
        publisher.publish(topic, "second", qos, retain=True)
        eventually(lambda: retained(place.subscriber, topic), [(topic, b"second", True)])
        publisher.publish(topic, b"", qos, retain=True)
        eventually(lambda: retained(place.subscriber, topic), [])


def test_every_broker_has_the_retained_messages(place: Place, topic: str) -> None:
    with Peer(place.publisher) as publisher:
        for name in ("a", "b/c"):
            publisher.publish(f"{topic}/{name}", name, 1, retain=True)
        for port in place.ports:
            expected = [(f"{topic}/a", b"a", True), (f"{topic}/b/c", b"b/c", True)]
            eventually(lambda port=port: retained(port, f"{topic}/#"), expected)  # type: ignore[misc]
        for name in ("a", "b/c"):
            publisher.publish(f"{topic}/{name}", b"", 1, retain=True)


def test_a_retained_message_may_be_replaced_at_another_broker(place: Place, topic: str) -> None:
    with Peer(place.publisher) as one, Peer(place.subscriber) as other:
        one.publish(topic, "one", 1, retain=True)
        eventually(lambda: retained(place.subscriber, topic), [(topic, b"one", True)])
        other.publish(topic, "other", 1, retain=True)
        eventually(lambda: retained(place.publisher, topic), [(topic, b"other", True)])
        one.publish(topic, b"", 1, retain=True)
        eventually(lambda: retained(place.subscriber, topic), [])


def test_who_is_subscribed_already_gets_a_retained_message_as_news(place: Place, topic: str) -> None:
    publisher, subscriber = place.pair()
    with publisher, subscriber:
        subscriber.subscribe(topic, 1)
        subscriber.ready(publisher)
        publisher.publish(topic, "x", 1, retain=True)
        assert [(m.payload, m.retain) for m in subscriber.rest(publisher)] == [(b"x", False)]
        publisher.publish(topic, b"", 1, retain=True)


@pytest.mark.parametrize(("handling", "given"), [(0, [2, 2]), (1, [2, 0]), (2, [0, 0])])
def test_retain_handling(place: Place, topic: str, handling: int, given: list[int]) -> None:
    """[MQTT-3.3.1-9] to [MQTT-3.3.1-11]: always, only when the subscription is new, never."""
    with Peer(place.publisher) as publisher, Peer(place.subscriber) as subscriber:
        names = [f"{topic}/a", f"{topic}/b"]
        for name in names:
            publisher.publish(name, "x", 1, retain=True)
        expected = [(name, b"x", True) for name in names]
        eventually(lambda: retained(place.subscriber, f"{topic}/#"), expected)
        counts = []
        for _ in range(2):
            subscriber.subscribe(f"{topic}/#", 1, retainHandling=handling)
            subscriber.ready(subscriber)
            counts.append(len(subscriber.rest(subscriber)))
        assert counts == given
        for name in names:
            publisher.publish(name, b"", 1, retain=True)


# -- wills


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_of_a_client_that_vanishes(place: Place, topic: str, qos: int) -> None:
    mortal = Peer(place.publisher, will=(topic, b"gone", qos, False))
    with Peer(place.subscriber) as heir:
        heir.subscribe(topic, qos)
        heir.ready(mortal)
        mortal.vanish()
        (will,) = heir.take()
        assert (will.payload, will.qos) == (b"gone", qos)


def test_no_will_of_a_client_that_says_goodbye(place: Place, topic: str) -> None:
    with Peer(place.publisher) as publisher, Peer(place.subscriber) as heir:
        heir.subscribe(topic, 1)
        with Peer(place.publisher, will=(topic, b"gone", 1, False)) as polite:
            heir.ready(polite, publisher)
        assert heir.rest(publisher) == []


def test_a_retained_will(place: Place, topic: str) -> None:
    mortal = Peer(place.publisher, will=(topic, b"offline", 1, True))
    mortal.publish(topic, "online", 1, retain=True)
    eventually(lambda: retained(place.subscriber, topic), [(topic, b"online", True)])
    mortal.vanish()
    eventually(lambda: retained(place.subscriber, topic), [(topic, b"offline", True)])
    with Peer(place.publisher) as publisher:
        publisher.publish(topic, b"", 1, retain=True)


# -- sessions


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_messages_wait_for_a_session(place: Place, topic: str, old: bool, qos: int) -> None:
    name = f"keeper-{uuid4().hex[:12]}"
    with Peer(place.publisher) as publisher:
        with Peer(place.subscriber, name, old=old, keep_seconds=300) as keeper:
            assert not keeper.session_present
            keeper.subscribe(topic, qos)
            keeper.ready(publisher)
        sent = [str(number).encode() for number in range(20)]
        for payload in sent:
            publisher.publish(topic, payload, qos)
        with Peer(place.subscriber, name, old=old, keep_seconds=300) as keeper:
            assert keeper.session_present
            assert keeper.payloads(20) == sent
            keeper.ready(publisher)
            assert keeper.rest(publisher) == []
        with Peer(place.subscriber, name, old=old) as keeper:  # a clean start ends the session
            assert not keeper.session_present


def test_a_clean_start_forgets_what_was_subscribed(place: Place, topic: str) -> None:
    name = f"keeper-{uuid4().hex[:12]}"
    with Peer(place.publisher) as publisher:
        with Peer(place.subscriber, name, keep_seconds=300) as keeper:
            keeper.subscribe(topic, 1)
            keeper.ready(publisher)
        publisher.publish(topic, "forgotten", 1)
        with Peer(place.subscriber, name) as keeper:
            keeper.ready(publisher)
            publisher.publish(topic, "not asked for", 1)
            assert keeper.rest(publisher) == []


def test_what_has_expired_does_not_wait(place: Place, topic: str) -> None:
    name = f"keeper-{uuid4().hex[:12]}"
    with Peer(place.publisher) as publisher:
        with Peer(place.subscriber, name, keep_seconds=300) as keeper:
            keeper.subscribe(topic, 1)
            keeper.ready(publisher)
        publisher.publish(topic, "short-lived", 1, MessageExpiryInterval=1)
        publisher.publish(topic, "lasting", 1, MessageExpiryInterval=600)
        time.sleep(2)  # the only way to grow old
        with Peer(place.subscriber, name, keep_seconds=300) as keeper:
            (message,) = keeper.take()
            assert (message.payload, message.dup) == (b"lasting", False)
            assert told(message).MessageExpiryInterval < 600
            keeper.ready(publisher)
            assert keeper.rest(publisher) == []
        with Peer(place.subscriber, name):
            pass


def test_the_same_name_again_takes_the_session_over(place: Place, topic: str) -> None:
    name = f"keeper-{uuid4().hex[:12]}"
    with Peer(place.publisher) as publisher:
        first = Peer(place.subscriber, name, keep_seconds=300)
        first.subscribe(topic, 1)
        first.ready(publisher)
        with Peer(place.subscriber, name, keep_seconds=300) as second:
            assert second.session_present
            second.fence_topic, second._fenced = first.fence_topic, True
            publisher.publish(topic, "x", 1)
            assert [bytes(m.payload) for m in second.rest(publisher)] == [b"x"]
            assert first.inbox.empty()
        first.leave()
        with Peer(place.subscriber, name):
            pass


# -- shared subscriptions


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_of_a_group(place: Place, topic: str, qos: int) -> None:
    """Members at the subscriber's broker and at the publisher's; everybody else still gets everything."""
    with ExitStack() as stack:
        publisher = stack.enter_context(Peer(place.publisher))
        members = [
            stack.enter_context(Peer(port)) for port in (place.subscriber, place.subscriber, place.publisher)
        ]  # fmt: skip
        outsider = stack.enter_context(Peer(place.subscriber))
        for member in members:
            member.subscribe(f"$share/crew/{topic}", qos)
            member.ready(publisher)
        outsider.subscribe(topic, qos)
        outsider.ready(publisher)
        sent = [str(number).encode() for number in range(60)]
        for payload in sent:
            publisher.publish(topic, payload, qos)
        shares = [[bytes(m.payload) for m in member.rest(publisher)] for member in members]
        assert sorted(chain(*shares), key=int) == sent
        assert [bytes(m.payload) for m in outsider.rest(publisher)] == sent


def test_members_at_every_broker_all_get_something(place: Place, topic: str) -> None:
    with ExitStack() as stack:
        publisher = stack.enter_context(Peer(place.publisher))
        members = [stack.enter_context(Peer(port)) for port in place.ports for _ in range(2)]
        for member in members:
            member.subscribe(f"$share/crew/{topic}/+", 1)
            member.ready(publisher)
        sent = [str(number).encode() for number in range(20 * len(members))]
        for payload in sent:
            publisher.publish(f"{topic}/x", payload, 1)
        shares = [[bytes(m.payload) for m in member.rest(publisher)] for member in members]
        assert sorted(chain(*shares), key=int) == sent
        assert all(shares)


def test_two_groups_get_one_copy_each(place: Place, topic: str) -> None:
    with ExitStack() as stack:
        publisher = stack.enter_context(Peer(place.publisher))
        groups = {
            name: [stack.enter_context(Peer(port)) for port in (place.subscriber, place.publisher)]
            for name in ("red", "blue")
        }
        for name, members in groups.items():
            for member in members:
                member.subscribe(f"$share/{name}/{topic}", 1)
                member.ready(publisher)
        sent = [str(number).encode() for number in range(30)]
        for payload in sent:
            publisher.publish(topic, payload, 1)
        for members in groups.values():
            shares = [[bytes(m.payload) for m in member.rest(publisher)] for member in members]
            assert sorted(chain(*shares), key=int) == sent


def test_who_leaves_a_group_gets_nothing_more(place: Place, topic: str) -> None:
    with ExitStack() as stack:
        publisher = stack.enter_context(Peer(place.publisher))
        stays, leaves = (stack.enter_context(Peer(place.subscriber)) for _ in range(2))
        for member in (stays, leaves):
            member.subscribe(f"$share/crew/{topic}", 1)
            member.ready(publisher)
        leaves.unsubscribe(f"$share/crew/{topic}")
        leaves.ready(publisher)
        sent = [str(number).encode() for number in range(20)]
        for payload in sent:
            publisher.publish(topic, payload, 1)
        assert leaves.rest(publisher) == []
        assert [bytes(m.payload) for m in stays.rest(publisher)] == sent
