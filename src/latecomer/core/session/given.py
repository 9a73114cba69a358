"""Which events a session was given since it began, while another broker may have an older session of its client.

What waits in the older session comes later, as *leftovers* (`mobility/leftovers`). What the younger one was given
already is recognised by its event id. The memory is bounded, stands on disk and travels with the session. Once it is
not whole any more, what cannot be recognised comes again with QoS 1, and is left out with QoS 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from latecomer.core.effects import Drop, Put
from latecomer.core.orders import Orders
from latecomer.core.session.state import Given, Session
from latecomer.model.ids import EventId

GIVEN_MAX = 65_536
"""Events that are remembered of a session."""
TOTAL_MAX = 1_000_000
"""Events that are remembered of all sessions together."""
WHOLE, PART = "whole", "part"


@dataclass(slots=True)
class Memory:
    """What sessions were given."""

    orders: Orders
    total: int = 0

    def begin(self, session: Session, *, whole: bool) -> None:
        """From now on leftovers may come. `whole`: the session has just begun."""
        if session.given is None:
            session.given = Given(whole)
            self._store(session)
        elif not whole:
            self._is_part(session, session.given)

    def note(self, session: Session, id: EventId) -> None:
        """A session is given an event."""
        given = session.given
        if given is None or id in given.ids:
            return
        while given.ids and (len(given.ids) >= GIVEN_MAX or self.total >= TOTAL_MAX):
            oldest = next(iter(given.ids))
            self.orders.writes.append(Drop("given", session.client, given.ids.pop(oldest)))
            self.total -= 1
            self._is_part(session, given)
        if self.total >= TOTAL_MAX:
            self._is_part(session, given)
            return
        given.number += 1
        given.ids[id] = given.number
        self.total += 1
        if session.durable:
            self.orders.writes.append(Put("given", session.client, given.number, id))

    def end(self, session: Session) -> None:
        """Nobody has an older session any more."""
        if session.given is not None:
            self.erase(session)
            session.given = None
            self._store(session)

    def erase(self, session: Session) -> None:
        """Leave nothing on disk."""
        given, client = session.given, session.client
        if given is not None:
            self.total -= len(given.ids)
            self.orders.writes += [Drop("given", client, number) for number in given.ids.values()]
            given.ids.clear()
        self.orders.writes += [Drop("late", client, broker) for broker in session.late]
        session.late.clear()

    def recover(
        self, session: Session, memory: str, ids: Mapping[int | str, object], late: Mapping[int | str, object]
    ) -> None:
        """Find everything as it was, on this broker's disk or another's."""
        if not memory:
            return
        given = session.given = Given(memory == WHOLE)
        for number in sorted(ids, key=int):
            id = ids[number]
            assert isinstance(id, EventId)
            given.ids[id] = given.number = int(number)
        self.total += len(given.ids)
        for broker, taken in late.items():
            assert isinstance(taken, tuple)
            session.late[str(broker)] = taken

    def _is_part(self, session: Session, given: Given) -> None:
        if given.whole:
            given.whole = False
            self._store(session)

    def _store(self, session: Session) -> None:
        if session.stored and session.durable:
            self.orders.writes.append(Put("session", "", session.client, session.row()))
