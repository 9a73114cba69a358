"""What a client sees of publish and subscribe, whatever network is behind its broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from paho.mqtt.client import MQTTMessage

from tests.network.conftest import Place
from tests.network.peer import Peer, told, user_properties


@pytest.fixture
def topic() -> str:
    """Nobody else's."""
    return f"t/{uuid4().hex[:12]}"


@pytest.fixture
def ends(place: Place) -> Iterator[tuple[Peer, Peer]]:
    publisher, subscriber = place.pair()
    with publisher, subscriber:
        yield publisher, subscriber


def texts(messages: list[MQTTMessage]) -> list[str]:
    return [bytes(message.payload).decode() for message in messages]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_everything_comes_once_and_in_order(ends: tuple[Peer, Peer], topic: str, qos: int) -> None:
    publisher, subscriber = ends
    assert subscriber.subscribe(topic, qos) == qos
    subscriber.ready(publisher)
    sent = [str(number) for number in range(50)]
    for text in sent:
        assert publisher.publish(topic, text, qos) == 0
    got = subscriber.rest(publisher)
    assert texts(got) == sent
    assert {message.qos for message in got} == {qos}


@pytest.mark.parametrize(("published", "subscribed"), [(2, 1), (2, 0), (1, 2), (0, 2)])
def test_the_lower_qos_counts(ends: tuple[Peer, Peer], topic: str, published: int, subscribed: int) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(topic, subscribed)
    subscriber.ready(publisher)
    publisher.publish(topic, "x", published)
    assert subscriber.take()[0].qos == min(published, subscribed)


def test_an_old_client_hears_a_new_one_and_answers(place: Place, topic: str) -> None:
    with Peer(place.publisher) as new, Peer(place.subscriber, old=True) as old:
        old.subscribe(topic, 2)
        new.subscribe(f"{topic}/answer", 2)
        old.ready(new)
        new.ready(old)
        new.publish(topic, "question", 2, UserProperty=[("a", "b")])
        assert old.payloads() == [b"question"]
        old.publish(f"{topic}/answer", "answer", 2)
        assert new.payloads() == [b"answer"]


