"""Whatever happens while history is handed over: every event once, in order, the marker between past and present.

The test plays the network: events of each origin reach the stores and the client's broker in order, each at its own
pace. What was on its way when the subscription was made comes live, and the stores answer only when they have all that
does not. The client reads, goes and comes back; the broker crashes.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from latecomer.core.effects import Effect, Note
from latecomer.core.session.limits import SessionLimits
from latecomer.core.session.recall import REMEMBER_US
from latecomer.core.session.state import HISTORY_END
from latecomer.messages.mqtt import V5, V311, Publish, Request
from latecomer.model.event import Event
from latecomer.model.filters import filter_matches
from latecomer.model.history import Key, Outcome, key_of
from latecomer.model.ids import EventId
from latecomer.model.record import Kind, Record
from tests.unit.mqtt_hand import START_US, Wire
from tests.unit.recall_hand import Question, RecallHand

ORIGINS = ("o", "p")
SLOW_US = {"o": 0, "p": 7}
"""How far behind the clocks are."""
counts = st.integers(1, 4)
origins = st.sampled_from(ORIGINS)


class Answering:
    """How far a store has come with a question."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.place = question.query.after
        self.begun = False


class SeamHand(RecallHand):
    """Writes down what the broker noted."""

    def __init__(self, limits: SessionLimits) -> None:
        self.records: list[Record] = []
        super().__init__(limits=limits)

    def tell(self, fact: object) -> list[Effect]:
        effects = super().tell(fact)  # type: ignore[arg-type]
        self.records += [effect.record for effect in effects if isinstance(effect, Note)]
        return effects


