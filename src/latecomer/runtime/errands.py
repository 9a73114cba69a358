"""What operators at one broker want of the store of another: carried over the links, so that one address is enough.

Links are authenticated, and every broker of a network is trusted by the others; who does not want operators elsewhere
to decide what this broker keeps says so with `store.remote`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from latecomer.core.effects import CarryOut, Report
from latecomer.core.inputs import CarriedOut, Wanted
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId
from latecomer.runtime.containment import PROBLEM
from latecomer.runtime.store_views import StoresView

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

ANSWER_SECONDS = 25.0
AT_ONCE_MAX = 16
"""Errands of others that are under way here."""
PROBLEM_MAX = 300


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wanted: to know about the store, or that it keeps certain topics from now on."""

    topics: tuple[str, ...] | None = None
    """None: nothing is to change."""
    plan: str = ""
    sizes: tuple[str, ...] = ()
    """Topic filters whose events are to be counted."""


class Unreachable(LatecomerError):
    """The other broker has not answered; what was wanted may or may not have been done."""


class Errands:
    """Those of this broker's operators, and those of others that end here."""

    def __init__(self, driver: Driver, carry_out: Callable[[Wish], Awaitable[StoresView]], *, open: bool) -> None:
        self._driver = driver
        self._carry_out = carry_out
        self._open = open
        """Whether others may change anything here."""
        self._tokens = 0
        self._waiting: dict[int, asyncio.Future[Report]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, broker: BrokerId, wish: Wish) -> StoresView:
        """Have a wish carried out at another broker. Errors are sentences."""
        self._tokens += 1
        token, loop = self._tokens, asyncio.get_running_loop()
        self._waiting[token] = future = loop.create_future()
        self._driver.tell(Wanted(token, broker, msgspec.json.encode(wish)))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                report = await future
        except TimeoutError:
            raise Unreachable(f"{broker} did not answer within {ANSWER_SECONDS:g} s") from None
        finally:
            self._waiting.pop(token, None)
        if not report.answered:
            raise Unreachable(report.problem)
        if report.problem:
            raise LatecomerError(f"{broker} says: {report.problem}")
        try:
            return msgspec.json.decode(report.body, type=StoresView)
        except (msgspec.DecodeError, ValueError):
            raise LatecomerError(f"{broker} gave an answer that is none") from None

    def report(self, effect: Report) -> None:
        future = self._waiting.get(effect.token)
        if future is not None and not future.done():
            future.set_result(effect)

    def carry_out(self, effect: CarryOut) -> None:
        if len(self._tasks) >= AT_ONCE_MAX:
            problem = "too many operators want something of this broker at once"
            self._driver.tell(CarriedOut(effect.broker, effect.number, b"", problem))
            return
        task = asyncio.get_running_loop().create_task(self._answer(effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, effect: CarryOut) -> None:
        body, problem = b"", ""
        try:
            wish = msgspec.json.decode(effect.body, type=Wish)
            if wish.topics is not None and not self._open:
                problem = "store.remote of this broker is false: ask it at its own address"
            else:
                body = msgspec.json.encode(await self._carry_out(wish))
        except (LatecomerError, msgspec.DecodeError, ValueError) as error:
            problem = str(error)
        except Exception as error:
            self._driver.alarms.ring("carryout", error)
            problem = PROBLEM
        self._driver.tell(CarriedOut(effect.broker, effect.number, body, problem[:PROBLEM_MAX]))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for token, future in self._waiting.items():
            if not future.done():
                future.set_result(Report(token, b"", "the broker is stopping", answered=False))
