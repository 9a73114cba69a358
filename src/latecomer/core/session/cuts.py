"""What sessions that came from another broker had there: nothing of it twice, and nothing that it lacks swallowed.

A session's *cut* says, per stream (`model/slots`), up to which event it had everything at the broker where it was. An
origin may send again what it had there, because somebody else has not reported it done. The first newer event of that
stream ends this, since this broker knows from then on what it has had itself. For what the old broker published itself
the cut has one entry for all its streams, which is kept where there are several.

If an origin was away when the session came, this broker may have had events of it which the old broker never got: they
were on their way there when the origin left. It sends them again when it is back. For this broker they are repetitions;
for a session that came *without* them they are not (`docs/protocol/hand-over.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from latecomer.core.clients import Clients, Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.orders import Orders
from latecomer.core.session.state import Session
from latecomer.model.event import Event
from latecomer.model.ids import BrokerId
from latecomer.model.slots import NEVER, Stamp, Stream, origin_of, reached


@dataclass(slots=True)
class Cuts:
    """The cuts of the sessions here."""

    orders: Orders
    clients: Clients
    stream: Callable[[Event], Stream]
    """The stream of an event."""
    give: Callable[[Session, Event, int], None]
    """A session gets an event."""

    def begin(
        self,
        session: Session,
        cut: Mapping[Stream, Stamp],
        newest: Mapping[Stream, Stamp],
        here: Container[BrokerId],
    ) -> None:
        """A session has come. `newest`: what this broker has had, per stream; `here`: who is in the tree."""
        session.cut = dict(cut)
        for stream, stamp in newest.items():
            if origin_of(stream) not in here and stamp > reached(cut, stream):
                session.cut.setdefault(stream, NEVER)
                session.without[stream] = None
        self._store(session)
        if session.without:
            self._store_without(session)
            self._enter(session)

    def recover(self, session: Session, disk: Disk) -> None:
        """Find the cut as it was."""
        cut = disk.get("cut", {}).get("", {}).get(session.client)
        session.cut = dict(cut) if isinstance(cut, dict) else {}
        without = disk.get("without", {}).get("", {}).get(session.client, ())
        assert isinstance(without, tuple)
        session.without = dict.fromkeys(without)
        self._enter(session)

    def take(self, session: Session, event: Event, hops: int) -> None:
        """An event that this broker has not had before."""
        cut = session.cut
        if event.reliable and cut:
            stream = self.stream(event)
            if (event.id.epoch, event.id.seq) <= reached(cut, stream):
                return
            if stream in cut:
                del cut[stream]
                self._store(session)
            if stream in session.without:
                self._leave(session, stream)
                self._store_without(session)
        self.give(session, event, hops)

    def take_again(self, session: Session, event: Event, hops: int) -> None:
        """An event that this broker has had, from an origin that was away when the session came."""
        stamp, stream = (event.id.epoch, event.id.seq), self.stream(event)
        if stamp > reached(session.cut, stream):
            session.cut[stream] = stamp
            self._store(session)
            self.give(session, event, hops)

    def end(self, session: Session) -> None:
        """The session has ended here, or left."""
        if session.without:
            for stream in list(session.without):
                self._leave(session, stream)
            self.orders.writes.append(Drop("without", "", session.client))
        if session.cut:
            session.cut.clear()
            self.orders.writes.append(Drop("cut", "", session.client))

    def _enter(self, session: Session) -> None:
        for stream in session.without:
            lacking = self.clients.lacking.setdefault(stream, {})
            lacking[session.client] = lambda event, hops: self.take_again(session, event, hops)

    def _leave(self, session: Session, stream: Stream) -> None:
        """Something newer of the stream has come: what the session came without has been sent before."""
        del session.without[stream]
        lacking = self.clients.lacking[stream]
        del lacking[session.client]
        if not lacking:
            del self.clients.lacking[stream]

    def _store(self, session: Session) -> None:
        if session.durable:
            self.orders.writes.append(Put("cut", "", session.client, dict(session.cut)))

    def _store_without(self, session: Session) -> None:
        if session.durable:
            self.orders.writes.append(Put("without", "", session.client, tuple(session.without)))
