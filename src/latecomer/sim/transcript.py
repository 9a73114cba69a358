"""What happened, one line per step.

       0.002000  3 -> 5   subscribe a/#
       0.003000  5 -> 6   publication 1.1.7 a/b
       0.004000  6 delivered 1.1.7 a/b to A (4 hops)

Lines come from the messages on the links and from the records that brokers note, and from nothing else. Payloads are
never shown, and names cannot steer a terminal: what is not printable is escaped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from latecomer.messages.hand_over import Whereabouts, WhereaboutsKept
from latecomer.messages.link import (
    Adopted,
    Advertise,
    AdvertisementsComplete,
    Alive,
    Compare,
    Compared,
    Complete,
    Confirm,
    Credit,
    Done,
    Errand,
    ErrandAnswer,
    Fence,
    Fenced,
    Hello,
    Keeping,
    LinkMessage,
    LinkStates,
    Lost,
    Publication,
    Request,
    Response,
    ResponseEnd,
    Retained,
    RetainedSummary,
    Run,
    Settled,
    Sharing,
    SharingChange,
    StoreAdvertise,
    StoreWithdraw,
    Subscribe,
    Summary,
    Unadvertise,
    Unsubscribe,
    Void,
)
from latecomer.messages.reposition import Positions, PositionsKnown, Prepared, Proposal, Withdrawn
from latecomer.model.filters import Filter
from latecomer.model.history import Query
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.disk import Disk
from latecomer.sim.hand_over_text import HAND_OVER
from latecomer.sim.homes_text import HOMES
from latecomer.sim.ring_text import RING, ROUTINE

CHATTER = (
    *HOMES,
    Whereabouts,
    WhereaboutsKept,
    Fence,
    Fenced,
    Hello,
    Alive,
    Summary,
    LinkStates,
    Adopted,
    AdvertisementsComplete,
    Complete,
    Confirm,
    Done,
    Settled,
    Keeping,
    Credit,
    Compare,
    Compared,
    Void,
    *ROUTINE,
)
"""Messages that keep the network in order and tell no story."""
QUIET_RECORDS = (Kind.TREE_ADOPTED,)

VERSION_SHOWN = 8


def plain(text: str) -> str:
    """A name from outside, safe for a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def time_of(at_us: Instant) -> str:
    """Seconds with microseconds, aligned; no floating point, so that it is exact."""
    sign, rest = ("-", -at_us) if at_us < 0 else ("", at_us)
    return f"{f'{sign}{rest // 1_000_000}':>5}.{rest % 1_000_000:06}"


# -- messages


def message_text(message: LinkMessage, begin_us: Instant = 0) -> str:
    """A message in words, names as they are; `begin_us` is when time begins to count."""
    if isinstance(message, Request):  # the only one that tells of times
        return _request(message, begin_us)
    return _MESSAGES[type(message)](message)


def message_line(
    at_us: Instant, sender: BrokerId, receiver: BrokerId, message: LinkMessage, begin_us: Instant = 0
) -> str:
    """One message leaving for a neighbour."""
    way = f"{plain(sender)} -> {plain(receiver)}"
    return f"{time_of(at_us - begin_us)}  {way:<8}  {plain(message_text(message, begin_us))}"


def message_name(kind: type) -> str:
    """As the message is called on the wire."""
    return str(kind.__struct_config__.tag)  # type: ignore[attr-defined]


def _hello(m: Hello) -> str:
    known = f", knows {m.known_boot}.{m.known_number} and has {m.received} frames" if m.known_boot else ""
    return f"hello from {m.boot}.{m.number}{known}"


def _link_states(m: LinkStates) -> str:
    states = (f"{s.broker} [{' '.join(n.broker for n in s.neighbours)}]" for s in m.states)
    return f"link-states {', '.join(states)}"


