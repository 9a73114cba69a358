"""A client for tests: paho with an inbox, and fences instead of sleeps.

Subscriptions need a moment to travel between brokers. They travel in order, so when a probe to a topic that was
subscribed last arrives, everything subscribed before is known where the probe was published. Likewise what was
published before a probe, by the same client, has come before it or does not come at all.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any
from uuid import uuid4

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.network.net import HOST

LIMIT_SECONDS = 20.0
PROBE_SECONDS = 0.03
FENCE = "t/fence/"
"""Where every key has a tree of its own, order holds within one: tests publish below `t`."""


def properties(packet: int, **values: Any) -> Properties:
    found = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        if name == "UserProperty":
            for pair in value:
                found.UserProperty = pair
        else:
            setattr(found, name, value)
    return found


def told(message: MQTTMessage) -> Any:
    """The properties that came with a message."""
    return message.properties


def user_properties(message: MQTTMessage) -> list[tuple[str, str]]:
    return list(getattr(told(message), "UserProperty", []))


class Peer:
    """A connected client. `with` says goodbye at the end; `vanish` does not."""

    def __init__(
        self,
        port: int,
        client_id: str = "",
        *,
        old: bool = False,
        keep_seconds: int | None = None,
        will: tuple[str, bytes, int, bool] | None = None,
        will_delay_s: int = 0,
        user: tuple[str, str] | None = None,
        **connect: Any,
    ) -> None:
        self.inbox: queue.Queue[MQTTMessage] = queue.Queue()
        self.fences: queue.Queue[bytes] = queue.Queue()
        self.acks: queue.Queue[tuple[str, int, list[ReasonCode]]] = queue.Queue()
        self.old = old
        self.session_present = False
        self.fence_topic = FENCE + uuid4().hex
        self._fenced = False
        self._connected = threading.Event()
        self._gone = threading.Event()
        self.refused: ReasonCode | None = None
        self.farewell: int | None = None
        """The reason of the broker's DISCONNECT."""
        client = self.client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id or f"peer-{uuid4().hex[:12]}",
            protocol=MQTTProtocolVersion.MQTTv311 if old else MQTTProtocolVersion.MQTTv5,
            clean_session=(keep_seconds is None) if old else None,
            reconnect_on_failure=False,
        )
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        client.on_publish = lambda c, u, mid, code, p: self.acks.put(("publish", mid, [code]))
        client.on_subscribe = lambda c, u, mid, codes, p: self.acks.put(("subscribe", mid, list(codes)))
        client.on_unsubscribe = lambda c, u, mid, codes, p: self.acks.put(("unsubscribe", mid, list(codes)))
        if will is not None:
            delay = properties(PacketTypes.WILLMESSAGE, WillDelayInterval=will_delay_s) if will_delay_s else None
            client.will_set(will[0], will[1], will[2], will[3], delay)
        if user is not None:
            client.username_pw_set(*user)
        more: dict[str, Any] = {}
        if not old:
            if keep_seconds is not None:
                connect["SessionExpiryInterval"] = keep_seconds
            more = {"clean_start": keep_seconds is None, "properties": properties(PacketTypes.CONNECT, **connect)}
        client.connect(HOST, port, 30, **more)
        client.loop_start()
        assert self._connected.wait(LIMIT_SECONDS), "the broker did not answer"
        if self.refused is not None:
            client.loop_stop()
            raise ConnectionRefusedError(str(self.refused))

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Say goodbye, and wait until the broker has heard it: what is published next finds nobody at home.

        paho hangs up behind its DISCONNECT; the broker closes when it has read it [MQTT-3.14.4-3].
        """
        sock = self.client.socket()
        if sock is not None:
            assert isinstance(sock, socket.socket)
            with suppress(OSError):
                self._acknowledge()
                sock.sendall(b"\xe0\x00")
                assert self._gone.wait(LIMIT_SECONDS), "the broker does not close after a DISCONNECT"
        self.client.loop_stop()

    def _acknowledge(self) -> None:
        """Wait until the broker has the acknowledgements of all that tests have seen: without them it would rightly
        send it again. paho's thread acknowledges when it has shown a message, and writes when it has read: its first
        answer from the broker means that the acknowledgement waits to be written, the second that it was."""
        for _ in range(2):
            _, mid = self.client.unsubscribe(FENCE)
            until = time.monotonic() + LIMIT_SECONDS
            answer: tuple[str, int | None] = ("", 0)
            while answer != ("unsubscribe", mid):
                if self._gone.is_set():
                    return
                assert time.monotonic() < until, "the broker does not answer"
                with suppress(queue.Empty):
                    answer = self.acks.get(timeout=PROBE_SECONDS)[:2]

    def vanish(self) -> None:
        """Gone without a word, as when a cable is pulled."""
        sock = self.client.socket()
        if sock is not None:
            assert isinstance(sock, socket.socket)
            sock.shutdown(socket.SHUT_RDWR)
        self.client.loop_stop()

    def _on_connect(self, client: Client, userdata: Any, flags: Any, code: ReasonCode, properties: Any) -> None:
        self.session_present = flags.session_present
        self.refused = code if code.is_failure else None
        self._connected.set()

    def _on_disconnect(self, client: Client, userdata: Any, flags: Any, code: ReasonCode, properties: Any) -> None:
        if flags.is_disconnect_packet_from_server:
            self.farewell = int(code.value)
        self._gone.set()

    def dismissed(self) -> int | None:
        """The reason with which the broker ends this connection, once it has."""
        assert self._gone.wait(LIMIT_SECONDS), "the connection does not end"
        self.client.loop_stop()
        return self.farewell

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        if message.topic.startswith(FENCE):
            if message.topic == self.fence_topic:
                self.fences.put(bytes(message.payload))
        else:
            self.inbox.put(message)

    # -- asking

    def _ack(self, kind: str, mid: int | None) -> list[ReasonCode]:
        while True:
            try:
                found = self.acks.get(timeout=LIMIT_SECONDS)
            except queue.Empty:
                raise AssertionError(f"no answer to {kind} {mid}") from None
            if found[:2] == (kind, mid):
                return found[2]

    def subscribe(self, topic: str, qos: int = 0, *, content: str = "", identifier: int = 0, **options: Any) -> int:
        """The reason code."""
        if self.old:
            _, mid = self.client.subscribe(f"{topic} ? {content}" if content else topic, qos)
        else:
            more: dict[str, Any] = {"UserProperty": [("filter", content)]} if content else {}
            if identifier:
                more["SubscriptionIdentifier"] = identifier
            _, mid = self.client.subscribe(
                topic,
                options=SubscribeOptions(qos=qos, **options),
                properties=properties(PacketTypes.SUBSCRIBE, **more),
            )
        return int(self._ack("subscribe", mid)[0].value)

    def unsubscribe(self, topic: str) -> None:
        _, mid = self.client.unsubscribe(topic)
        self._ack("unsubscribe", mid)

    def publish(self, topic: str, payload: str | bytes = b"", qos: int = 0, retain: bool = False, **more: Any) -> int:
        """The reason code, once the broker has answered."""
        told = None if self.old else properties(PacketTypes.PUBLISH, **more)
        info = self.client.publish(topic, payload, qos, retain, told)
        return int(self._ack("publish", info.mid)[0].value)

    # -- waiting

    def take(self, number: int = 1) -> list[MQTTMessage]:
        """The next messages."""
        got: list[MQTTMessage] = []
        until = time.monotonic() + LIMIT_SECONDS
        while len(got) < number:
            try:
                got.append(self.inbox.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                shown = [(message.topic, message.payload) for message in got]
                raise AssertionError(f"{len(got)} of {number} messages came: {shown}") from None
        return got

    def payloads(self, number: int = 1) -> list[bytes]:
        return [bytes(message.payload) for message in self.take(number)]

    def ready(self, *publishers: Peer) -> Peer:
        """Wait until all that this client has subscribed to is known at those publishers' brokers."""
        if not self._fenced:
            self.subscribe(self.fence_topic, 2)
            self._fenced = True
        else:
            # A filter that is already there travels no more; another one does.
            self.fence_topic = FENCE + uuid4().hex
            self.subscribe(self.fence_topic, 2)
        for publisher in publishers or (self,):
            self._probe(publisher)
        return self

    def _probe(self, publisher: Peer) -> None:
        mark = uuid4().hex.encode()
        until = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < until:
            publisher.publish(self.fence_topic, mark, 0)
            try:
                while self.fences.get(timeout=PROBE_SECONDS) != mark:
                    pass
            except queue.Empty:
                continue
            return
        raise AssertionError("a subscription never reached the publisher's broker")

    def rest(self, *publishers: Peer) -> list[MQTTMessage]:
        """What else those publishers have sent to this client, after `ready`: waits until all of it has come."""
        for publisher in publishers or (self,):
            mark = uuid4().hex.encode()
            # A client hands QoS 2 on when it is released, so a lesser fence would overtake it.
            publisher.publish(self.fence_topic, mark, 2)
            until = time.monotonic() + LIMIT_SECONDS
            while True:
                try:
                    if self.fences.get(timeout=max(0.0, until - time.monotonic())) == mark:
                        break
                except queue.Empty:
                    raise AssertionError("a fence never came") from None
        got = []
        while not self.inbox.empty():
            got.append(self.inbox.get())
        return got
