"""Retrieval: asking the network's stores for the past (being written: the signatures stand)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from latecomer.model.event import Event
from latecomer.model.history import Outcome, Query
from latecomer.model.ids import BrokerId, ClientId, EventId


@dataclass(slots=True)
class Inquiry:
    """One request for history, from the first question to the last answer."""

    query: Query
    user: str
    client: ClientId
    take: Callable[[Sequence[Event]], None]
    """Called with the next events, oldest first, each once. `Retrieval.more` must follow when they have been dealt with,
    perhaps much later: until then at most a few batches more are called up."""
    end: Callable[[Outcome], None]
    """Called once, after the last events were taken *and* `more` was called for them; never after `cancel`."""


@dataclass(slots=True)
class Retrieval:
    """The requests of this broker's clients."""

    def ask(
        self,
        query: Query,
        user: str,
        client: ClientId,
        take: Callable[[Sequence[Event]], None],
        end: Callable[[Outcome], None],
        owed: Mapping[BrokerId, EventId] | None = None,
        store: BrokerId = "",
    ) -> Inquiry:
        """Begin. `take` and `end` may be called at once, before this returns, or in a later step. `owed`: the newest
        event of each origin that the answer must reflect."""
        raise NotImplementedError

    def more(self, inquiry: Inquiry) -> None:
        """What was taken last has been dealt with."""
        raise NotImplementedError

    def cancel(self, inquiry: Inquiry) -> None:
        """Nobody wants to know any more."""
        raise NotImplementedError
