"""Chapter 6: MQTT over WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.codec import CONNACK, PINGREQ, PINGRESP, PUBLISH, V5, Hello, P, Will, packet
from tests.conformance.conftest import Join, Place, unique
from tests.conformance.frames import BINARY, CONTINUATION, PING, PONG, TEXT, WebSocketClient
from tests.conformance.statement import both, v5, v311

Open = Callable[..., WebSocketClient]


@pytest.fixture
def web(broker: Place) -> Iterator[Open]:
    """Opens WebSockets to the broker under test, and closes them."""
    if broker.ws_port is None:
        pytest.skip("this broker was started without a WebSocket listener")
    clients: list[WebSocketClient] = []

    def opened(version: int = V5, protocols: str = "mqtt") -> WebSocketClient:
        assert broker.ws_port
        clients.append(WebSocketClient(broker.host, broker.ws_port, version, protocols))
        return clients[-1]

    yield opened
    for client in clients:
        client.close()


@v5("MQTT-6.0.0-4", "MQTT-6.0.0-1", "MQTT-4.2.0-1")
@v311("MQTT-6.0.0-4", "MQTT-6.0.0-1")
@both
def test_mqtt_over_websocket(web: Open, topic: str, version: int) -> None:
    client = web(version)
    assert client.status == 101
    assert client.headers["sec-websocket-protocol"] == "mqtt"
    assert client.connect(Hello(client_id=unique("c"), version=version)).reason == 0
    client.subscribe((topic, 2))
    for qos in (0, 1, 2):
        client.publish(topic, b"%d" % qos, qos=qos)
        client.take(topic=topic, payload=b"%d" % qos)
    client.ping()
    assert set(client.kinds) <= {BINARY, CONTINUATION}
    client.disconnect()


@v5("MQTT-6.0.0-4")
@v311("MQTT-6.0.0-4")
@both
@pytest.mark.parametrize("offer", ["other, mqtt", "mqtt, other"])
def test_mqtt_is_chosen_among_several(web: Open, version: int, offer: str) -> None:
    client = web(version, protocols=offer)
    assert client.status == 101
    assert client.headers["sec-websocket-protocol"] == "mqtt"


@v5("MQTT-6.0.0-3", "MQTT-6.0.0-4")
@v311("MQTT-6.0.0-3", "MQTT-6.0.0-4")
@pytest.mark.parametrize("offer", ["", "other", "mqttx"])
def test_no_other_protocol_is_chosen(web: Open, offer: str) -> None:
    """Whoever offers something else is refused, or told so by an answer that chooses nothing."""
    client = web(protocols=offer)
    assert client.headers.get("sec-websocket-protocol") in (None, "mqtt")
    assert client.status != 101 or "sec-websocket-protocol" not in client.headers


@v5("MQTT-6.0.0-2")
@v311("MQTT-6.0.0-2")
@both
def test_packets_and_frames_are_not_aligned(web: Open, topic: str, version: int) -> None:
    client = web(version)
    for byte in Hello(client_id=unique("c"), version=version).encode():
        client.frame(bytes([byte]))
    client.expect(CONNACK, reason=0)
    client.frame(client.subscription([(topic, 0)], 5) + packet(PINGREQ) + client.publication(topic, b"one")[:3])
    assert [found.kind for found in client.until(PINGRESP)]
    client.frame(client.publication(topic, b"one")[3:] + client.publication(topic, b"two") + packet(PINGREQ)[:1])
    client.frame(packet(PINGREQ)[1:])
    client.expect(PUBLISH, payload=b"one")
    client.expect(PUBLISH, payload=b"two")
    client.expect(PINGRESP)


@v5("MQTT-6.0.0-2")
@v311("MQTT-6.0.0-2")
@both
def test_fragments_and_control_frames_between(web: Open, topic: str, version: int) -> None:
    client = web(version)
    client.connect(Hello(client_id=unique("c"), version=version))
    client.subscribe((topic, 0))
    data = client.publication(topic, b"x" * 70_000)
    client.frame(data[:10], BINARY, final=False)
    client.frame(b"are you there?", PING)
    client.frame(b"", CONTINUATION, final=False)
    client.frame(data[10:], CONTINUATION)
    client.expect(PUBLISH, payload=b"x" * 70_000)
    assert PONG in client.kinds


@v5("MQTT-6.0.0-1")
@v311("MQTT-6.0.0-1")
@both
@pytest.mark.parametrize("when", ["first", "later"])
def test_a_text_frame_ends_the_connection(web: Open, join: Join, topic: str, version: int, when: str) -> None:
    watcher = join(version)
    watcher.subscribe((topic, 0))
    client = web(version)
    hello = Hello(client_id=unique("c"), version=version, will=Will(topic, b"will"))
    if when == "first":
        client.frame(hello.encode(), TEXT)
    else:
        client.connect(hello)
        client.frame(packet(PINGREQ), TEXT)
    while more := client.read_more():
        assert more[0] >> 4 in (2, 14), more  # a reason may be given, an answer may not
        assert more[0] >> 4 != 2 or more[3] >= 0x80
    assert client.close_code in (0, 1002, 1003, 1007, 1008)
    if when == "later":
        watcher.expect(PUBLISH, payload=b"will")


@v5("MQTT-4.13.1-1", "MQTT-3.14.4-2")
def test_a_malformed_packet_is_answered_over_websocket(web: Open) -> None:
    client = web()
    client.connect(Hello(client_id=unique("c"), properties=((P.SESSION_EXPIRY, 0),)))
    client.send(packet(PUBLISH, b"", 6))
    client.expect_end(0x81)


@v5("MQTT-3.1.4-3")
@v311("MQTT-3.1.4-2")
@both
def test_take_over_across_transports(web: Open, join: Join, version: int) -> None:
    name = unique("c")
    old = web(version)
    old.connect(Hello(client_id=name, version=version))
    new = join(version, client_id=name)
    old.expect_end(0x8E)
    new.expect_nothing()