def _publication(m: Publication) -> str:
    event = m.event
    parts = [f"publication {event.id} {event.topic}"]
    if event.attributes:
        parts.append(attributes_text(event.attributes))
    if event.payload:
        parts.append(f"({len(event.payload)} bytes)")
    if not event.reliable:
        parts.append("unreliable")
    if m.only:
        parts.append(f"only for {' '.join(m.only)}")
    if m.flooded:
        parts.append("to everybody")
    return " ".join(parts)


def attributes_text(attributes: Mapping[str, object]) -> str:
    """As a content filter would write them."""
    shown = (f"{name} = {_value(value)}" for name, value in attributes.items())
    return f"{{{', '.join(shown)}}}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _filters(word: str) -> Callable[[Any], str]:
    def text(m: Subscribe | Unsubscribe | Advertise | Unadvertise) -> str:
        filters: Iterable[Filter] = m.filters
        return f"{word} {', '.join(map(str, filters))}"

    return text


def _request(m: Request, begin_us: Instant) -> str:
    parts = [f"request {m.id} {m.query.filter}"]
    if m.topics != m.query.filter.topic:
        parts.append(f"in {m.topics}")
    parts += _stretch(m.query, begin_us)
    if m.store:
        parts.append(f"at {m.store}")
    if m.client:
        parts.append(f"for {m.client}")
    return " ".join((*parts, "by", *m.path))


def _stretch(query: Query, begin_us: Instant) -> list[str]:
    """Which part of the past a query is about."""
    parts = []
    if query.since_us:
        parts.append(f"since {time_of(query.since_us - begin_us).strip()}")
    if query.until_us:
        parts.append(f"until {time_of(query.until_us - begin_us).strip()}")
    if query.last:
        parts.append(f"last {query.last}")
    if query.after is not None:
        key = query.after
        parts.append(f"after {key.origin}.{key.epoch}.{key.seq}")
    return parts


def _store_advertise(m: StoreAdvertise) -> str:
    entries = (f"{topics} ({_count(hops, 'hop')})" for topics, hops in m.entries)
    return f"store-advertise {', '.join(entries)}"


def _response_end(m: ResponseEnd) -> str:
    worth = ("incomplete" if m.problem else "complete") + ("" if m.final else " for now")
    end = f"response-end {m.id} {worth}, {_count(m.hops, 'hop')}"
    return f"{end}: {m.problem}" if m.problem else end


def _keeping(m: Keeping) -> str:
    return f"keeping of {m.broker}{' (filling)' if m.filling else ''}: {', '.join(m.topics)}"


def _prepared(m: Prepared) -> str:
    problem = f", no: {m.problem}" if m.problem else ""
    return f"prepared from {m.from_broker} to {m.to}: {m.stamp}{problem}"


def _errand_answer(m: ErrandAnswer) -> str:
    answer = f"errand-answer of {m.from_broker} for {m.to}"
    return f"{answer}: {m.problem}" if m.problem else answer


def _compared(m: Compared) -> str:
    found = f"compared with {m.store} for {m.to}, {_count(len(m.slices), 'slice')}"
    return f"{found}: {m.problem}" if m.problem else found


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


