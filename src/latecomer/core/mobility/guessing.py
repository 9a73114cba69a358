"""Where a client goes that has not said so: its session may go ahead (*mobility*: prefetching).

A model that was learned from the past (`model/movement`) is asked some time after the client left: most of those whose
connection broke are back at once, at the same broker. If one place is likely enough, the broker of that name is asked
to fetch the session. A wrong guess costs a transfer and, when the client comes, another one. Guesses that turned out
wrong are counted in the session and travel with it: each halves the chance of being wrong that is accepted, until one
is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.mobility.copies import Copies
from latecomer.core.mobility.departure import Departures
from latecomer.core.mobility.habits import likely_after
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.mobility.strategies import Strategy
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Session
from latecomer.messages.hand_over import Fetch
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.movement import Guess, Movement

HOUR_US = 3600 * 1_000_000


@dataclass(slots=True)
class Guessing:
    """The clients of this broker that left without a word."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    sessions: Sessions
    departures: Departures
    copies: Copies
    settings: HandOverSettings
    movement: Movement | None = None
    is_there: Callable[[BrokerId], bool] = field(init=False)
    strategy_of: Callable[[str], Strategy] = field(init=False)
    waiting: deque[tuple[Instant, Session]] = field(default_factory=deque)
    """When to guess; in the order in which they left."""
    guesses: int = 0

    def left(self, session: Session) -> None:
        """A client has gone."""
        if session.durable and self.strategy_of(session.hand_over).guesses:
            self.waiting.append((self.orders.wake(self.orders.now + self.settings.guess_after_us), session))

    def due(self) -> Instant | None:
        return self.waiting[0][0] if self.waiting else None

    def woken(self) -> None:
        while self.waiting and self.waiting[0][0] <= self.orders.now:
            due, session = self.waiting.popleft()
            away_since = due - self.settings.guess_after_us
            if self.sessions.by_client.get(session.client) is session and session.away_since == away_since:
                self._guess(session)

    def _guess(self, session: Session) -> None:
        client = session.client
        if session.connection or session.suspended or client in self.departures.promises:
            return
        strategy = self.strategy_of(session.hand_over)
        ahead = strategy.ahead(self._likely(session, strategy.guesses), session.misses)
        for to in ahead.brokers:
            if to == self.broker or not self.is_there(to):
                continue
            self.guesses += 1
            if ahead.take:
                self.passage.send(to, Fetch(self.broker, to, client, session.user, guess=True, ahead=True))
            else:
                self.copies.offer(session, to)

    def _likely(self, session: Session, limit: int) -> tuple[Guess, ...]:
        """Where the client probably goes: by the model, if it knows the client, else by where the client was before."""
        movement = self.movement
        if movement is not None and session.client in movement.clients:
            hour = session.away_since // HOUR_US % 24
            return movement.predict(session.client, self.broker, hour, session.came_from, limit)
        return likely_after(session.places, limit)
