"""Sessions that move while their clients are away: operators want it, or clients say where they go.

Also what an operator says of a promise to a broker that will not come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.mobility.arrival import Arrivals
from latecomer.core.mobility.departure import Departures
from latecomer.core.passage import Passage
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Refusal, Session
from latecomer.messages.hand_over import Fetch
from latecomer.messages.mqtt import Reason
from latecomer.model.ids import BrokerId, ClientId

NEXT = "next-broker"
"""The user property of a DISCONNECT that names the broker to which the client goes."""


@dataclass(slots=True)
class Wishes:
    """Carries out what operators and clients want."""

    broker: BrokerId
    passage: Passage
    sessions: Sessions
    arrivals: Arrivals
    departures: Departures
    is_there: Callable[[BrokerId], bool] = field(init=False)
    begin: Callable[[Fetch], None] = field(init=False)
    """Fetch a session of a user from a broker, while its client is away."""
    left: Callable[[Session], None] = field(init=False)
    """A client has gone, and has not said where."""
    promise_kept: Callable[[ClientId], None] = field(init=False)
    reference: Callable[[Session, BrokerId], str] = field(init=False)
    """The Server Reference that sends a client to another broker; empty: there is none for it."""
    stays_home: Callable[[Session], bool] = field(init=False)
    """Whether a session does not follow its client."""

    def problem_of_move(self, client: ClientId, to: BrokerId) -> str:
        """Why a session cannot move to another broker now; empty: it can. Changes nothing."""
        session = self.sessions.by_client.get(client)
        if session is None:
            return f"{self.broker} has no session of {client}"
        if not session.durable:
            return f"the session of {client} ends with its connection: it has nothing to take along"
        if client in self.departures.promises:
            return f"the session of {client} is promised to {self.departures.promises[client].attempt.broker} already"
        if to == self.broker or not self.is_there(to):
            return f"there is no way from {self.broker} to {to} now"
        return ""

    def move(self, client: ClientId, to: BrokerId) -> None:
        """Have another broker take a session over, if that is possible; a connected client has to go first."""
        session = self.sessions.at_home(client)
        if session is None or self.problem_of_move(client, to):
            return
        if session.connection:
            reference = self.reference(session, to)
            self.sessions.fail(session, Reason.USE_ANOTHER_SERVER, f"the session moves to {to}", reference)
        self.passage.send(to, Fetch(self.broker, to, client, session.user))

    def announced(self, session: Session, words: tuple[tuple[str, str], ...]) -> None:
        """A client has said goodbye, and perhaps where it goes: its session goes ahead (*mobility*: prefetching). If it
        goes elsewhere, the session is found as any other."""
        to = next((value for name, value in words if name == NEXT), "")
        stays = self.sessions.by_client.get(session.client) is session
        if not to and stays:
            self.left(session)
        elif self.stays_home(session):
            return
        elif to != self.broker and stays and session.durable and self.is_there(to):
            self.passage.send(to, Fetch(self.broker, to, session.client, session.user, ahead=True))

    def on_fetch(self, frame: Fetch) -> None:
        """The owner wants this broker to have a session while its client is away."""
        client = frame.client
        if client not in self.sessions.by_client and client not in self.arrivals.by_client:
            try:
                self.begin(frame)
            except Refusal:
                return  # it stays where it is

    def problem_of_end(self, client: ClientId) -> str:
        """Why a session cannot be ended here now; empty: it can. What is promised may be at the other broker already:
        ended here, it would live on there, and its will be published twice."""
        promise = self.departures.promises.get(client)
        if promise is None:
            return ""
        to = promise.attempt.broker
        return f"the session of {client} is promised to {to}: end it there, or take it back first"

    def problem_of_release(self, client: ClientId) -> str:
        """Why a session cannot be taken back from the broker that it was promised to; empty: it can."""
        if client not in self.departures.promises:
            return f"{self.broker} has promised no session of {client} to anybody"
        return ""

    def release(self, client: ClientId) -> None:
        """The broker that was promised a session will not come back."""
        if not self.problem_of_release(client):
            self.departures.release(client)
            self.promise_kept(client)