_MESSAGES: dict[type, Callable[[Any], str]] = {
    Hello: _hello,
    Alive: lambda m: f"alive, has {m.received} frames",
    Summary: lambda m: f"summary of {len(m.entries)} brokers",
    LinkStates: _link_states,
    Adopted: lambda m: f"adopted tree {m.version[:VERSION_SHOWN]}",
    AdvertisementsComplete: lambda m: f"advertisements-complete for tree {m.version[:VERSION_SHOWN]}",
    Complete: lambda m: f"complete for tree {m.version[:VERSION_SHOWN]}",
    Fence: lambda m: f"fence {m.number} in tree {m.version}",
    Fenced: lambda m: f"fenced {m.number}",
    Confirm: lambda m: f"confirm {m.number}",
    Subscribe: _filters("subscribe"),
    Unsubscribe: _filters("unsubscribe"),
    Advertise: _filters("advertise"),
    Unadvertise: _filters("unadvertise"),
    Publication: _publication,
    RetainedSummary: lambda m: f"retained-summary {m.digest:016x}",
    Retained: lambda m: f"retained {' '.join(event.topic for event in m.events)}",
    Sharing: lambda m: f"sharing of {m.broker}: {' '.join(f'{g}/{f} ×{n}' for g, f, n in m.entries)}",
    SharingChange: lambda m: f"sharing-change of {m.broker}: {' '.join(f'{g}/{f} ×{n}' for g, f, n in m.entries)}",
    Run: lambda m: f"run of {len(m.frames)} bytes from {m.publisher}",
    StoreAdvertise: _store_advertise,
    StoreWithdraw: lambda m: f"store-withdraw {', '.join(m.topics)}",
    Settled: lambda m: f"settled for tree {m.version[:VERSION_SHOWN]}",
    Lost: lambda m: f"lost for {m.broker}",
    Response: lambda m: f"response {m.id} {_count(len(m.events), 'event')} by {' '.join(m.path)}",
    ResponseEnd: _response_end,
    Credit: lambda m: f"credit {m.id} of {_count(m.credit, 'response')} to {m.store}",
    Keeping: _keeping,
    Compare: lambda m: f"compare {m.topics} with {m.store} for {m.from_broker}",
    Compared: _compared,
    Errand: lambda m: f"errand of {m.from_broker} to {m.to}",
    ErrandAnswer: _errand_answer,
    **HAND_OVER,
    **HOMES,
    **RING,
    Positions: lambda m: f"positions {m.stamp} of {_count(len(m.places), 'broker')}",
    PositionsKnown: lambda m: f"positions-known {m.stamp}",
    Proposal: lambda m: f"proposal {m.stamp} of {_count(len(m.places), 'broker')}, after {m.base}",
    Prepared: _prepared,
    Withdrawn: lambda m: f"withdrawn {m.stamp}",
    Void: lambda m: "void",
    Done: lambda m: f"done {m.origin}.{m.epoch}: {' '.join(map(str, m.seqs))}",
}


# -- records


def record_text(record: Record) -> str:
    """A record in words, names as they are."""
    tell = _RECORDS.get(record.kind)
    return tell(record) if tell is not None else _any_record(record)


def record_line(record: Record, begin_us: Instant = 0) -> str:
    """One record; `begin_us` is when time begins to count."""
    return f"{time_of(record.at_us - begin_us)}  {plain(record.broker)} {plain(record_text(record))}"


def _any_record(r: Record) -> str:
    """A kind this file does not know: everything it says."""
    shown = (r.client, r.topic, r.filter, r.event, r.peer, r.detail, str(r.count) if r.count else "")
    return " ".join((r.kind, *(text for text in shown if text)))


def _hops(r: Record) -> str:
    return "" if r.hops < 0 else f" ({_count(r.hops, 'hop')})"


def _answered(r: Record) -> str:
    """What an answer from the past was worth."""
    events = _count(r.count, "event")
    worth = f" ({events})" if r.hops < 0 else f" ({_count(r.hops, 'hop')}, {events})"
    return f"{worth}: {r.detail}" if r.detail else worth


def _brokers(r: Record) -> str:
    return _count(r.count, "broker")


def _waiting(r: Record) -> str:
    return f", {r.count} waiting" if r.count else ""