class Seam(RuleBasedStateMachine):
    @initialize(
        version=st.sampled_from([V5, V311]),
        qos=st.sampled_from([0, 1, 2]),
        durable=st.booleans(),
        queue_messages=st.sampled_from([4, 10_000]),
        receive_maximum=st.sampled_from([1, 3, 1000]),
        last=st.sampled_from([0, 0, 1, 3]),
        beside=st.sampled_from(["", "t/a", "#"]),
        before=st.lists(st.tuples(origins, st.sampled_from("ab"), st.sampled_from([0, 1, 2])), max_size=6),
        stored=st.integers(0, 3),
        on_the_way=st.integers(0, 3),
    )
    def begin(
        self,
        version: int,
        qos: int,
        durable: bool,
        queue_messages: int,
        receive_maximum: int,
        last: int,
        beside: str,
        before: list[tuple[str, str, int]],
        stored: int,
        on_the_way: int,
    ) -> None:
        self.hand = SeamHand(SessionLimits(queue_messages=queue_messages, inflight=receive_maximum))
        self.version, self.qos, self.durable, self.last, self.beside = version, qos, durable, last, beside
        self.ticks = 0
        self.events: dict[str, list[Event]] = {origin: [] for origin in ORIGINS}
        self.stored = dict.fromkeys(ORIGINS, 0)
        self.answering: dict[int, Answering] = {}
        self.got: list[Publish] = []
        self.interrupted = self.crashed = False
        self.wire: Wire | None = self.connect()
        self.live_next: dict[str, int] = {}
        for origin, topic, published_qos in before:
            self.publish(origin, topic, published_qos)
        for origin in ORIGINS:
            self.store(origin, stored)
        self.text = f"$history/{f'last={last}' if last else 'since=0'}/t/#"
        requests = [Request(self.text, qos)] + ([Request(beside, 1)] if beside else [])
        self.wire.subscribe(*requests)
        for origin in ORIGINS:
            self.live_next[origin] = max(0, len(self.events[origin]) - on_the_way)
        self.cut = dict(self.live_next)

    def connect(self) -> Wire:
        return self.hand.durable("s", self.version) if self.durable else self.hand.client("s", self.version)

    # -- the network -------------------------------------------------------------------------------------------------

    @rule(origin=origins, topic=st.sampled_from("aab"), qos=st.sampled_from([0, 1, 1, 2]))
    def publish(self, origin: str, topic: str, qos: int) -> None:
        self.ticks += 1
        seq = len(self.events[origin]) + 1
        at_us = START_US - 1_000 + self.ticks - SLOW_US[origin]
        payload = f"{origin}{seq}".encode()
        event = Event(EventId(origin, 1, seq), f"t/{topic}", "far", at_us, qos > 0, {}, payload, qos)
        self.events[origin].append(event)

    @rule(origin=origins, count=counts)
    def store(self, origin: str, count: int) -> None:
        self.stored[origin] = min(len(self.events[origin]), self.stored[origin] + count)

    @rule(origin=origins, count=counts)
    def arrive(self, origin: str, count: int) -> None:
        for event in self.events[origin][self.live_next[origin] :][:count]:
            self.hand.live(event)
            self.live_next[origin] += 1
            self.hand.stores.arrived[origin] = event.id.seq

    @rule(count=counts)
    def answer(self, count: int) -> None:
        """The stores go on with a question, if they may."""
        for question in self.hand.stores.questions:
            if question.cancelled or question.ended or not question.idle or not self.settled(question):
                continue
            answering = self.answering.setdefault(id(question), Answering(question))
            found = self.found(answering)[:count]
            if found:
                answering.place = key_of(found[-1])
                self.catch_up(found)
                question.give(*found)
            else:
                question.finish(Outcome(("s1",), 1))
            return

    def catch_up(self, found: list[Event]) -> None:
        """What a store has not told, and will not tell before something newer of the same origin, has come live: both
        have taken the same way."""
        told = {record.event for record in self.hand.records if record.kind is Kind.REPLAYED}
        for event in found:
            origin = event.id.origin
            told.add(str(event.id))
            due = self.events[origin][self.live_next[origin] : event.id.seq - 1]
            late = [place for place, other in enumerate(due, 1) if str(other.id) not in told]
            if late:
                self.arrive(origin, late[-1])

    def settled(self, question: Question) -> bool:
        """What came here before the question was asked, or does not come at all, a store has before it answers."""
        due = [*question.arrived.items(), *self.cut.items()]
        return all(self.stored[origin] >= count for origin, count in due)

    def found(self, answering: Answering) -> list[Event]:
        query = answering.question.query
        kept = [event for origin in ORIGINS for event in self.events[origin][: self.stored[origin]]]
        place: Key | None = answering.place
        found = sorted(
            (
                event
                for event in kept
                if filter_matches(query.filter, event.topic, {})
                and event.published_us >= query.since_us
                and (place is None or key_of(event) > place)
            ),
            key=key_of,
        )
        if query.last and not answering.begun:
            found = found[-query.last :]
        answering.begun = True
        return found

    # -- the client --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.wire is not None)
    @rule(count=counts)
    def read(self, count: int) -> None:
        wire = self.wire
        assert wire is not None
        for _ in range(count):
            if not wire.inbox:
                return
            packet = wire.inbox.pop(0)
            assert isinstance(packet, Publish), packet
            self.got.append(packet)
            wire.ack(packet)

    @precondition(lambda self: self.durable)
    @rule(what=st.sampled_from(["lost", "polite", "crash"]))
    def break_off(self, what: str) -> None:
        self.interrupted = True
        if what == "crash":
            self.crashed = True
            self.hand.restart()
        elif self.wire is not None:
            self.wire.lose() if what == "lost" else self.wire.disconnect()
        self.wire = None

    @precondition(lambda self: self.wire is None)
    @rule()
    def come_back(self) -> None:
        self.wire = self.connect()
        assert self.wire.connack.session_present

    @rule(ms=st.integers(1, 50))
    def time_passes(self, ms: int) -> None:
        self.hand.wait(ms * 1000)

    # -- the promises ------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "cut"):
            return
        if self.wire is None:
            self.come_back()
        while not all(question.ended or question.cancelled for question in self.hand.stores.questions):
            for origin in ORIGINS:
                self.store(origin, 1)
                self.arrive(origin, 1)
            self.answer(3)
            self.read(5)
            self.hand.wait(1000)
        for origin in ORIGINS:
            self.arrive(origin, len(self.events[origin]))
        while self.wire is not None and self.wire.inbox:
            self.read(5)
        self.check_once()
        self.check_order()
        self.check_marker()
        self.check_all()
        session = self.hand.session("s")
        assert not session.queue
        assert session.past is None or not session.past.held
        assert self.hand.rows("held") == self.hand.rows("queue") == 0
        self.hand.wait(2 * REMEMBER_US)
        assert session.past is None
        assert self.hand.rows("recall") == 0

    def names(self) -> list[str]:
        return [packet.payload.decode() for packet in self.got if packet.topic != HISTORY_END]

    def check_once(self) -> None:
        names = self.names()
        assert len(names) == len(set(names)), names

    def check_order(self) -> None:
        """In each lane by number, as published. A subscription beside, that did not ask for the last ones only, gets
        what is older than those behind them; and where it grants another QoS, QoS 0 may overtake the rest, as it may
        without history."""
        by_name = {event.payload.decode(): event for lane in self.events.values() for event in lane}
        got = [(by_name[packet.payload.decode()], packet.qos) for packet in self.got if packet.topic != HISTORY_END]
        end = next((place for place, packet in enumerate(self.got) if packet.topic == HISTORY_END), 0)
        for part in (got[:end], got[end:]) if self.last and self.beside else (got,):
            lanes: dict[tuple[str, bool, int], list[int]] = {}
            for event, qos in part:
                key = (event.id.origin, event.reliable, qos if self.beside else 0)
                lanes.setdefault(key, []).append(event.id.seq)
            for lane, numbers in lanes.items():
                assert numbers == sorted(numbers), (lane, self.names())

    def check_marker(self) -> None:
        """One. What is behind it does not come from history; what is before it does, or is live and was in front of
        something from history in its lane."""
        places = [place for place, packet in enumerate(self.got) if packet.topic == HISTORY_END]
        assert len(places) == 1 or (not places and self.qos == 0 and self.interrupted)
        if places and self.version == V5:
            told = [bool(packet.properties.user) for packet in self.got if packet.topic != HISTORY_END]
            assert not any(told[places[0] :])
            before = list(zip(self.names(), told, strict=True))[: places[0]]
            for place, (name, from_history) in enumerate(before):
                in_front = any(later[0] == name[0] and old for later, old in before[place + 1 :])
                again = len(self.hand.stores.questions) > 1  # what was held beside a gap comes in its turn as well
                assert from_history or in_front or again, before
        kinds = [r.kind for r in self.hand.records if r.kind in (Kind.REPLAYED, Kind.RECALLED, Kind.DELIVERED)]
        end = kinds.index(Kind.RECALLED)
        assert kinds.count(Kind.RECALLED) == 1
        assert Kind.REPLAYED not in kinds[end:]

    def check_all(self) -> None:
        """Nothing is missing but what may be."""
        names = self.names()
        notes = [r for r in self.hand.records if r.kind is Kind.DROPPED]
        dropped = {note.event for note in notes}
        replayed = [r.event for r in self.hand.records if r.kind is Kind.REPLAYED]
        assert {note.detail for note in notes} <= {"queue full"}
        assert not dropped & set(replayed), "the past was dropped"
        for origin in ORIGINS:
            turns = [int(event.rsplit(".", 1)[1]) for event in replayed if event.startswith(f"{origin}.")]
            for position, event in enumerate(self.events[origin]):
                if event.payload.decode() in names or str(event.id) in dropped:
                    continue
                if self.interrupted and min(event.qos, self.qos) == 0:
                    continue  # QoS 0 is for those who are there
                if self.last and (position < self.cut[origin] or event.id.seq < max(turns, default=0)):
                    continue  # not among the last ones, when its turn was
                raise AssertionError(f"{event.payload.decode()} is missing in {names}")


TestSeam = Seam.TestCase
TestSeam.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