def test_wildcards(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    # QoS 1: a machine so busy that a link is given up for dead may lose what is sent at most once.
    subscriber.subscribe(f"{topic}/+/temperature", 1)
    subscriber.subscribe(f"{topic}/cellar/#", 1)
    subscriber.ready(publisher)
    for name in ("kitchen/temperature", "kitchen/light", "cellar", "cellar/light/left", "temperature"):
        publisher.publish(f"{topic}/{name}", name, 1)
    assert texts(subscriber.rest(publisher)) == ["kitchen/temperature", "cellar", "cellar/light/left"]


def test_nothing_under_a_dollar_sign_matches_a_leading_wildcard(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe("#")
    subscriber.subscribe("+/uptime")
    subscriber.ready(publisher)
    publisher.publish(topic, "x")
    got = subscriber.rest(publisher)
    assert topic in [message.topic for message in got]
    assert [message.topic for message in got if message.topic.startswith("$")] == []


def test_a_large_message(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(topic, 1)
    subscriber.ready(publisher)
    payload = bytes(range(256)) * 2000
    publisher.publish(topic, payload, 1)
    assert subscriber.payloads() == [payload]


def test_an_empty_message(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(topic, 1)
    subscriber.ready(publisher)
    publisher.publish(topic, b"", 1)
    assert subscriber.payloads() == [b""]


def test_unsubscribing_really_stops(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(f"{topic}/a", 1)
    subscriber.subscribe(f"{topic}/b", 1)
    subscriber.ready(publisher)
    subscriber.unsubscribe(f"{topic}/a")
    for name in ("a", "b", "a"):
        publisher.publish(f"{topic}/{name}", name, 1)
    assert texts(subscriber.rest(publisher)) == ["b"]


def test_every_subscriber_gets_it(place: Place, topic: str) -> None:
    """At every broker, with the filter and with one that covers it."""
    with ExitStack() as stack:
        publisher = stack.enter_context(Peer(place.publisher))
        everybody = [stack.enter_context(Peer(port)) for port in place.ports * 2]
        for number, peer in enumerate(everybody):
            peer.subscribe(topic if number < len(place.ports) else f"{topic}/#", 1)
            peer.ready(publisher)
        for text in "abc":
            publisher.publish(topic, text, 1)
        assert [texts(peer.rest(publisher)) for peer in everybody] == [["a", "b", "c"]] * len(everybody)


def test_overlapping_subscriptions(ends: tuple[Peer, Peer], topic: str) -> None:
    """[MQTT-3.3.4-2]: one copy or one for each, never fewer and never more; with the highest QoS among them."""
    publisher, subscriber = ends
    subscriber.subscribe(f"{topic}/#", 1)
    subscriber.subscribe(f"{topic}/a", 2)
    subscriber.ready(publisher)
    publisher.publish(f"{topic}/a", "x", 2)
    got = subscriber.rest(publisher)
    assert len(got) in (1, 2)
    assert max(message.qos for message in got) == 2


# -- options of MQTT 5


def test_no_local(place: Place, topic: str) -> None:
    with Peer(place.publisher) as other, Peer(place.subscriber) as peer:
        peer.subscribe(topic, 1, noLocal=True)
        peer.ready(other, peer)
        peer.publish(topic, "mine", 1)
        other.publish(topic, "another's", 1)
        assert texts(peer.rest(peer, other)) == ["another's"]


@pytest.mark.parametrize("kept", [False, True])
def test_retain_as_published(ends: tuple[Peer, Peer], topic: str, kept: bool) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(topic, 1, retainAsPublished=kept)
    subscriber.ready(publisher)
    publisher.publish(topic, "x", 1, retain=True)
    assert subscriber.take()[0].retain is kept
    publisher.publish(topic, b"", 1, retain=True)


def test_subscription_identifiers(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(f"{topic}/#", 1, identifier=7)
    subscriber.subscribe(f"{topic}/a", 1, identifier=300)
    subscriber.ready(publisher)
    publisher.publish(f"{topic}/b", "x", 1)
    assert told(subscriber.take()[0]).SubscriptionIdentifier == [7]
    publisher.publish(f"{topic}/a", "x", 1)
    got = subscriber.rest(publisher)
    assert sorted(number for message in got for number in told(message).SubscriptionIdentifier) == [7, 300]


def test_properties_are_forwarded_as_they_are(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(topic, 1)
    subscriber.ready(publisher)
    pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("ü", "")]
    publisher.publish(
        topic,
        "x",
        1,
        UserProperty=pairs,
        ResponseTopic="answers/here",
        CorrelationData=b"\x00\xff",
        ContentType="text/plain",
        PayloadFormatIndicator=1,
    )
    (message,) = subscriber.take()
    its = told(message)
    assert user_properties(message) == pairs  # [MQTT-3.3.2-18]: in order
    assert (its.ResponseTopic, its.CorrelationData, its.ContentType) == ("answers/here", b"\x00\xff", "text/plain")
    assert its.PayloadFormatIndicator == 1


def test_a_request_and_its_response(place: Place, topic: str) -> None:
    with Peer(place.publisher) as asker, Peer(place.subscriber) as server:
        server.subscribe(topic, 1)
        asker.subscribe(f"{topic}/answers", 1)
        server.ready(asker)
        asker.ready(server)
        asker.publish(topic, "6*7", 1, ResponseTopic=f"{topic}/answers", CorrelationData=b"q1")
        (question,) = server.take()
        its = told(question)
        server.publish(its.ResponseTopic, "42", 1, CorrelationData=its.CorrelationData)
        (answer,) = asker.take()
        assert (answer.payload, told(answer).CorrelationData) == (b"42", b"q1")


def test_what_is_left_of_the_message_expiry_is_told(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(topic, 1)
    subscriber.ready(publisher)
    publisher.publish(topic, "x", 1, MessageExpiryInterval=1000)
    assert 0 < told(subscriber.take()[0]).MessageExpiryInterval <= 1000
    publisher.publish(topic, "x", 1)
    assert not hasattr(told(subscriber.take()[0]), "MessageExpiryInterval")


# -- content filters


@pytest.mark.parametrize("old", [False, True])
def test_content_filters_on_user_properties(place: Place, topic: str, old: bool) -> None:
    with Peer(place.publisher) as publisher, Peer(place.subscriber, old=old) as subscriber:
        assert subscriber.subscribe(topic, 1, content='brand = "IBM" and price <= 1600') == 1
        subscriber.ready(publisher)
        for brand, price in (("IBM", "1600"), ("IBM", "1601"), ("HAL", "1"), ("IBM", "3")):
            publisher.publish(topic, f"{brand} {price}", 1, UserProperty=[("brand", brand), ("price", price)])
        publisher.publish(topic, "says nothing", 1)
        assert texts(subscriber.rest(publisher)) == ["IBM 1600", "IBM 3"]


def test_content_filters_on_the_fields_of_a_json_object(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    subscriber.subscribe(f"{topic}/#", 1, content="temperature > 30")
    subscriber.ready(publisher)
    for number, text in enumerate(('{"temperature": 31.5}', '{"temperature": 12}', "31", "[31]")):
        publisher.publish(f"{topic}/{number}", text, 1)
    assert texts(subscriber.rest(publisher)) == ['{"temperature": 31.5}']


def test_a_content_filter_is_replaced_by_another(ends: tuple[Peer, Peer], topic: str) -> None:
    """[MQTT-3.8.4-3]: the same topic filter again is the same subscription."""
    publisher, subscriber = ends
    subscriber.subscribe(topic, 1, content="n < 5")
    subscriber.ready(publisher)
    subscriber.subscribe(topic, 1, content="n > 5")
    subscriber.ready(publisher)
    for number in (3, 7):
        publisher.publish(topic, str(number), 1, UserProperty=[("n", str(number))])
    assert texts(subscriber.rest(publisher)) == ["7"]


def test_a_content_filter_that_cannot_be_read_is_refused(ends: tuple[Peer, Peer], topic: str) -> None:
    publisher, subscriber = ends
    assert subscriber.subscribe(topic, 1, content="price <<< 3") >= 0x80
    subscriber.ready(publisher)
    publisher.publish(topic, "x", 1, UserProperty=[("price", "1")])
    assert subscriber.rest(publisher) == []
