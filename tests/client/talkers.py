"""Both helpers with the same few verbs, so that each story is told of both."""

from __future__ import annotations

import asyncio
import queue
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from latecomer.client import Heard, Message, Patience, Profile, Welcome, aio, threaded
from latecomer.client.course import Course
from latecomer.model.errors import LatecomerError

T = TypeVar("T")
LIMIT_S = 15.0
QUICK = Patience(pause_s=0.01, pause_max_s=0.02, attempts_max=60)
"""Tests do not wait to be polite."""


def profile(client_id: str = "phone", **more: Any) -> Profile:
    wanted: dict[str, Any] = {"client_id": client_id, "patience": QUICK} | more
    return Profile(**wanted)


class Talker(Protocol):
    """A helper as the tests use it: `with` connects it, and says goodbye."""

    inbox: queue.Queue[Heard]

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def course(self) -> Course: ...

    @property
    def welcome(self) -> Welcome | None: ...

    def subscribe(self, topic: str, **more: Any) -> None: ...

    def unsubscribe(self, topic: str) -> None: ...

    def publish(self, topic: str, payload: str, **more: Any) -> None: ...

    def leave(self, next_broker: str = "") -> None: ...

    def over(self) -> LatecomerError:
        """Waits until it gives up."""
        ...


class Threaded:
    def __init__(self, addresses: Sequence[str], profile: Profile, tls: ssl.SSLContext | None = None) -> None:
        self.inbox: queue.Queue[Heard] = queue.Queue()
        self.ends: queue.Queue[LatecomerError] = queue.Queue()
        self.client = threaded.Client(addresses, profile, tls=tls, on_heard=self.inbox.put, on_over=self.ends.put)

    def __enter__(self) -> Self:
        self.client.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    @property
    def course(self) -> Course:
        return self.client.course

    @property
    def welcome(self) -> Welcome | None:
        return self.client.welcome

    def subscribe(self, topic: str, **more: Any) -> None:
        self.client.subscribe(topic, **more)

    def unsubscribe(self, topic: str) -> None:
        self.client.unsubscribe(topic)

    def publish(self, topic: str, payload: str, **more: Any) -> None:
        publication = self.client.publish(topic, payload, **more)
        publication.wait_for_publish(LIMIT_S)
        assert publication.is_published()

    def leave(self, next_broker: str = "") -> None:
        self.client.leave(next_broker)

    def over(self) -> LatecomerError:
        return self.ends.get(timeout=LIMIT_S)


class Aio:
    """asyncio in a thread of its own."""

    client: aio.Client

    def __init__(self, addresses: Sequence[str], profile: Profile, tls: ssl.SSLContext | None = None) -> None:
        self.inbox: queue.Queue[Heard] = queue.Queue()
        self.ends: queue.Queue[LatecomerError] = queue.Queue()
        self.addresses, self.profile, self.tls = addresses, profile, tls
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(LIMIT_S)

    async def _begin(self) -> None:
        self.client = aio.Client(self.addresses, self.profile, tls=self.tls)
        await self.client.__aenter__()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for heard in self.client.messages:
                self.inbox.put(heard)
        except LatecomerError as error:
            self.ends.put(error)

    async def _end(self) -> None:
        await self.client.leave()
        await self.reading

    def __enter__(self) -> Self:
        self.thread.start()
        try:
            self._do(self._begin())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._do(self._end())
        finally:
            self._stop()

    def _stop(self) -> None:
        with suppress(RuntimeError):
            self._do(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(LIMIT_S)
        self.loop.close()

    @property
    def course(self) -> Course:
        return self.client.course

    @property
    def welcome(self) -> Welcome | None:
        return self.client.welcome

    def subscribe(self, topic: str, **more: Any) -> None:
        self._do(self.client.subscribe(topic, **more))

    def unsubscribe(self, topic: str) -> None:
        self._do(self.client.unsubscribe(topic))

    def publish(self, topic: str, payload: str, **more: Any) -> None:
        self._do(self.client.publish(topic, payload, **more))

    def leave(self, next_broker: str = "") -> None:
        self._do(self.client.leave(next_broker))

    def over(self) -> LatecomerError:
        return self.ends.get(timeout=LIMIT_S)


HELPERS: dict[str, type[Threaded] | type[Aio]] = {"threaded": Threaded, "aio": Aio}


def take(talker: Talker, number: int) -> list[Heard]:
    """The next ones."""
    found: list[Heard] = []
    while len(found) < number:
        try:
            found.append(talker.inbox.get(timeout=LIMIT_S))
        except queue.Empty:
            raise AssertionError(f"{len(found)} of {number} came: {found}") from None
    return found


def payloads(talker: Talker, number: int) -> list[bytes]:
    return [heard.payload for heard in take(talker, number) if isinstance(heard, Message)]


def until(true: Callable[[], object]) -> None:
    """Wait for something that happens in another thread."""
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end, "it never happens"
        time.sleep(0.01)
