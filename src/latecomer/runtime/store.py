"""The broker's store on disk: the engine of `latecomer.history`, kept away from the event loop.

Theory of operation. Three threads, each for one thing: the *writer* appends, one batch at a time, as the driver hands
them over; the *reader* answers lookups and surveys in the order in which they were asked; the *tidier* lets go of
what is too old or too much, moves what has become cold, and reads through all of it, again and again, for damage.
What they find comes back to the event loop, as a call or as a fact for the core.

A full store. An append that finds no room is not kept, and the core is told from when on something is missing. What
was refused first is tried again every second: when that succeeds there is room again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from latecomer.core.effects import Lookup, Survey, TakeBack
from latecomer.core.inputs import Found, Input, StoreBlocked, StoreTrimmed, Surveyed
from latecomer.history import Engine, EngineSettings, Problem, StoreFailed, StoreFull
from latecomer.history.cold_errors import ColdError
from latecomer.model.errors import SettingsError
from latecomer.model.event import Event
from latecomer.model.history import Page, Query, Slice, StoreStatus
from latecomer.model.ids import Instant
from latecomer.runtime.private_files import private_directory
from latecomer.runtime.settings import Settings

RESERVE_BYTES = 128 * 1024 * 1024
RESERVE_SHARE = 25
"""One part in so many of the file system, if that is less: more than the broker's own disk leaves free, so that the
store gives way first."""
RETRY_S = 1.0
RETRIED_MAX = 256
"""Refused events that are tried again."""
TIDY_S = 5.0
CLOSING_S = 0.1
"""How often the tidier looks whether the store is being closed while it waits."""

T = TypeVar("T")
log = logging.getLogger("latecomer")


class Kept(Protocol):
    """What is asked of an engine; appends, reads and tidying come from three threads."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found damaged since it was opened."""

    def append(self, events: Sequence[Event]) -> int: ...

    @property
    def takes_from_us(self) -> Instant: ...

    def take_back(self, origin: str, epoch: int, after: int, since_us: Instant) -> int: ...

    def read(self, query: Query, now_us: Instant, events_max: int, bytes_max: int) -> Page: ...

    def survey(self, topics: str, since_us: Instant, until_us: Instant, width_us: int) -> tuple[Slice, ...]: ...

    def expire(self, now_us: Instant, leaving: Callable[[Instant], None]) -> Instant | None: ...

    def roll(self, now_us: Instant) -> object: ...

    def scrub(self) -> int: ...

    def status(self, topics: str | None = None) -> StoreStatus: ...

    def close(self) -> None: ...


