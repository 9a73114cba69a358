"""Recalls: history first, then a marker, then what is live; every event once, and in order per publisher.

Theory of operation.

1. *Live first.* A subscription with history is entered like any other, so the network owes the client what is
   published from then on. Live events that match it are *held*, once per session (`holding`), and the stores are asked
   for the past. Subscription and Request take the same way in order: an event that missed the subscription reached the
   store before the Request. So between history and what is held there is no gap.
2. *Once.* What history gives is taken out of what is held, by its id, and its id is remembered: a live copy may still
   come, since an origin sends again what is not done when the tree changes. Ids are remembered one by one
   (`GIVEN_MAX`); of those before, the newest in each lane (stream; reliable or not). A store has the events of an
   origin without gaps and gives them in order, so what is not newer was given. After a restart only that is known.
   `REMEMBER_US` after the end of a recall it is forgotten, which bounds the promise: a copy that is later comes twice.
3. *In order.* History stands in the order of clocks. What reaches a store when the answer is past its place, because a
   clock is slow, is not in it; it has reached this broker as well, on the way it shares with whatever is newer of its
   lane, and is given in front of that; so is a live event that is older than the last ones that were asked for, because
   the store answered late. What was published before the time asked for or answered for, and arrives behind
   something newer of its lane, is not delivered by this subscription: its turn is over (`Recall.unasked`).
4. *Bounded.* When the held events become too many, those whose topic a store keeps are let go of, and so are those that
   follow: only where they begin in each lane is noted (`Gap`). When the round has ended, the gap is asked for
   in another one, and holding begins again. What no store keeps stays held; beyond the bound the oldest is dropped.
5. *At the client's pace.* History is handed over only while the client's queue is short, so that nothing is dropped
   because of it, and so are the held events after it. While some of them wait, what comes later waits behind them.
6. *Durable.* Of a session that outlives its connection the place in history, the gap and the held events stand on disk,
   written in the step in which the queue changes with them. While the client is away nobody is asked; when it is back,
   or this broker is, history goes on behind its place.

Decisions. History takes the place of retained messages: its newest events include them. Each subscription gets its own
history, as it gets its own retained messages [MQTT-3.3.1-9]; only while two of a session are under way they share: what
one has given since the other began, the other does not give again (after a restart this is no longer known). Who asks
again by the same text begins again. A live event without an id (the fast path carries such) waits like any other, but
cannot be recognised in history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from latecomer.core.effects import Drop
from latecomer.core.orders import Orders
from latecomer.core.retrieval import Retrieval
from latecomer.core.session.delivery import GRADES_MAX, Deliveries, grade_of
from latecomer.core.session.holding import LOST, Holding, marker_like, recalls_of, unasked
from latecomer.core.session.limits import Access
from latecomer.core.session.past import FIRST, Held, LaneOf, Past, Recall, RecallRow, joined, recall_of, stamp_of
from latecomer.core.session.state import HISTORY_END, NOBODY, Grade, Parcel, Session, Subscription
from latecomer.model.event import Event
from latecomer.model.history import Key, Outcome, Query, key_of
from latecomer.model.ids import ClientId, Instant
from latecomer.model.record import Kind
from latecomer.model.slots import NEVER
from latecomer.model.when import Options, format_when, make_wish

REMEMBER_US = 60_000_000
"""How long after its end it is remembered what a recall gave."""
SLICE = 256
"""Events handed over in one step."""
PAUSE_US, WAIT_US = 500, 20_000
"""Until the next ones; until it is seen whether a client that does not read has begun to."""


@dataclass(slots=True)
class Recalls:
    """Hands the past to sessions, and keeps the present waiting meanwhile."""

    orders: Orders
    access: Access
    retrieval: Retrieval
    deliveries: Deliveries
    holding: Holding
    lane_of: LaneOf
    changed: Callable[[], None]
    """Called when live events must take another way than before: through `take`, or no longer."""
    lagging: dict[ClientId, Session] = field(default_factory=dict)
    """Those for whom more is ready."""
    pause: Instant | None = None
    memories: deque[tuple[Instant, Session, Recall]] = field(default_factory=deque)
    """Recalls that are over, and when they are forgotten."""

    # -- what subscriptions say --------------------------------------------------------------------------------------

    def begin(self, session: Session, subscription: Subscription, options: Options) -> None:
        """History was asked for together with a subscription that has just been entered."""
        wish = make_wish(options, self.orders.now)
        query = Query(subscription.filter, wish.since, wish.until, wish.last)
        recall = Recall(subscription.text, query, self.lane_of, had=dict(self.retrieval.seen().newest))
        if not wish.last:
            recall.lowest = Key(wish.since, FIRST, 0, 0)
        past = session.past
        if past is None:
            past = session.past = Past(self.lane_of, number=session.number)
        recall.begun = past.gifts
        before = past.recalls.pop(subscription.text, None)
        if before is not None:
            self._stop(before)
            past.adopt(before, recall)
            if before.running and before.filter == recall.filter:
                recall.missing = joined(before.fetching, before.missing)
        past.recalls[subscription.text] = recall
        past.grades.clear()
        self.orders.note(Kind.REQUESTED, client=session.client, filter=subscription.text, detail=str(options))
        self.changed()
        self._ask(session, recall)
        self.holding.write(session, past)
        self.go_on(session)

    def cancel(self, session: Session, text: str) -> None:
        """The subscription goes on without history."""
        past = session.past
        if past is None or (recall := past.recalls.get(text)) is None or not recall.running:
            return
        self._stop(recall)
        self._lose_gap(session, recall)
        self._over(session, recall)
        self.holding.write(session, past)
        self.holding.sort(session, past)
        self.go_on(session)

    def left(self, session: Session, subscription: Subscription) -> None:
        """The subscription is gone; what is held because of it may be owed to others."""
        past = session.past
        if past is None or (recall := past.recalls.pop(subscription.text, None)) is None:
            return
        past.grades.clear()
        self._stop(recall)
        if recall.running:
            self._lose_gap(session, recall)
        if session.durable:
            self.orders.writes.append(Drop("recall", session.client, recall.text))
        past.forget(recall)
        self.holding.sort(session, past)
        if past.held:
            past.orphans.append(recall)
            self.changed()
        self.go_on(session)
        self._tidy(session, past)

    def recheck(self, session: Session) -> None:
        """The rules are others than before."""
        past = session.past
        if past is None:
            return
        past.grades.clear()
        for recall in past.running():
            if not self._permitted(session, recall):
                self._stop(recall)
                if session.connection:
                    self._ask(session, recall)  # which has an answer to that
        self.go_on(session)

    # -- sessions come and go ----------------------------------------------------------------------------------------

    def away(self, session: Session) -> None:
        """The connection is over; nobody is asked until the client is back."""
        past = session.past
        if past is None:
            return
        for recall in past.running():
            self._stop(recall)
        for number in [number for number, item in past.held.items() if not item.stored]:
            past.let_go(number)  # QoS 0 is for those who are there
        past.releasable = deque(number for number in past.releasable if number in past.held)

    def resume(self, session: Session) -> None:
        """The client is back: history goes on behind its place."""
        past = session.past
        if past is None:
            return
        for recall in past.running():
            self._ask(session, recall)
        self.holding.sort(session, past)
        self.go_on(session)

    def end(self, session: Session) -> None:
        """The session is over."""
        past = session.past
        if past is None:
            return
        for recall in past.running():
            self._stop(recall)
        if session.durable:
            self.erase(session)
        session.past = None

    def erase(self, session: Session) -> None:
        """Leave nothing on disk."""
        past = session.past
        if past is None:
            return
        writes, client = self.orders.writes, session.client
        writes += [Drop("recall", client, text) for text in past.recalls]
        writes += [Drop("held", client, number) for number, item in past.held.items() if item.stored]
        for item in past.held.values():
            item.stored = False

    def recover(self, session: Session, rows: Mapping[int | str, object], held: Mapping[int | str, object]) -> None:
        """Find everything as it was before a restart."""
        if not rows and not held:
            return
        past = session.past = Past(self.lane_of, number=session.number)
        for text, row in rows.items():
            assert isinstance(row, RecallRow)
            recall = past.recalls[str(text)] = recall_of(str(text), row, self.lane_of)
            if not recall.running:
                self._remember(session, recall)
        for number in sorted(held, key=int):
            event = held[number]
            assert isinstance(event, Event)
            past.arrivals = int(number)
            past.put(int(number), Held(event, -1, True, False))
        self.holding.sort(session, past)

    # -- asking ------------------------------------------------------------------------------------------------------

    def _permitted(self, session: Session, recall: Recall) -> bool:
        return self.access.may_request(session.user, session.client, recall.filter.topic)

    def _ask(self, session: Session, recall: Recall) -> None:
        past = session.past
        assert past is not None
        recall.asked += 1
        number = recall.asked
        recall.overdue.clear()
        recall.early.clear()

        def take(events: Sequence[Event]) -> None:
            if recall.asked == number:
                recall.batches.append(deque(events))
                self.go_on(session)

        def end(outcome: Outcome) -> None:
            if recall.asked == number:
                recall.end(outcome)
                self.go_on(session)

        if not self._permitted(session, recall):
            recall.ended = Outcome(complete=False, problem="you may no longer ask for the past of these topics")
            return
        busy, past.busy = past.busy, True  # it may answer at once
        inquiry = self.retrieval.ask(recall.next_query(), session.user, session.client, take, end, needs=recall.needs)
        if recall.ended is None:
            recall.inquiry = inquiry
        past.busy = busy

    def _stop(self, recall: Recall) -> None:
        """Forget what was asked, and what came and was not handed over."""
        recall.asked += 1
        if recall.inquiry is not None:
            recall.carried = recall.carrying(*self.retrieval.worth(recall.inquiry))
            self.retrieval.cancel(recall.inquiry)
        recall.inquiry = recall.ended = None
        recall.batches.clear()

    def _lose_gap(self, session: Session, recall: Recall) -> None:
        """Nobody will ask for what was let go of."""
        gap = joined(recall.fetching, recall.missing)
        recall.fetching = recall.missing = None
        if gap is not None:
            session.dropped += gap.count
            self.orders.note(Kind.DROPPED, client=session.client, filter=recall.text, count=gap.count, detail=LOST)

    # -- handing over ------------------------------------------------------------------------------------------------

    def go_on(self, session: Session) -> None:
        """Hand over what the client can take."""
        past = session.past
        if past is None or past.busy or not session.connection:
            return
        past.busy = True
        running = past.running()
        budget, hungry = SLICE, False
        for recall in running:
            share = min(budget, max(1, SLICE // len(running)))
            left = self._advance(session, past, recall, share)
            budget -= share - left
            hungry |= left == 0
        if len(running) > 1:  # the next time another one is the first
            past.recalls[running[0].text] = past.recalls.pop(running[0].text)
        while budget and past.releasable and self.holding.release(session, past):
            budget -= 1
        past.busy = False
        self.holding.write(session, past)
        self._tidy(session, past)
        waiting = past.releasable or any(recall.batches or recall.ended for recall in running)
        if waiting and (hungry or not budget or session.choked):
            self.lagging[session.client] = session
            self.pause = self.orders.wake(self.orders.now + (WAIT_US if session.choked else PAUSE_US))

    def _advance(self, session: Session, past: Past, recall: Recall, share: int) -> int:
        """Go on with one recall; returns what is left of its share."""
        while share:
            if recall.batches:
                batch = recall.batches[0]
                if batch:
                    self._put_in_order(session, past, recall, batch)
                    if not self.holding.has_room(session, past, batch[0], session.subscriptions[recall.text].qos):
                        break
                    share -= 1
                    self._replay(session, past, recall, batch.popleft())
                if not batch:
                    recall.batches.popleft()
                    if recall.inquiry is not None:
                        self.retrieval.more(recall.inquiry)
            elif recall.ended is None or not self._finish_round(session, past, recall):
                break
        return share

    def _put_in_order(self, session: Session, past: Past, recall: Recall, batch: deque[Event]) -> None:
        """What a store received when it had already looked at its place (a clock was slow, or the way long) is missing
        in history, and is held: its turn is before the next one of its lane."""
        event = batch[0]
        if not past.lanes or (recall.missing is not None and recall.missing.holds(event, past.lane_of(event))):
            return
        lane, stamp = past.lane_of(event), stamp_of(event)
        looked_at = recall.overdue.get(lane, NEVER)
        if stamp > looked_at:
            recall.overdue[lane] = stamp
            older = [
                other
                for other in past.between(lane, looked_at, stamp)
                if recall in self.holding.recalls(session, past, other)
            ]
            recall.early.update((other.id, None) for other in older)
            batch.extendleft(reversed(older))

    def _replay(self, session: Session, past: Past, recall: Recall, event: Event) -> None:
        """Give one event of the past, unless it is not for this client, or was given in an earlier round."""
        key = key_of(event)
        number = past.by_id.get(event.id)
        early = recall.early.pop(event.id, event) is None
        beyond = recall.missing is not None and recall.missing.holds(event, past.lane_of(event))
        if number is not None and (early or recall.fetching is not None) and not recall.asks_for(event):
            if beyond:
                return
            past.remember(recall, event)
            self.holding.give(session, past, number)  # it is live, and its turn is now
            return
        recall.place, recall.changed = max(key, recall.place or key), True
        subscription = session.subscriptions[recall.text]
        if subscription.no_local and event.publisher == session.client:  # [MQTT-3.8.3-3]
            return
        if beyond:
            return  # the next round brings it, behind those of its lane that only the next round can bring
        if recall.fetching is not None:
            matching = self.holding.matching(session, event)
            recalls = recalls_of(past, matching)
            fetched = recall.fetching.holds(event, past.lane_of(event))
            if not fetched or past.was_given(event, recalls) or unasked(event, matching, recalls):
                return
        elif recall.lowest is None:
            recall.lowest = recall.place
        if past.given_since(recall, event):
            return
        past.remember(recall, event)
        if number is not None:
            self.holding.let_go(session, past, number)  # this is the one copy for all subscriptions
            grade = self._grade(session, event, self.holding.matching(session, event))
        else:
            grade = self._grade_of_recalls(session, past, event)
        if grade is None or 0 < event.expires_us <= self.orders.now:
            return
        recall.count += 1
        self.deliveries.replay(session, event, grade)
        past.number = session.number

    def _grade(self, session: Session, event: Event, matching: Sequence[Subscription]) -> Grade | None:
        if not self.access.may_receive_past(session.user, session.client, event.topic):
            return None
        return grade_of(matching)

    def _grade_of_recalls(self, session: Session, past: Past, event: Event) -> Grade | None:
        """What the subscriptions under recall say; the same for all events of a topic, unless the content decides."""
        plain = not session.picky and not session.no_local
        if plain and event.topic in past.grades:
            return past.grades[event.topic]
        recalls = past.recalls
        matching = [
            sub
            for sub in self.holding.matching(session, event)
            if (recall := recalls.get(sub.text)) is not None and recall.running
        ]
        grade = self._grade(session, event, matching)
        if plain:
            if len(past.grades) >= GRADES_MAX:
                past.grades.clear()
            past.grades[event.topic] = grade
        return grade

    def _finish_round(self, session: Session, past: Past, recall: Recall) -> bool:
        """Ask for what was let go of meanwhile, or come to the end; whether there is something to go on with."""
        ended = recall.ended
        assert ended is not None
        if recall.missing is None and not self.holding.has_room(session, past, *marker_like(session, recall)):
            return False
        recall.add(ended)
        recall.ended, recall.changed = None, True
        if recall.fetching is not None and not ended.stores:
            recall.missing, missing = None, recall.missing
            self._lose_gap(session, recall)
            recall.missing = missing
        if recall.missing is None:
            self._mark(session, past, recall)
            return False
        recall.fetching, recall.missing = recall.missing, None
        recall.query, recall.place = Query(recall.filter, recall.fetching.lowest.published_us), None
        self._ask(session, recall)
        return True

    def _mark(self, session: Session, past: Past, recall: Recall) -> None:
        """History has ended: say so, and let what is held follow."""
        outcome, now = recall.outcome, self.orders.now
        subscription = session.subscriptions[recall.text]
        payload = {
            "filter": recall.text,
            "events": recall.count,
            "from": format_when(outcome.from_us),
            "complete": outcome.complete,
            "stores": outcome.stores,
            "hops": outcome.hops,
            "problem": outcome.problem,
        }
        marker = Event(NOBODY, HISTORY_END, "", now, payload=msgspec.json.encode(payload), qos=subscription.qos)
        ids = (subscription.id,) if subscription.id else ()
        self.deliveries.hand(session, Parcel(marker, subscription.qos, False, ids), -1)
        past.number = session.number
        self.orders.note(
            Kind.RECALLED,
            client=session.client,
            filter=recall.text,
            peer=", ".join(outcome.stores),
            hops=outcome.hops,
            count=recall.count,
            detail=outcome.problem or "complete",
        )
        self._over(session, recall)
        self.holding.sort(session, past)

    def _over(self, session: Session, recall: Recall) -> None:
        recall.over_us, recall.changed = self.orders.now or 1, True
        if session.past is not None:
            session.past.grades.clear()
        recall.fetching = None
        self._remember(session, recall)

    # -- keeping, and forgetting -------------------------------------------------------------------------------------

    def _remember(self, session: Session, recall: Recall) -> None:
        self.memories.append((self.orders.wake(self.orders.now + REMEMBER_US), session, recall))

    def _tidy(self, session: Session, past: Past) -> None:
        """Nothing waits: what comes next need not wait either."""
        if past.held:
            return
        if past.orphans:
            past.orphans.clear()
            self.changed()
        if not past.recalls and not past.busy:
            session.past = None
            self.changed()

    def due(self) -> Instant | None:
        memory = self.memories[0][0] if self.memories else None
        return memory if self.pause is None or (memory is not None and memory < self.pause) else self.pause

    def woken(self) -> None:
        now = self.orders.now
        while self.memories and self.memories[0][0] <= now:
            self._forget(*self.memories.popleft()[1:])
        if self.pause is not None and self.pause <= now:
            self.pause = None
            lagging, self.lagging = self.lagging, {}
            for session in lagging.values():
                self.go_on(session)

    def _forget(self, session: Session, recall: Recall) -> None:
        past = session.past
        if past is None or past.recalls.get(recall.text) is not recall:
            return
        if past.held:  # whose turn has not come yet
            self._remember(session, recall)
            return
        del past.recalls[recall.text]
        past.forget(recall)
        if session.durable:
            self.orders.writes.append(Drop("recall", session.client, recall.text))
        self.changed()
        self._tidy(session, past)
