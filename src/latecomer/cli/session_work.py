"""Finding and moving sessions over the admin interfaces of brokers; nothing is printed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from latecomer.cli.doors import Door, Refused, call
from latecomer.model.errors import LatecomerError
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.topology import quoted
from latecomer.runtime.admin_views import Overview, Page
from latecomer.runtime.session_views import SessionView

PART = 1000
LOOK_SECONDS = 0.1
AGAIN_SECONDS = 5.0
"""After this time without effect, a broker is asked again to move a session."""


class Moved(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """What came of moving a session."""

    client: ClientId
    source: BrokerId
    to: BrokerId
    moved: bool
    seconds: float = 0.0
    problem: str = ""
    """Why it has not moved."""


@dataclass(slots=True)
class Found:
    """What brokers say about sessions."""

    views: list[tuple[SessionView, Door]] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    """A sentence for each broker that did not answer."""

    @property
    def owner(self) -> tuple[SessionView, Door] | None:
        """The broker that has the session; if two say so, the one where the client is connected."""
        owners = [(view, door) for view, door in self.views if view.where not in ("arriving", "visiting")]
        return max(owners, key=lambda each: each[0].connected, default=None)

    def at(self, broker: BrokerId) -> SessionView | None:
        return next((view for view, _ in self.views if view.broker == broker), None)


def sessions_at(door: Door, client: ClientId = "") -> Iterator[SessionView]:
    """The sessions that one broker has or expects, or those of one client."""
    after = ""
    while True:
        query = {"client": client} if client else {"after": after, "limit": str(PART)}
        page = call(door, "sessions", Page[SessionView], query)
        yield from page.items
        after = page.next
        if not after:
            return


def find(doors: Sequence[Door], client: ClientId = "") -> Found:
    """The sessions at all these brokers."""
    found = Found()
    for door in doors:
        try:
            found.views += [(view, door) for view in sessions_at(door, client)]
        except LatecomerError as error:
            found.silent.append(str(error))
    return found


def named(doors: Sequence[Door]) -> tuple[dict[BrokerId, Door], list[str]]:
    """Which broker is behind which admin interface; and a sentence for each that does not answer."""
    names: dict[BrokerId, Door] = {}
    silent: list[str] = []
    for door in doors:
        try:
            names[call(door, "overview", Overview).broker] = door
        except LatecomerError as error:
            silent.append(str(error))
    return names, silent


def ask_to_move(door: Door, client: ClientId, to: BrokerId, *, gently: bool = False) -> None:
    """Raises `Refused` if the broker says that it cannot."""
    body = {"client": client, "to": to, **({"gently": True} if gently else {})}  # older brokers do not know the word
    call(door, "move-session", dict[str, str], body=body)


def move(
    doors: Sequence[Door],
    client: ClientId,
    to: BrokerId,
    wait_seconds: float,
    tell: Callable[[str], None] = lambda sentence: None,
    *,
    gently: bool = False,
) -> Moved | None:
    """Move a client's session, and wait until the other broker has it; None: no broker that answers has it."""
    found = find(doors, client)
    if found.owner is None:
        if found.silent:
            raise LatecomerError(f"the session of {quoted(client)} was not found: {'; '.join(found.silent[:3])}")
        return None
    view, door = found.owner
    if view.broker == to:
        return Moved(client, to, to, True)
    began = time.monotonic()
    if (view.where, view.partner) not in (("leaving", to), ("promised", to)):
        ask_to_move(door, client, to, gently=gently)
    if not wait_seconds:
        return Moved(client, view.broker, to, False, problem="it was asked for, and not waited for")
    known = to in named(doors)[0]
    problem = _wait(_Wait(doors, door, client, view.broker, to, known, began + wait_seconds), tell)
    return Moved(client, view.broker, to, not problem, round(time.monotonic() - began, 3), problem)


@dataclass(slots=True)
class _Wait:
    """A move that is waited for."""

    doors: Sequence[Door]
    door: Door
    """Of the old broker."""
    client: ClientId
    source: BrokerId
    to: BrokerId
    known: bool
    """The new broker can be asked whether it has the session; otherwise the old one must have it no more."""
    until: float

    def is_done(self, found: Found) -> bool:
        if not self.known:
            return not found.silent and found.at(self.source) is None
        there = found.at(self.to)
        return there is not None and there.where != "arriving"


def _wait(wanted: _Wait, tell: Callable[[str], None]) -> str:
    """Until the session has moved; otherwise the reason why it has not."""
    asked_at = time.monotonic()
    while True:
        found = find(wanted.doors, wanted.client)
        if wanted.is_done(found):
            return ""
        here = found.at(wanted.source)
        if here is not None and here.where == "here":
            if here.connected:
                return f"its client has connected to {wanted.source} again"
            if time.monotonic() - asked_at >= AGAIN_SECONDS:
                asked_at = time.monotonic()
                try:
                    ask_to_move(wanted.door, wanted.client, wanted.to)
                except Refused as error:
                    return str(error)
        tell(state_of(found, wanted.client))
        if time.monotonic() >= wanted.until:
            return f"{state_of(found, wanted.client)}; it may still move"
        time.sleep(LOOK_SECONDS)


def state_of(found: Found, client: ClientId) -> str:
    """Where a session is, as a sentence."""
    for view, _ in found.views:
        if view.waits_for:
            return f"{view.broker} waits for {view.waits_for}, which is away, before it can take the session over"
    if found.owner is None:
        return f"no broker that answers has the session of {quoted(client)}"
    view, _ = found.owner
    sentences = {
        "leaving": f"{view.broker} sends it to {view.partner}",
        "promised": f"{view.broker} has sent it to {view.partner}, which has not confirmed it",
    }
    return sentences.get(view.where, f"{view.broker} has it")