class Keeper:
    """Owns an engine. To be made inside a running loop; `tell` and `failed` are the driver's."""

    def __init__(
        self,
        engine: Kept,
        topics: Sequence[str],
        clock: Callable[[], Instant],
    ) -> None:
        self.engine = engine
        self.topics = tuple(topics)
        self.clock = clock
        self.tell: Callable[[Input], None] = lambda fact: None
        self.failed: Callable[[Exception], None] = lambda error: None
        self.status = engine.status()
        """As of some seconds ago."""
        self.appended = self.refused = 0
        self.problem = ""
        """Why nothing new is kept, if so."""
        self.tidy_problem = ""
        """Why nothing old is let go of, if so."""
        self.damage: tuple[Problem, ...] = ()
        """What was found damaged."""
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(1, "store")
        self._reader = ThreadPoolExecutor(1, "history")
        self._tidier = ThreadPoolExecutor(1, "store-tidy")
        self._refused: list[Event] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closed = False

    def start(self) -> None:
        """Begin to tidy."""
        self._later("tidy", TIDY_S, self._tidy)

    def reach(self) -> tuple[Instant, Instant]:
        """From when on events are taken, and before when they have been let go of."""
        return min(self.engine.takes_from_us, self.status.kept_from_us), self.status.kept_from_us

    # -- what the driver orders ------------------------------------------------------------------------------------

    def append(
        self, events: Sequence[Event], ghosts: TakeBack | None, done: Callable[[StoreFull | None], None]
    ) -> None:
        """Keep these events, all or none; then `done(None)`, or with the reason why there is no room."""

        def write() -> StoreFull | None:
            try:
                if ghosts is not None:
                    self._take_back(ghosts)
                if events:
                    self.engine.append(events)
            except StoreFull as full:
                return full
            return None

        def written(full: StoreFull | None) -> None:
            if full is None:
                self.appended += len(events)
            else:
                self.refused += len(events)
                self._full(full, events)
            done(full)

        self._do(self._writer, write, written, self.failed)

    def _take_back(self, ghosts: TakeBack) -> None:
        """Now or never: what is kept from now on has higher numbers still."""
        try:
            self.engine.take_back(ghosts.origin, ghosts.epoch, ghosts.after, ghosts.since_us)
        except StoreFull as full:
            log.error("what a crash may have left in the store stays there, and may come twice: %s", full)

    def lookup(self, effect: Lookup) -> None:
        now = 0 if effect.expired else self.clock()
        self._do(
            self._reader,
            lambda: self.engine.read(effect.query, now, effect.events_max, effect.bytes_max),
            lambda page: self.tell(Found(effect.token, page)),
            lambda error: self.tell(Found(effect.token, Page((), None), _sentence(error))),
        )

    def survey(self, effect: Survey) -> None:
        self._do(
            self._reader,
            lambda: self.engine.survey(effect.topics, effect.since_us, effect.until_us, effect.width_us),
            lambda slices: self.tell(Surveyed(effect.token, slices)),
            lambda error: self.tell(Surveyed(effect.token, (), _sentence(error))),
        )

    @property
    def troubles(self) -> tuple[str, ...]:
        """What an operator must look at."""
        many = f"{len(self.damage)} damaged places in the store: see the log, or latecomer store verify"
        return tuple(filter(None, (self.problem, self.tidy_problem, many if self.damage else "")))

    async def refresh(self) -> StoreStatus:
        """What the store holds now."""
        self.status = await self._loop.run_in_executor(self._reader, self.engine.status)
        return self.status

    async def sizes(self, topics: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Of each topic filter, how many events are on the disk, and their bytes."""
        found = {}
        for name in topics:
            part = await self._loop.run_in_executor(self._reader, self.engine.status, name)
            found[name] = (part.events, part.bytes)
        return found

    def stop(self) -> None:
        """Nothing more is told; `close` may follow."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()

    def close(self) -> None:
        """Wait for what is under way, and let go of the files. Blocks."""
        for pool in (self._writer, self._reader, self._tidier):
            pool.shutdown(wait=True, cancel_futures=True)
        self.engine.close()

    # -- a full store ----------------------------------------------------------------------------------------------

    def _full(self, full: StoreFull, events: Sequence[Event]) -> None:
        if self.problem:
            return
        self.problem = f"the store is full: {full}"
        log.error("%s; new events are not kept until there is room, what is kept is served", self.problem)
        self._refused = list(events[:RETRIED_MAX])
        self._later("retry", RETRY_S, self._retry)
        self._tidy()

    def _retry(self) -> None:
        events = self._refused

        def write() -> bool:
            try:
                self.engine.append(events)
            except StoreFull:
                return False
            return True

        def written(room: bool) -> None:
            if not room:
                self._later("retry", RETRY_S, self._retry)
                return
            self.problem, self._refused = "", []
            self.appended += len(events)
            log.warning("there is room in the store again")
            self.tell(StoreBlocked(False))

        self._do(self._writer, write, written, self.failed)

    # -- tidying ---------------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        now = self.clock()

        def tidy() -> tuple[StoreStatus, tuple[Problem, ...]]:
            # What is moved must be moved before it is too old to be here.
            with suppress(StoreFull):
                self.engine.roll(now)
            self.engine.expire(now, self._leaving)
            with suppress(StoreFull):
                self.engine.scrub()
            return self.engine.status(), self.engine.problems

        def tidied(found: tuple[StoreStatus, tuple[Problem, ...]]) -> None:
            self.status, damage = found
            self.tidy_problem = ""
            for problem in damage[len(self.damage) :]:
                log.error("the store is damaged, what is sound is served: %s", problem)
            self.damage = damage
            self._later("tidy", TIDY_S, self._tidy)

        self._do(self._tidier, tidy, tidied, self._untidy)

    def _leaving(self, from_us: Instant) -> None:
        """Some events are about to go: no answer may miss them and be called complete. The tidier waits until the core
        knows."""
        known = threading.Event()

        def tell() -> None:
            try:
                if not self._closed:
                    self.tell(StoreTrimmed(from_us))
            finally:
                known.set()

        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(tell)
            while not (self._closed or self._loop.is_closed() or known.wait(CLOSING_S)):
                pass

    def _untidy(self, error: Exception) -> None:
        if isinstance(error, StoreFailed):
            self.failed(error)
            return
        problem = f"the store cannot let go of old events: {error}"
        if problem != self.tidy_problem:
            self.tidy_problem = problem
            log.error("%s; it tries again every %g s", problem, TIDY_S)
        self._later("tidy", TIDY_S, self._tidy)

    # -- threads ---------------------------------------------------------------------------------------------------

    def _do(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[], T],
        then: Callable[[T], None],
        otherwise: Callable[[Exception], None],
    ) -> None:
        """Work in a thread; what comes of it is told on the event loop, unless nobody listens any more."""

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                report(otherwise, error)
            else:
                report(then, result)

        def report(call: Callable[..., None], value: object) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(heard, call, value)

        def heard(call: Callable[..., None], value: object) -> None:
            if not self._closed:
                call(value)

        if not self._closed:
            pool.submit(run)

    def _later(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """One timer of each name."""
        if (before := self._timers.get(name)) is not None:
            before.cancel()
        self._timers[name] = self._loop.call_later(seconds, call)


def open_keeper(settings: Settings, topics: Sequence[str], clock: Callable[[], Instant]) -> Keeper:
    """The store that the settings ask for, with what is in it. Raises a `SettingsError` about a key of `store`."""
    return Keeper(open_engine(settings), topics, clock)


def open_engine(settings: Settings) -> Engine:
    """Blocks."""
    store = settings.store
    directory = private_directory(settings.store_directory, "store.directory")
    wanted = EngineSettings(
        keep_us=store.keep_us,
        capacity_bytes=store.capacity_bytes,
        events_max=store.events,
        reserve_bytes=usual_reserve(directory) if store.reserve_bytes is None else store.reserve_bytes,
        hot_us=store.hot_us if store.cold else 0,
        cold=store.cold or "",
        writer=settings.broker.id,
    )
    try:
        return Engine.open(directory, wanted, durability=settings.broker.durability)
    except SettingsError as error:
        raise error.at("store.directory") from None
    except ColdError as error:
        raise SettingsError("store.cold", str(error)) from None


def usual_reserve(directory: Path) -> int:
    """Bytes of a file system that a store leaves free, if nobody says otherwise."""
    found = os.statvfs(directory)
    return min(RESERVE_BYTES, found.f_blocks * found.f_frsize // RESERVE_SHARE)


def _sentence(error: Exception) -> str:
    return f"the store cannot be read: {error}"[:200]
