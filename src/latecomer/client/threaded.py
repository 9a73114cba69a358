"""The helper for threads and callbacks, over paho-mqtt.

    def show(heard: Heard) -> None: ...

    with Client(["b1=localhost:1883", "b2=localhost:1884"], Profile(client_id="phone"), on_heard=show) as client:
        client.subscribe("sensors/#", since="-1h", where="value > 30")

paho's own thread keeps the client connected: whenever a connection has ended, paho is told another address and after
which pause to go there. Callbacks run in that thread; they may subscribe and publish, and must not wait.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from paho.mqtt.client import MQTT_ERR_NO_CONN, MQTT_ERR_SUCCESS, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import MQTTMessageInfo as Publication
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from latecomer.client.addresses import Address
from latecomer.client.course import Course, Profile, read_addresses
from latecomer.client.journey import Ended, GaveUp, Leg
from latecomer.client.packets import (
    connect_properties,
    credentials,
    disconnect_properties,
    ended_by,
    message_of,
    publication_refusal,
    publish_properties,
    refusal_of,
    subscribe_options,
    subscribe_properties,
    welcome_of,
    will_properties,
)
from latecomer.client.words import Heard, Pairs, Subscription, Welcome, When, heard, make_subscription
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId

log = logging.getLogger("latecomer.client")

GOODBYE_S = 10.0
"""How long `leave` waits until the goodbye is written."""


class Client:
    """A client that stays connected to a network of brokers; `with` connects it, and says goodbye."""

    def __init__(
        self,
        addresses: str | Address | Sequence[str | Address],
        profile: Profile,
        *,
        tls: ssl.SSLContext | None = None,
        on_heard: Callable[[Heard], None] | None = None,
        on_welcome: Callable[[Welcome], None] | None = None,
        on_over: Callable[[LatecomerError], None] | None = None,
    ) -> None:
        self.course = Course(profile, read_addresses(addresses, tls=tls is not None))
        self.welcome: Welcome | None = None
        """What the broker said when it accepted the client last."""
        self.over: LatecomerError | None = None
        """Why there is no way on."""
        self._on_heard, self._on_welcome, self._on_over = on_heard, on_welcome, on_over
        self._changed = threading.Condition()
        self._up = self._leaving = self._ended = False
        self._since_s = 0.0
        self._thread = 0
        """paho's, which must not wait for itself."""
        self._asked: dict[int, Subscription] = {}
        """By packet identifier: subscriptions that are under way."""
        self._early: dict[int, tuple[list[ReasonCode], Properties | None]] = {}
        """Answers that came before paho had told the identifier of what was asked."""
        self._answers: dict[Subscription, LatecomerError | None] = {}
        """What the broker says of subscriptions that somebody waits for."""
        self._goodbye: Properties | None = None
        self._client = self._paho(tls)

    def _paho(self, tls: ssl.SSLContext | None) -> PahoClient:
        profile = self.course.profile
        client = PahoClient(
            CallbackAPIVersion.VERSION2, client_id=profile.client_id, protocol=MQTTProtocolVersion.MQTTv5
        )
        if (login := credentials(profile)) is not None:
            client.username_pw_set(*login)
        if tls is not None:
            client.tls_set_context(tls)
        if (will := profile.will) is not None:
            client.will_set(will.topic, will.payload, will.qos, will.retain, will_properties(will))
        client.on_pre_connect = self._sets_out
        client.on_connect = self._connected
        client.on_connect_fail = self._unreachable
        client.on_disconnect = self._disconnected
        client.on_message = self._came
        client.on_subscribe = self._subscribed
        client.on_publish = self._published
        return client

    # -- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def start(self) -> None:
        """Connect, and wait until a broker has accepted it. Raises `Refused` or `GaveUp`."""
        if self._leaving:
            raise GaveUp("this client has left; make another one")
        self._go(self.course.begin())
        self._client.loop_start()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self.connections or self._leaving or self.over is not None)
        except BaseException:
            self.leave()
            raise
        if self.over is not None or not self.connections:
            self._client.loop_stop()
            raise self.over or GaveUp("this client has left")

    def leave(self, next_broker: BrokerId = "") -> None:
        """Say goodbye, and perhaps where it goes: its session goes ahead to that broker."""
        with self._changed:
            if self._leaving:
                return
            self._leaving = True
            self._goodbye = disconnect_properties(self.course.leave_words(next_broker))
            self._changed.notify_all()
        self._client.disconnect(properties=self._goodbye)
        if threading.get_ident() != self._thread:
            with self._changed:
                self._changed.wait_for(lambda: not self._up, GOODBYE_S)
        self._client.loop_stop()

    @property
    def at(self) -> Address:
        """Where it is, or tries to be."""
        return self.course.journey.at

    @property
    def connections(self) -> int:
        """How often it has been accepted."""
        return self.course.connections

    # -- asking

    def subscribe(
        self, topic: str, *, qos: int = 1, where: str = "", since: When = "", until: When = "", last: int = 0,
        **more: Any,
    ) -> None:  # fmt: skip
        """Subscribe, perhaps to a part of the content (`where`), and to the past as well (`since`, `until`, `last`).
        `more` are the other fields of `Subscription`. Waits for the answer, but not in a callback, and raises `Refused`
        if the broker does not grant it; in a callback, a refusal is logged."""
        now_us = time.time_ns() // 1000
        subscription = make_subscription(topic, since, until, now_us, qos=qos, where=where, last=last, **more)
        waits = threading.get_ident() != self._thread
        with self._changed:
            self._answers.pop(subscription, None)
            self.course.wanted.want(subscription)
            up = self._up
        if up:
            self._subscribe(subscription)  # otherwise it is sent on arrival
        if waits:
            self._await(subscription)

    def _await(self, subscription: Subscription) -> None:
        def answered() -> bool:
            return subscription in self._answers or self.over is not None or self._leaving

        with self._changed:
            if not self._changed.wait_for(answered, self.course.profile.answer_s):
                raise LatecomerError(f"the broker at {self.at} does not answer a subscription")
            if subscription not in self._answers:
                raise self.over or GaveUp("this client has left")
            refusal = self._answers.pop(subscription)
        if refusal is not None:
            raise refusal

    def unsubscribe(self, topic: str) -> None:
        """End a subscription, here or on arrival. What was under way may still come."""
        with self._changed:
            self.course.wanted.unwant(topic)
            up = self._up
        if up:
            self._unsubscribe(topic)

    def publish(
        self, topic: str, payload: bytes | str = b"", *, qos: int = 1, retain: bool = False, user: Pairs = (),
        content_type: str = "", response_topic: str = "", expiry_s: int | None = None,
    ) -> Publication:  # fmt: skip
        """Publish. With QoS 1 and 2 it is sent until a broker has acknowledged it, be it this one or the next: the
        publication's `wait_for_publish` waits for that, but not in a callback."""
        properties = publish_properties(user, content_type, response_topic, expiry_s)
        publication = self._client.publish(topic, payload, qos, retain, properties)
        if qos and publication.rc == MQTT_ERR_NO_CONN:
            publication.rc = MQTT_ERR_SUCCESS  # paho keeps it until it is connected; who waits for it must be able to
        return publication

    # -- underway, in paho's thread

    def _go(self, leg: Leg) -> None:
        """paho connects there when it has paused."""
        course, place = self.course, leg.address
        with self._changed:
            words = connect_properties(course)
        self._client.reconnect_delay_set(leg.pause_s, leg.pause_s)  # type: ignore[arg-type] # any number will do
        self._client.connect_async(
            place.host,
            place.port,
            course.profile.keep_alive_s,
            clean_start=course.clean_start,
            properties=words,
        )

    def _next(self, ended: Ended) -> None:
        """A connection has ended, or could not be made; paho may say so twice before it sets out again."""
        with self._changed:
            if self._ended:
                return
            self._ended, self._up = True, False
            self._asked.clear()
            self._early.clear()
            self._changed.notify_all()
            if self._leaving:
                return
        try:
            self._go(self.course.ended(ended, random.random()))
        except LatecomerError as error:
            self._client.disconnect()  # without a connection: paho's thread ends
            with self._changed:
                self.over = error
                self._changed.notify_all()
            if self._on_over is not None:
                self._tell(self._on_over, error)

    def _sets_out(self, client: PahoClient, userdata: Any) -> None:
        self._thread = threading.get_ident()
        self._ended = False

    def _connected(
        self, client: PahoClient, userdata: Any, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        if code.is_failure:
            self._next(ended_by(code, properties, welcomed=False))
            return
        self._since_s = time.monotonic()
        welcome = welcome_of(self.course, bool(flags.session_present), properties)
        with self._changed:
            self.welcome, self._up = welcome, True
            due = self.course.welcomed(welcome)
            self._changed.notify_all()
        if self._leaving:
            client.disconnect(properties=self._goodbye)
            return
        for topic in due.unsubscribe:
            self._unsubscribe(topic)
        for subscription in due.subscribe:
            self._subscribe(subscription)
        if self._on_welcome is not None:
            self._tell(self._on_welcome, welcome)

    def _unreachable(self, client: PahoClient, userdata: Any) -> None:
        self._next(Ended())

    def _disconnected(
        self, client: PahoClient, userdata: Any, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        lasted_s = time.monotonic() - self._since_s
        if flags.is_disconnect_packet_from_server:
            self._next(ended_by(code, properties, welcomed=self._up, lasted_s=lasted_s))
        else:
            self._next(Ended(welcomed=self._up, lasted_s=lasted_s))

    def _came(self, client: PahoClient, userdata: Any, message: MQTTMessage) -> None:
        came = message_of(message.topic, bytes(message.payload), message.qos, message.retain, message.properties)
        with self._changed:
            told = self.course.take(heard(came))
        if self._on_heard is not None:
            self._tell(self._on_heard, told)

    def _published(
        self, client: PahoClient, userdata: Any, mid: int, code: ReasonCode, properties: Properties | None
    ) -> None:
        if code.is_failure:
            log.warning("the broker at %s refused a message: %s", self.at, publication_refusal(code, properties))

    def _tell(self, callback: Callable[[Any], None], what: object) -> None:
        """A mistake of the application must not end paho's thread, and with it the connection."""
        try:
            callback(what)
        except Exception:
            log.exception("a callback failed")

    # -- subscriptions under way

    def _subscribe(self, subscription: Subscription) -> None:
        """Ask; if the connection ends meanwhile, it is asked again on arrival."""
        with self._changed:
            past = self.course.wanted.asks_for_past(subscription)
        _, mid = self._client.subscribe(
            subscription.topic,
            options=subscribe_options(subscription),
            properties=subscribe_properties(subscription, past=past),
        )
        if mid is None:
            return
        with self._changed:
            if mid in self._early:
                self._settle(subscription, *self._early.pop(mid))
            else:
                self._asked[mid] = subscription

    def _subscribed(
        self, client: PahoClient, userdata: Any, mid: int, codes: list[ReasonCode], properties: Properties | None
    ) -> None:
        with self._changed:
            subscription = self._asked.pop(mid, None)
            if subscription is None:
                self._early[mid] = codes, properties
            else:
                self._settle(subscription, codes, properties)

    def _settle(self, subscription: Subscription, codes: list[ReasonCode], properties: Properties | None) -> None:
        refusal = refusal_of(f"the broker at {self.at}", subscription, codes, properties)
        if refusal is None:
            self.course.wanted.granted(subscription)
        else:
            self.course.wanted.refused(subscription)
            log.warning("%s", refusal)
        self._answers[subscription] = refusal
        self._changed.notify_all()

    def _unsubscribe(self, topic: str) -> None:
        """Once it is written, the broker does it; if the connection ends before, it is said again on arrival."""
        with suppress(ValueError):
            result, _ = self._client.unsubscribe(topic)
            if result == MQTT_ERR_SUCCESS:
                with self._changed:
                    self.course.wanted.left(topic)