_RECORDS: dict[Kind, Callable[[Record], str]] = {
    Kind.STARTED: lambda r: f"started (epoch {r.count})",
    Kind.SUBSCRIBED: lambda r: f"subscribed {r.client} to {r.filter}",
    Kind.UNSUBSCRIBED: lambda r: f"unsubscribed {r.client} from {r.filter}",
    Kind.ADVERTISED: lambda r: f"advertised {r.filter} for {r.client}",
    Kind.UNADVERTISED: lambda r: f"unadvertised {r.filter} for {r.client}",
    Kind.CONNECTED: lambda r: f"connected {r.client}{_waiting(r)}",
    Kind.DISCONNECTED: lambda r: f"disconnected {r.client}",
    Kind.PUBLISHED: lambda r: f"published {r.event} {r.topic} for {r.client}",
    Kind.REFUSED: lambda r: f"refused {r.topic} from {r.client}: {r.detail}",
    Kind.DELIVERED: lambda r: f"delivered {r.event} {r.topic} to {r.client}{_hops(r)}",
    Kind.DROPPED: lambda r: f"dropped {r.event} {r.topic}{f' of {r.client}' if r.client else ''}: {r.detail}",
    Kind.PARKED: lambda r: f"parked {r.event} for {r.detail}",
    Kind.LINKED: lambda r: f"linked to {r.peer}",
    Kind.UNLINKED: lambda r: f"unlinked from {r.peer}",
    Kind.REJECTED: lambda r: f"rejected {r.peer}: {r.detail}",
    Kind.TREE_ADOPTED: lambda r: f"adopted a tree of {_brokers(r)} ({r.detail[:VERSION_SHOWN]})",
    Kind.TREE_READY: lambda r: f"ready in a tree of {_brokers(r)}",
    Kind.FORGOTTEN: lambda r: f"forgot {r.peer} and {r.count} events kept for it",
    Kind.KEEPING: lambda r: f"keeping {r.filter}",
    Kind.NOT_KEEPING: lambda r: f"not keeping {r.filter}",
    Kind.TABLED: lambda r: f"tabled {r.filter} by {r.peer}: {r.detail}{_hops(r)}",
    Kind.REQUESTED: lambda r: f"requested {r.filter} for {r.client}",
    Kind.SERVED: lambda r: f"served {r.filter} to {r.peer}{_answered(r)}",
    Kind.RECALLED: lambda r: f"recalled {r.filter} for {r.client} from {r.peer or 'nobody'}{_answered(r)}",
    Kind.MOVED: lambda r: f"moved {r.client} here from {r.peer}{_waiting(r)} ({r.detail})",
    Kind.RESTORED: lambda r: f"restored {r.count} subscriptions of {r.client}, which was at {r.peer} ({r.detail})",
    Kind.PROPOSED: lambda r: f"proposed positions of {_brokers(r)} ({r.detail})",
    Kind.WITHDRAWN: lambda r: f"withdrew its proposal {r.detail}",
    Kind.POSITIONED: lambda r: f"took positions of {_brokers(r)} ({r.detail})",
    Kind.ADVISED: lambda r: f"would have {r.client} at {r.peer}: {r.detail}",
    Kind.SENT_ON: lambda r: f"sent {r.client} to {r.peer}: {r.detail}",
    Kind.REPLAYED: lambda r: f"replayed {r.event} {r.topic} to {r.client}",
}


# -- observers


class Transcript:
    """Hands every line to `write` as it happens; without `chatter` only those that tell the story."""

    def __init__(self, write: Callable[[str], None], *, chatter: bool = False) -> None:
        self.write = write
        self.chatter = chatter
        self.begin_us: Instant = 0
        """When time begins to count: what comes before is told with negative times."""
        self.silent = False

    def say(self, at_us: Instant, text: str) -> None:
        """Something that is neither message nor record: a fault, a client in vain."""
        if not self.silent:
            self.write(f"{time_of(at_us - self.begin_us)}  {plain(text)}")

    def noted(self, record: Record) -> None:
        if not self.silent and (self.chatter or record.kind not in QUIET_RECORDS):
            self.write(record_line(record, self.begin_us))

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        if self.silent:
            return
        for frame in frames:
            if self.chatter or not isinstance(frame, CHATTER):
                self.write(message_line(now, sender, receiver, frame, self.begin_us))

    def crashed(self, broker: BrokerId, disk: Disk, keeps_disk: bool) -> None:
        """Told by whoever caused it, with the time."""


class Digest(Transcript):
    """Every line of the run, as one number: equal digests, equal runs."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        super().__init__(self._add, chatter=True)

    def _add(self, line: str) -> None:
        self._hash.update(line.encode("utf-8", "backslashreplace") + b"\n")

    def value(self) -> str:
        return self._hash.hexdigest()
