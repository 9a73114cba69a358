"""Retrieval: Request and Response of *storing* §III, from the asking broker to the nearest store and back.

Theory of operation. A request and its answer hold only while the tree is ready (`carriage`). When the tree goes, all
answers under way go with it, and the asking broker asks again in the next tree for what stands behind the last event
it has handed on. The place of an event is the same in every store, so whichever store is nearest then can go on.

Flow. A store sends as many responses as it has credit for. Credit is given when what came was handed on, so an answer
takes the pace of who reads it, and nowhere holds more than `WINDOW` responses.

Several classes. Where no single class holds all that a filter asks for, one request goes out for each, and the
answers are merged by place; an event that two classes hold comes once.

The last events. How many are wanted decides only where an answer begins. What reaches the store while it is being given
comes as well: cutting the answer off at a number would cut off its newest events, which come in no other way. Where it
begins is known once some of it has come, and who goes on asks for whatever stands behind. Only if it came from a part
of the classes, and others are asked now, the answer begins anew there, with as many as are still owed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from latecomer.core.advertisements import Advertisements
from latecomer.core.carriage import Carriage
from latecomer.core.debts import Debts
from latecomer.core.effects import Answer
from latecomer.core.inputs import Requested
from latecomer.core.inquiry import WINDOW, Inquiry, Part
from latecomer.core.interest import Interest
from latecomer.core.orders import Orders
from latecomer.core.outbox import Outbox
from latecomer.core.retained import with_expiry
from latecomer.core.seen import Seen
from latecomer.core.table import SELF
from latecomer.messages.link import Credit, Request, RequestId, Response, ResponseEnd
from latecomer.model.event import Event
from latecomer.model.history import NOT_SO_FAR, Key, Outcome, Query, key_of
from latecomer.model.ids import NUMBER_MAX, BrokerId, ClientId, EventId, Instant
from latecomer.model.record import Kind
from latecomer.model.slots import NEVER

PATIENCE_US = 30_000_000
"""How long a store may be silent before another is asked."""
PAUSE_US = 200_000
"""Before a store that could not answer is asked again."""
RETURN_US = 15_000_000
"""How long a store that is expected back is waited for."""
ATTEMPTS_MAX = 5
"""Questions without any answer before the client is told so."""
PARTIAL = "no store keeps all of these topics"


@dataclass(slots=True)
class Retrieval:
    """The requests of this broker, and those that pass through it."""

    broker: BrokerId
    orders: Orders
    interest: Interest
    advertisements: Advertisements
    carriage: Carriage
    outbox: Callable[[], Outbox]
    """Of this broker: what its own clients published."""
    expects: Callable[[str, bool], bool] = field(init=False)
    """Whether somebody who keeps, or kept, some of a topic filter, or all of it, may be about to answer for it."""
    complete_since: Callable[[BrokerId, str], Instant | None] = field(init=False)
    """From when on a store has everything of a class, as it says itself, if it says that it keeps it."""
    seen: Callable[[], Seen] = field(init=False)
    absent: Callable[[], Iterable[BrokerId]] = field(init=False)
    """Known brokers that are away."""
    may_receive: Callable[[str, ClientId, str], bool] = field(init=False)
    """Whether a user may have the past of a topic."""
    replicas: Callable[[BrokerId, str], list[BrokerId]] = field(init=False)
    """The other stores that answer for some topics."""
    debts: Debts = field(default_factory=Debts)
    inquiries: dict[int, Inquiry] = field(default_factory=dict)
    parts: dict[RequestId, Inquiry] = field(default_factory=dict)
    overtaking: dict[int, Inquiry] = field(default_factory=dict)
    """Those that wait for what was published here before: they would reach the store ahead of it, and it comes to those
    who asked in no other way."""
    numbers: int = 0
    asked: int = 0
    """Requests that were sent out; an inquiry may need several."""
    due: Instant | None = None

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        query: Query,
        user: str,
        client: ClientId,
        take: Callable[[Sequence[Event]], None],
        end: Callable[[Outcome], None],
        store: BrokerId = "",
        needs: Callable[[Event], bool] | None = None,
    ) -> Inquiry:
        """Begin. `take` and `end` may be called at once, before this returns, or in a later step."""
        self.numbers += 1
        inquiry = Inquiry(self.numbers, query, user, client, take, end, store, self.outbox().next_seq - 1, needs)
        if needs is not None:
            inquiry.had = dict(self.seen().newest)
        inquiry.place = inquiry.behind = query.after
        inquiry.from_us = query.since_us
        self.inquiries[inquiry.number] = inquiry
        if self.interest.ready:
            self._begin(inquiry)
        return inquiry

    def pumped(self) -> None:
        """More of what this broker's clients published is on its way."""
        if self.overtaking and self.interest.ready:
            sent = self.outbox().sent
            for inquiry in [inquiry for inquiry in self.overtaking.values() if inquiry.published <= sent]:
                if self.overtaking.pop(inquiry.number, None) is not None and inquiry.number in self.inquiries:
                    self._begin(inquiry)

    def more(self, inquiry: Inquiry) -> None:
        """What was taken last has been dealt with."""
        inquiry.busy = False
        self._hand_on(inquiry)

    def cancel(self, inquiry: Inquiry) -> None:
        """Nobody wants to know any more."""
        self.overtaking.pop(inquiry.number, None)
        if self.inquiries.pop(inquiry.number, None) is not None:
            self._abandon(inquiry)

    def stored(self, topic: str) -> bool:
        """Whether some store in the network keeps a topic."""
        return self.advertisements.stored(topic)

    def on_requested(self, fact: Requested) -> None:
        """A client inside the process asks: it reads as fast as it is told."""
        orders = self.orders
        answers: list[Inquiry] = []
        counts = [0]

        def take(events: Sequence[Event]) -> None:
            counts[0] += len(events)
            orders.effects.append(Answer(fact.client, fact.token, tuple(events)))
            if answers:
                self.more(answers[0])

        def end(outcome: Outcome) -> None:
            stores = ", ".join(outcome.stores)
            orders.note(
                Kind.RECALLED,
                client=fact.client,
                filter=str(fact.query.filter),
                peer=stores,
                hops=outcome.hops,
                count=counts[0],
                detail=outcome.problem or "complete",
            )
            orders.effects.append(Answer(fact.client, fact.token, (), outcome))

        orders.note(Kind.REQUESTED, client=fact.client, filter=str(fact.query.filter))
        inquiry = self.ask(fact.query, "", fact.client, take, end, needs=lambda event: True)
        answers.append(inquiry)
        if inquiry.busy:
            self.more(inquiry)

    def _begin(self, inquiry: Inquiry) -> None:
        """Ask the stores that are nearest now for what is still missing."""
        inquiry.retry_at, inquiry.problem = None, ""
        if self.outbox().sent < inquiry.published:
            self.overtaking[inquiry.number] = inquiry
            return
        asked = inquiry.query
        classes = [asked.filter.topic] if inquiry.store else self.advertisements.classes_for(asked.filter.topic)
        whole = bool(inquiry.store) or self.advertisements.whole(asked.filter.topic)
        if not whole and self._awaits(inquiry, all_of_it=bool(classes)):
            return
        if not classes:
            self._nobody(inquiry)
            return
        inquiry.alone_since = None
        query = inquiry.next_query((asked.filter.topic,) if whole else tuple(classes))
        if inquiry.resumed:
            inquiry.problem = inquiry.flaw
        if query is None:
            self._finish(inquiry)
            return
        inquiry.absent = tuple(self.absent())
        inquiry.owed = self._owed(inquiry)
        if not whole:
            inquiry.problem = PARTIAL
        for topics in classes:
            self.asked += 1
            id = RequestId(self.broker, self.orders.boot, self.asked)
            part = Part(id, topics, place=inquiry.place, heard_at=self.orders.now)
            inquiry.parts.append(part)
            self.parts[id] = inquiry
        for part in list(inquiry.parts):
            if part.id not in self.parts:
                return  # one before it has failed at once
            request = Request(part.id, (), part.topics, query, inquiry.user, inquiry.client, WINDOW, inquiry.store)
            part.way = self.carriage.way(request, failed=inquiry.failed)
            self.carriage.forward(request, part.way)
        self._watch(inquiry)

    def _owed(self, inquiry: Inquiry) -> dict[EventId, Key]:
        """What this broker has had from origins that are away now, and the stores may still be owed. It does not come
        to who asks when the origin sends it again."""
        needs, place = inquiry.needs, inquiry.place
        if needs is None:
            return {}
        found = {}
        for event in self.seen().recent_of(inquiry.absent, inquiry.query):
            id, key = event.id, key_of(event)
            had = (id.epoch, id.seq) <= inquiry.had.get(self.seen().stream(event), NEVER) and needs(event)
            ahead = (place is None or key > place) and not 0 < event.expires_us <= self.orders.now
            if had and ahead and self.may_receive(inquiry.user, inquiry.client, event.topic):
                found[id] = key
        return found

    def _lacks(self, inquiry: Inquiry, from_us: Instant, place: Key | None = None) -> str:
        """What is missing in an answer, or up to a place of it, of what is owed by origins that are away; in words."""
        first = inquiry.first if 0 < inquiry.query.last <= inquiry.given else None
        for key in inquiry.owed.values():
            passed = place is None or key <= place
            if passed and key.published_us >= from_us and (first is None or key > first):
                return f"events of {key.origin}, which is away, are missing"
        owed_to = self.debts.debtors if inquiry.needs is not None else {}
        for part in [part for part in inquiry.parts if owed_to.get(part.store)]:
            replicas = [store for store in self.replicas(part.store, part.topics) if store not in inquiry.absent]
            debtor = self.debts.debtor(part.store, replicas, inquiry.absent, inquiry.query)
            if debtor is not None:
                return f"events of {debtor}, which is away, may be missing"
        return ""

    def _awaits(self, inquiry: Inquiry, *, all_of_it: bool) -> bool:
        """Nobody keeps (all of) what is asked for. Who did and is expected back, or is not ready yet, is waited for;
        not for those who keep all of it, if a part has been handed on that came from others."""
        now = self.orders.now
        if inquiry.alone_since is None:
            inquiry.alone_since = now
        begun = all_of_it and inquiry.flaw == PARTIAL
        if begun or now - inquiry.alone_since >= RETURN_US or not self.expects(inquiry.query.filter.topic, all_of_it):
            return False
        inquiry.retry_at = inquiry.alone_since + RETURN_US
        self._watch(inquiry)
        return True

    def _nobody(self, inquiry: Inquiry) -> None:
        """Nobody keeps what is asked for."""
        gone = inquiry.stores or inquiry.place != inquiry.query.after
        inquiry.problem = "the store is gone" if gone else "no store keeps these topics"
        self._finish(inquiry)

    def tables_changed(self) -> None:
        """Other topics are stored than before: whoever waits for that may ask now."""
        for inquiry in self.inquiries.values():
            if inquiry.alone_since is not None and inquiry.retry_at is not None:
                inquiry.retry_at = self.orders.now
                self._watch(inquiry)

    def worth(self, inquiry: Inquiry) -> tuple[Instant, str]:
        """If an answer broke off now: from when on what was handed on is complete, and what may be missing in it. A
        store says so only at the end; before that, its word to everybody counts. Who goes on can say nothing of it."""
        place, behind, asked = inquiry.place, inquiry.behind, inquiry.query
        from_us, flaw = inquiry.from_us, inquiry.flaw
        if inquiry.store or place is None or place == behind:
            return from_us, flaw
        flaw = inquiry.problem or flaw
        for part in [part for part in inquiry.parts if not part.done]:
            since_us = min(self._had_since(part), place.published_us + 1)
            if since_us > max(from_us, behind.published_us if behind is not None else 0):
                from_us = since_us
                if asked.since_us and not asked.last:
                    flaw = flaw or NOT_SO_FAR
        return from_us, flaw or self._lacks(inquiry, from_us, place)

    def _had_since(self, part: Part) -> Instant:
        """From when on the store of a part had everything, by its worst word until now. It may have stopped keeping it:
        then it ends the answers that it has begun, as complete as they were."""
        now = self.complete_since(part.store, part.topics)
        return max((since for since in (part.since_us, now) if since is not None), default=NUMBER_MAX)

    def _abandon(self, inquiry: Inquiry) -> None:
        """Forget what was asked; stores that are still answering are told so."""
        for part in inquiry.parts:
            self.parts.pop(part.id, None)
            if not part.done and part.store and self.interest.ready:
                self.carriage.credit(Credit(part.id, part.store, 0))
        inquiry.parts.clear()

    def _finish(self, inquiry: Inquiry) -> None:
        if self.inquiries.pop(inquiry.number, None) is None:
            return
        self._abandon(inquiry)
        inquiry.end(inquiry.outcome())

    # -- handing on ------------------------------------------------------------------------------------------------

    def _hand_on(self, inquiry: Inquiry) -> None:
        """Give the taker what can be given; finish when there is no more."""
        while not inquiry.busy and inquiry.number in self.inquiries:
            events = self._merged(inquiry)
            if events:
                inquiry.busy = True
                inquiry.given += len(events)
                inquiry.first = inquiry.first or key_of(events[0])
                if inquiry.owed:
                    for event in events:
                        inquiry.owed.pop(event.id, None)
                inquiry.take(events)
            elif inquiry.parts and all(part.done and not part.waiting for part in inquiry.parts):
                inquiry.problem = inquiry.problem or self._lacks(inquiry, inquiry.from_us)
                self._finish(inquiry)
            else:
                return

    def _merged(self, inquiry: Inquiry) -> list[Event]:
        """The next events in order of their places, as far as every part has told what comes first."""
        parts = inquiry.parts
        if len(parts) == 1:
            events = [event for _, event in parts[0].waiting]
            parts[0].waiting.clear()
            if parts[0].place is not None:
                inquiry.place = parts[0].place
            self._consumed(parts[0], len(events))
            return events
        last = inquiry.last
        for part in parts:
            if last and not part.done:  # everything must come before it is known which are the last
                part.responses.clear()
            self._consumed(part, 0)
        if last and not all(part.done for part in parts):
            return []
        events = []
        while parts and all(part.waiting or part.done for part in parts):
            heads = [part for part in parts if part.waiting]
            if not heads:
                break
            first = min(heads, key=lambda part: part.waiting[0][0])
            key, event = first.waiting.popleft()
            self._consumed(first, 1)
            if inquiry.place is None or key > inquiry.place:
                inquiry.place = key
                events.append(event)
        return events[-last:] if last else events

    def _consumed(self, part: Part, count: int) -> None:
        responses = part.responses
        while responses and (count or not responses[0]):
            taken = min(count, responses[0])
            count -= taken
            responses[0] -= taken
            if not responses[0]:
                responses.popleft()
        self._grant(part)

    def _grant(self, part: Part) -> None:
        credit = part.received - len(part.responses) + WINDOW
        if not part.done and part.store and credit - part.credit >= WINDOW // 2:
            part.credit, part.heard_at = credit, self.orders.now
            self.carriage.credit(Credit(part.id, part.store, credit))

    # -- answers ---------------------------------------------------------------------------------------------------

    def _asked(self, frame: Response | ResponseEnd, came_from: BrokerId) -> tuple[Inquiry, Part] | None:
        """What an answer belongs to. One from another side than the request went to is made up (bad input 24)."""
        inquiry = self.parts.get(frame.id)
        if inquiry is None:
            return None
        part = next(part for part in inquiry.parts if part.id == frame.id)
        if came_from != SELF and part.way != came_from:
            self.carriage.neighbours.reject(came_from, f"it answers request {frame.id}, which it was not asked")
            return None
        if part.store and part.store != frame.store:
            self._failed(inquiry, f"{frame.store} answers in place of {part.store}")
            return None
        return inquiry, part

    def on_response(self, frame: Response, came_from: BrokerId) -> None:
        """A response to a request of this broker."""
        asked = self._asked(frame, came_from)
        if asked is None:
            if self.interest.ready:
                self.carriage.credit(Credit(frame.id, frame.store, 0))
            return
        inquiry, part = asked
        part.received += 1
        if part.received > part.credit or part.done:
            self._failed(inquiry, f"{frame.store} sends more than it was asked for")
            return
        part.store, part.heard_at = frame.store, self.orders.now
        if self.complete_since(part.store, part.topics) is not None:
            part.since_us = self._had_since(part)
        inquiry.attempts = 0
        now, fits = self.orders.now, inquiry.fits
        before = len(part.waiting)
        for event, left_us in zip(frame.events, frame.left_us, strict=True):
            key = key_of(event)
            if (part.place is None or key > part.place) and fits(event.topic):
                part.waiting.append((key, with_expiry(event, now + left_us) if left_us else event))
                part.place = key
        if frame.next is not None and (part.place is None or frame.next > part.place):
            part.place = frame.next
        part.responses.append(len(part.waiting) - before)
        self._hand_on(inquiry)

    def on_end(self, frame: ResponseEnd, came_from: BrokerId) -> None:
        asked = self._asked(frame, came_from)
        if asked is None:
            return
        inquiry, part = asked
        if not frame.final:
            self._failed(inquiry, frame.problem)
            return
        part.done, part.store, part.hops = True, frame.store, frame.hops
        inquiry.stores[frame.store] = None
        inquiry.hops = max(inquiry.hops, frame.hops)
        inquiry.from_us = max(inquiry.from_us, frame.from_us)
        inquiry.problem = frame.problem or inquiry.problem
        self._hand_on(inquiry)

    def _failed(self, inquiry: Inquiry, problem: str) -> None:
        """A store could not answer: ask again, perhaps another."""
        if inquiry.number not in self.inquiries:
            return
        inquiry.failed += [part.way for part in inquiry.parts if not part.done]
        inquiry.from_us, inquiry.flaw = self.worth(inquiry)
        self._abandon(inquiry)
        inquiry.attempts += 1
        if inquiry.attempts >= ATTEMPTS_MAX or inquiry.store:
            inquiry.problem = problem
            self._finish(inquiry)
            return
        inquiry.retry_at = self.orders.now + PAUSE_US
        self._watch(inquiry)

    # -- trees and time --------------------------------------------------------------------------------------------

    def tree_lost(self) -> None:
        """All answers under way are lost; what was received and not handed on comes again."""
        self.parts.clear()
        self.overtaking.clear()
        for inquiry in self.inquiries.values():
            inquiry.from_us, inquiry.flaw = self.worth(inquiry)
            inquiry.parts.clear()
            inquiry.retry_at = None

    def tree_ready(self) -> None:
        for inquiry in list(self.inquiries.values()):
            if inquiry.number not in self.inquiries:
                continue  # the end of one may be the end of another
            if inquiry.store:
                inquiry.problem = "the tree changed"
                self._finish(inquiry)
            else:
                self._begin(inquiry)

    def _watch(self, inquiry: Inquiry) -> None:
        at = inquiry.retry_at if inquiry.retry_at is not None else self.orders.now + PATIENCE_US
        if self.due is None or at < self.due:
            self.due = self.orders.wake(at)

    def woken(self) -> None:
        """Ask again where nobody answered."""
        now = self.orders.now
        if self.due is None or self.due > now:
            return
        self.due = None
        if not self.interest.ready:
            return
        for inquiry in list(self.inquiries.values()):
            if inquiry.number not in self.inquiries:
                continue
            if inquiry.retry_at is not None:
                if inquiry.retry_at <= now:
                    self._begin(inquiry)
                    continue
            elif any(self._silent(part) for part in inquiry.parts):
                self._failed(inquiry, "the store did not answer")
                continue
            self._watch(inquiry)

    def _silent(self, part: Part) -> bool:
        """Whether a store has had time and credit, and said nothing."""
        waits = not part.done and part.received < part.credit
        return waits and self.orders.now - part.heard_at >= PATIENCE_US
