"""The helper for asyncio, over aiomqtt.

    async with Client(["b1=localhost:1883", "b2=localhost:1884"], Profile(client_id="phone")) as client:
        await client.subscribe("sensors/#", since="-1h", where="value > 30")
        async for heard in client.messages:
            ...

One task keeps the client connected. Whatever is asked while it is on its way waits until it has arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import aiomqtt
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from latecomer.client.addresses import Address
from latecomer.client.aio_line import Line
from latecomer.client.course import Course, Profile, read_addresses
from latecomer.client.journey import GaveUp, Leg
from latecomer.client.packets import (
    connect_properties,
    disconnect_properties,
    publish_properties,
    refusal_of,
    subscribe_options,
    subscribe_properties,
    welcome_of,
)
from latecomer.client.words import Heard, Message, Pairs, Subscription, Welcome, When, heard, make_subscription
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId

T = TypeVar("T")
log = logging.getLogger("latecomer.client")


class Client:
    """A client that stays connected to a network of brokers; `async with` connects it, and says goodbye."""

    def __init__(
        self,
        addresses: str | Address | Sequence[str | Address],
        profile: Profile,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.course = Course(profile, read_addresses(addresses, tls=tls is not None))
        self.welcome: Welcome | None = None
        """What the broker said when it accepted the client last."""
        self._tls = tls
        self._up = False
        self._leaving = asyncio.Event()
        self._subscribing = asyncio.Lock()
        self._inbox: deque[Heard] = deque()
        self._news = asyncio.Event()
        self._goodbye: Properties | None = None
        self._waiters: dict[Subscription, list[asyncio.Future[None]]] = {}

    # -- life

    async def __aenter__(self) -> Self:
        if self._leaving.is_set():
            raise GaveUp("this client has left; make another one")
        self._line = Line(self.course.profile, self.course.journey.at, self._tls, self._came)
        self._turn: asyncio.Future[None] = asyncio.Future()
        """Done, and another one, with each connection."""
        self._over: asyncio.Future[None] = asyncio.Future()
        """Done when there will be no further connection; with the reason, if nobody wanted that."""
        self._over.add_done_callback(lambda over: self._news.set())
        await self._travel(self.course.begin())
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    async def leave(self, next_broker: BrokerId = "") -> None:
        """Say goodbye, and perhaps where it goes: its session goes ahead to that broker."""
        if self._leaving.is_set():
            return
        self._goodbye = disconnect_properties(self.course.leave_words(next_broker))
        self._leaving.set()
        if self._is_up():
            await self._line.leave(self._goodbye)
        self._up = False
        # An attempt that is under way is not interrupted: aiomqtt makes it in a thread.
        await asyncio.gather(self._keeper, return_exceptions=True)
        self._line.close()
        if not self._over.done():
            self._over.set_result(None)

    @property
    def at(self) -> Address:
        """Where it is, or tries to be."""
        return self.course.journey.at

    @property
    def connections(self) -> int:
        """How often it has been accepted."""
        return self.course.connections

    async def _keep(self) -> None:
        try:
            while not self._leaving.is_set():
                await self._line.gone
                self._up = False
                self._line.close()
                if self._leaving.is_set():
                    return
                await self._travel(self.course.ended(self._line.ended, random.random()))
        except Exception as error:  # also a mistake of ours: whoever waits must hear of it
            self._over.set_exception(error)
            self._over.exception()  # heard, also if nobody asks

    async def _travel(self, leg: Leg) -> None:
        """Until a broker accepts it, or it is not to be any more. Raises `Refused` or `GaveUp`."""
        while not self._leaving.is_set():
            if leg.pause_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._leaving.wait(), leg.pause_s)
                    return
            words = connect_properties(self.course)
            if await self._line.come(leg.address, words, clean_start=self.course.clean_start):
                if self._leaving.is_set():
                    await self._line.leave(self._goodbye)
                    return
                await self._arrive()
                return
            leg = self.course.ended(self._line.ended, random.random())

    async def _arrive(self) -> None:
        self.welcome = welcome_of(self.course, *self._line.welcome)
        due = self.course.welcomed(self.welcome)
        self._up = True
        turn, self._turn = self._turn, asyncio.Future()
        turn.set_result(None)
        for topic in due.unsubscribe:
            await self._unsubscribe(topic)
        for subscription in due.subscribe:
            await self._subscribe(subscription)

    def _is_up(self) -> bool:
        return self._up and not self._line.gone.done()

    async def _until_up(self) -> None:
        """Raises what ended it all, if there will be no connection any more."""
        while not self._is_up():
            if self._over.done():
                self._over.result()
                raise GaveUp("this client has left")
            await asyncio.wait({self._turn, self._over}, return_when=asyncio.FIRST_COMPLETED)

    # -- asking

    async def subscribe(
        self, topic: str, *, qos: int = 1, where: str = "", since: When = "", until: When = "", last: int = 0,
        **more: Any,
    ) -> None:  # fmt: skip
        """Subscribe, perhaps to a part of the content (`where`), and to the past as well (`since`, `until`, `last`).
        `more` are the other fields of `Subscription`. Raises `Refused` if the broker does not grant it."""
        now_us = time.time_ns() // 1000
        subscription = make_subscription(topic, since, until, now_us, qos=qos, where=where, last=last, **more)
        self.course.wanted.want(subscription)
        waiter: asyncio.Future[None] = asyncio.Future()
        self._waiters.setdefault(subscription, []).append(waiter)
        if self._is_up():
            await self._subscribe(subscription)  # otherwise it is sent on arrival
        await self._or_over(waiter)

    async def unsubscribe(self, topic: str) -> None:
        """End a subscription. What was under way may still come."""
        self.course.wanted.unwant(topic)
        while topic in self.course.wanted.leaving:
            await self._until_up()
            await self._unsubscribe(topic)

    async def publish(
        self, topic: str, payload: bytes | str = b"", *, qos: int = 1, retain: bool = False, user: Pairs = (),
        content_type: str = "", response_topic: str = "", expiry_s: int | None = None,
    ) -> None:  # fmt: skip
        """Publish; with QoS 1 and 2 until a broker has acknowledged it, be it this one or the next. QoS 0 waits for a
        connection, too, which may lose it."""
        properties = publish_properties(user, content_type, response_topic, expiry_s)

        async def send() -> None:
            await (
                self._until_up()
            )  # and at once, before the loop does anything else: paho would keep what it cannot send
            await self._line.publish(topic, payload, qos, retain, properties, timeout=math.inf)

        if qos:
            await self._or_over(asyncio.ensure_future(send()))
            return
        await self._until_up()
        with contextlib.suppress(aiomqtt.MqttError):  # the connection has just ended
            await self._or_gone(send())

    @property
    def messages(self) -> AsyncIterator[Heard]:
        """What comes, over all connections: messages, and the end of each history. It ends when the client leaves, and
        raises `Refused` or `GaveUp` when there is no way on."""
        return self._messages()

    async def _messages(self) -> AsyncIterator[Heard]:
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            if self._over.done():
                self._over.result()
                return
            self._news.clear()
            await self._news.wait()

    def _came(self, message: Message) -> None:
        self._inbox.append(self.course.take(heard(message)))
        self._news.set()

    # -- with a connection that may end

    async def _subscribe(self, subscription: Subscription) -> None:
        """Ask once; if the connection ends meanwhile, it is asked again on arrival."""
        past = self.course.wanted.asks_for_past(subscription)
        async with self._subscribing:  # so that the properties of a SUBACK are those of this one
            try:
                codes = await self._or_gone(
                    self._line.subscribe(
                        subscription.topic,
                        options=subscribe_options(subscription),
                        properties=subscribe_properties(subscription, past=past),
                    )
                )
            except aiomqtt.MqttError as error:
                if self._line.gone.done():
                    return
                self._settle(subscription, LatecomerError(f"the broker at {self.at} does not answer: {error}"))
                return
            if codes is None:
                return
            granted = [code for code in codes if isinstance(code, ReasonCode)]
            refusal = refusal_of(f"the broker at {self.at}", subscription, granted, self._line.suback)
        self._settle(subscription, refusal)

    def _settle(self, subscription: Subscription, refusal: LatecomerError | None) -> None:
        if refusal is None:
            self.course.wanted.granted(subscription)
        else:
            self.course.wanted.refused(subscription)
        waiters = [waiter for waiter in self._waiters.pop(subscription, []) if not waiter.done()]
        if refusal is not None and not waiters:
            log.warning("%s", refusal)
        for waiter in waiters:
            if refusal is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(refusal)

    async def _unsubscribe(self, topic: str) -> None:
        with contextlib.suppress(aiomqtt.MqttError):
            await self._or_gone(self._line.unsubscribe(topic))
            if not self._line.gone.done():
                self.course.wanted.left(topic)

    async def _or_gone(self, asked: Awaitable[T]) -> T | None:
        """The answer; None if the connection ends first."""
        return await _first(asyncio.ensure_future(asked), self._line.gone)

    async def _or_over(self, asked: asyncio.Future[None]) -> None:
        """The answer, however many connections that takes."""
        await _first(asked, self._over)
        if not asked.done() or asked.cancelled():
            self._over.result()
            raise GaveUp("this client has left")


async def _first(asked: asyncio.Future[T], end: asyncio.Future[None]) -> T | None:
    """The answer, or None when the end comes first; then nobody waits for the answer any more."""
    try:
        await asyncio.wait([asked, end], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if asked.done():
            return asked.result()
        return None
    finally:
        if not asked.done():
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
