"""Replicas: stores that keep the same topics compare what they have, and fetch what they lack.

Every store floods its *word*: which topic classes it keeps, and since when it has everything of them. In a *round* a
store goes through the others that keep some of the same, nearest first. With each it compares hours, then ten-second
slices of the hours that differ, and asks for the slices that differ by a request directed at that store; what it has
already is not kept twice. An event that any of them has is in the end in all of them (anti-entropy), whatever made
the difference.

A store that begins, or comes back, goes through one round before it advertises: it never answers for a time that
others know better. Later it does a round with everybody whenever the tree has changed and settled, and every
`replica_us` one with a few of those who keep some of the same, in turn: who keeps less than we do hands on only that,
so in the end everybody has to be asked.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from latecomer.core.class_row import without_gaps_since
from latecomer.core.comparison import SLICE_US, Task, behind_until
from latecomer.core.directory import Directory, classes_of, complete_since
from latecomer.core.effects import Survey
from latecomer.core.inputs import Surveyed
from latecomer.core.inquiry import Inquiry
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.retrieval import Retrieval
from latecomer.core.ring.flushes import Flushes
from latecomer.core.seen import Seen
from latecomer.core.settings import BrokerSettings
from latecomer.core.settling import Settling
from latecomer.core.store import REPLICA, Store
from latecomer.messages.link import STREAMS_MAX, Compare, Compared, Keeping
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.history import Outcome, Query
from latecomer.model.ids import BrokerId, Instant
from latecomer.model.slots import Stream, origin_of
from latecomer.model.topics import topic_covers, topic_overlaps

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
AHEAD_US = 24 * HOUR_US
"""Clocks that are ahead of ours by more than this stamp events that no round looks at."""
PATIENCE_US = 30 * SECOND_US
"""How long another store may take over one step of a round."""
HOPE_US = 300 * SECOND_US
"""How long a store that begins tries to compare itself with one that has more; then it answers with what it has."""
GATHER_US = 5 * SECOND_US
"""How long a store that begins waits for brokers it knows of and does not see."""
PULLED_MAX = 65_536
WIDEST = 1_000_000
"""Slices that a comparison may span; those without events are left out, and few have any."""
SLICES_MAX = 100_000
"""In one answer."""
TURNS = 3
"""Stores that a later round goes to; the next one begins one further."""
CATCH_UP_US = 200_000
"""How soon after the word of a store that has more a round with everybody begins."""
BETWEEN = "between the stores of"
SURVEYS_MAX = 1024
"""Comparisons that others may have under way with us."""


@dataclass(slots=True)
class Replicas:
    """What this broker's store knows of the others, and does about it."""

    broker: BrokerId
    settings: BrokerSettings
    orders: Orders
    neighbours: Neighbours
    interest: Interest
    membership: Membership
    settling: Settling
    store: Store
    retrieval: Retrieval
    directory: Directory
    passage: Passage
    seen: Callable[[], Seen]
    """What this broker has had from each origin."""
    flushes: Flushes
    started_at: Instant = 0
    """When this broker began."""
    begun_at: Instant = 0
    filling: bool = False
    """The store does not answer yet for all that it keeps."""
    tasks: deque[Task] = field(default_factory=deque)
    task: Task | None = None
    known: dict[BrokerId, Keeping] = field(default_factory=dict)
    """The words as they were when this round began."""
    failed: dict[str, None] = field(default_factory=dict)
    """Our classes of which some other store could not be compared in this round."""
    full: bool = False
    """This round goes through everybody."""
    behind: bool = False
    """Somebody has more than we do: the next one will."""
    rounds: int = 0
    """Those that did not."""
    due: Instant | None = None
    round_due: Instant | None = None
    numbers: int = 0
    surveys: dict[int, Callable[[Surveyed], None]] = field(default_factory=dict)
    pulled: OrderedDict[tuple[BrokerId, str, int], tuple[int, int]] = field(default_factory=OrderedDict)
    """Slices of others as they were when we fetched them: what is the same as then has nothing new for us."""

    # -- words -----------------------------------------------------------------------------------------------------

    def on_keeping(self, peer: BrokerId, word: Keeping) -> None:
        self.directory.on_keeping(peer, word)
        if self.filling and self.task is None:
            self.begin(full=True)
        elif any(self._behind(*theirs) for theirs in classes_of(word)):
            self.behind = True
            self.round_due = self.orders.wake(self.orders.now + CATCH_UP_US)

    def _behind(self, name: str, since_us: Instant, filling: bool) -> bool:
        """Whether another store has had everything of a class for longer: when both began at the same time, neither
        could say that when the other was filled."""
        row = self.store.rows.get(name)
        return row is not None and not filling and since_us < without_gaps_since(row)

    def _speak(self) -> None:
        """Tell everybody what we keep, if there is news."""
        own = self.store.advertisements.own
        self.directory.speak({name: (self._has_since(name), name not in own) for name in self.store.rows})

    def _has_since(self, name: str) -> Instant:
        """From when on we have everything of a class."""
        row = self.store.rows[name]
        return max(without_gaps_since(row), self.store.kept_from_us)

    def tell_news(self) -> None:
        """The store is complete from another time on than before. If it has let go of something, whoever fills itself
        from us, or goes on with an answer of ours, hears of it before it gets anything in which that is missing."""
        if self.store.rows:
            self._speak()

    def expects(self, topic_filter: str, all_of_it: bool) -> bool:
        """Whether a store of some of this, or of all, may be about to answer: it is there, and fills itself or its
        advertisement is on its way; or it has been away for a moment only; or we have just begun, and do not know of
        all who are there."""
        keeps = topic_covers if all_of_it else topic_overlaps
        tree = self.interest.tree
        assert tree is not None
        absent = self.membership.link_states.absent_since
        if any(keeps(name, topic_filter) for name in self.store.rows):
            return True
        if self.orders.now - self.started_at < GATHER_US and (absent or self.membership.uncharted):
            return True
        return any(
            (word.broker in tree.parent or self._left_lately(word.broker))
            and any(keeps(name, topic_filter) for name in word.topics)
            for word in self.directory.words.values()
        )

    def _left_lately(self, broker: BrokerId) -> bool:
        since = self.membership.link_states.absent_since.get(broker)
        return since is not None and self.orders.now - since < PATIENCE_US

    # -- rounds ----------------------------------------------------------------------------------------------------

    def keeps(self) -> None:
        """The store keeps other topics, or may have missed something."""
        own = self.store.advertisements.own
        filling = any(name not in own for name in self.store.rows)
        if filling and not self.filling:
            self.begun_at = self.orders.now
        self.filling = filling
        self.pulled.clear()
        self._drop_task()
        self._speak()
        self.begin(full=True)

    def settled(self) -> None:
        """Everything that was published before this tree has arrived."""
        self.begin(full=True)

    def tree_lost(self) -> None:
        """Whatever was asked is lost; `settled` begins anew."""
        self.tasks.clear()
        self.task = None

    def begin(self, *, full: bool) -> None:
        """Begin a round, if one is due and possible."""
        if not self.store.rows or self.store.blocked or not self.settling.settled:
            return
        if self.filling and not self._gathered():
            self._watch(self.begun_at + GATHER_US)
            return
        self._drop_task()
        self._speak()
        self.known = dict(self.directory.words)
        self.failed.clear()
        if full:
            self.store.awaited.clear()
        self.full = full
        self.behind = self.behind and not full
        self.rounds += not full
        self.tasks = deque(self._tasks(full))
        self.round_due = self.orders.wake(self.orders.now + self.settings.replica_us)
        self._next()

    def _gathered(self) -> bool:
        """Whether everybody who may have something for us is there, or has been waited for long enough."""
        if self.orders.now - self.begun_at >= GATHER_US or not self.neighbours.wanted():
            return True
        return not self.membership.uncharted and not self.membership.link_states.absent_since

    def _tasks(self, full: bool) -> list[Task]:
        tree = self.interest.tree
        assert tree is not None
        since_us = self.store.kept_from_us - self.store.kept_from_us % HOUR_US
        until_us = self.orders.now + AHEAD_US
        until_us -= until_us % HOUR_US
        tasks = []
        for mine in self.store.rows:
            others = [
                (word.broker, theirs if topic_covers(mine, theirs) else mine)
                for word in self.known.values()
                if word.broker in tree.parent
                for theirs in word.topics
                if topic_covers(theirs, mine) or topic_covers(mine, theirs)
            ]
            if not full and others:
                brokers = list(dict.fromkeys(broker for broker, _ in others))
                turns = [brokers[(self.rounds + turn) % len(brokers)] for turn in range(TURNS)]
                others = [(broker, topics) for broker, topics in others if broker in turns]
            tasks += [Task(broker, topics, mine, since_us, until_us, HOUR_US) for broker, topics in others]
        tasks.sort(key=lambda task: (tree.hops(self.broker, task.store), task.store, task.topics))
        return tasks

    def _next(self) -> None:
        """The next step of the round."""
        if self.task is not None:
            return
        if not self.tasks:
            self._finish()
            return
        self.task = self.tasks.popleft()
        self._compare(self.task)

    def _finish(self) -> None:
        """The round is over: we have all that the others had. However long it took, there is a pause behind it."""
        self.round_due = self.orders.wake(self.orders.now + self.settings.replica_us)
        if not self.full:
            return
        tree = self.interest.tree
        assert tree is not None
        for name in self.store.rows:
            if name not in self.failed and (since_us := self._best(name)) is not None:
                self.store.filled(name, since_us)
        if self.filling:
            self.store.answer_for([name for name in self.store.rows if not self._outdone(name)])
            own = self.store.advertisements.own
            self.filling = any(name not in own for name in self.store.rows)
            if self.filling:
                self.round_due = self.orders.wake(self.orders.now + min(SECOND_US, self.settings.replica_us))
        self._speak()

    def _best(self, name: str) -> Instant | None:
        """Since when the best of those who answer for all of a class have had everything of it: by their words when
        this round began and now, since they may have let go of something meanwhile."""
        tree = self.interest.tree
        assert tree is not None
        found = []
        for word in self.known.values():
            before = complete_since(word, name)
            now = self.directory.answers_since(word.broker, name)
            if before is not None and now is not None and word.broker in tree.parent:
                found.append(max(before, now))
        return min(found, default=None)

    def _outdone(self, name: str) -> bool:
        """Whether somebody who answers for a class has more of it and could not be compared: clients are better off
        there, for as long as there is hope."""
        best = self._best(name) if name in self.failed else None
        hope = self.orders.now - self.begun_at < HOPE_US
        return hope and best is not None and best < self._has_since(name)

    def _drop_task(self) -> None:
        task, self.task = self.task, None
        self.tasks.clear()
        if task is not None and task.inquiry is not None:
            self.retrieval.cancel(task.inquiry)

    def _give_up(self, task: Task) -> None:
        """This store cannot be compared now; the round goes on without it."""
        self.failed[task.mine] = None
        if task.inquiry is not None:
            self.retrieval.cancel(task.inquiry)
        self.task = None
        self._next()

    # -- one task --------------------------------------------------------------------------------------------------

    def _compare(self, task: Task) -> None:
        """Ask for their slices and for ours."""
        tree = self.interest.tree
        assert tree is not None
        task.ours = task.theirs = None
        self.numbers += 1
        task.number = self.numbers
        task.heard_at = self.orders.now
        self._watch(self.orders.now + PATIENCE_US)
        self.surveys[task.number] = lambda fact: self._surveyed(task, fact)
        span = (task.topics, task.since_us, task.until_us, task.width_us)
        self.orders.effects.append(Survey(task.number, *span))
        self.passage.send(task.store, Compare(self.broker, task.store, task.number, *span))

    def _surveyed(self, task: Task, fact: Surveyed) -> None:
        if self.task is not task or task.number != fact.token:
            return
        if fact.problem:
            self._give_up(task)
            return
        task.ours = fact.slices
        self._compared(task)

    def on_compared(self, peer: BrokerId, frame: Compared) -> None:
        if not self.passage.arrived(peer, frame.store, frame.to, frame, BETWEEN):
            return
        task = self.task
        if task is None or task.store != frame.store or task.number != frame.number:
            return
        if frame.problem:
            self._give_up(task)
            return
        task.theirs = frame.slices
        absent = self.membership.link_states.absent_since
        task.behind_us = behind_until(absent, self.seen().newest, frame.had)
        self._compared(task)

    def _compared(self, task: Task) -> None:
        """Both sides have told: look closer at what differs, then fetch it."""
        if task.ours is None or task.theirs is None:
            return
        since_us = complete_since(self.known[task.store], task.mine)
        if since_us is not None and since_us < self._has_since(task.mine) and task.uneven(since_us):
            self.failed[task.mine] = None  # its word is worth nothing to us: it may be owed what is older than ours
        ours = {part.start_us: part for part in task.ours}
        differing = [
            part
            for part in task.theirs
            if ours.get(part.start_us) != part
            and task.since_us <= part.start_us < task.until_us
            and part.start_us % task.width_us == 0
        ]
        if task.width_us == HOUR_US:
            task.hours.extend(part.start_us for part in differing)
            task.width_us = SLICE_US
        else:
            for part in differing:
                key = (task.store, task.topics, part.start_us)
                if self.pulled.get(key) != (part.count, part.digest) and part.start_us not in task.slices:
                    task.slices[part.start_us] = part
                    task.add_range(part.start_us)
        self._advance(task)

    def _remember(self, task: Task, since_us: int, until_us: int) -> None:
        """These slices have been fetched as they were."""
        for start_us in range(since_us, until_us, SLICE_US):
            part = task.slices[start_us]
            key = (task.store, task.topics, start_us)
            self.pulled[key] = (part.count, part.digest)
            self.pulled.move_to_end(key)
        while len(self.pulled) > PULLED_MAX:
            self.pulled.popitem(last=False)

    def _advance(self, task: Task) -> None:
        if task.ranges:
            self._fetch(task, *task.ranges.popleft())
        elif task.hours:
            task.since_us = task.hours.popleft()
            task.until_us = task.since_us + HOUR_US
            self._compare(task)
        else:
            self.task = None
            self._next()

    def _fetch(self, task: Task, since_us: int, until_us: int) -> None:
        task.heard_at = self.orders.now
        holder: list[Inquiry] = []
        ahead: list[Event] = []

        def take(events: Sequence[Event]) -> None:
            task.heard_at = self.orders.now
            for event in events:
                if self._ahead_of_its_origin(task, event):
                    ahead.append(event)
                else:
                    self.store.append(event)
            if holder:
                self.retrieval.more(holder[0])

        def end(outcome: Outcome) -> None:
            if self.task is not task:
                return
            task.inquiry = None
            if ahead:
                self.failed[task.mine] = None
                self.store.awaits(task.mine, ahead)
            elif outcome.stores:
                self._remember(task, since_us, until_us)
            if outcome.stores:
                self._advance(task)
            else:
                self._give_up(task)

        query = Query(Filter(task.topics), since_us, until_us - 1)
        inquiry = self.retrieval.ask(query, "", REPLICA, take, end, store=task.store)
        holder.append(inquiry)
        if inquiry.number in self.retrieval.inquiries and self.task is task:
            task.inquiry = inquiry
            if inquiry.busy:
                self.retrieval.more(inquiry)

    def _ahead_of_its_origin(self, task: Task, event: Event) -> bool:
        """Whether an event must wait until its origin, which is away, is back or forgotten. The other store has had
        everything for a shorter time than we have: the origin may owe us earlier events that never were owed to that
        store, and taken now, this one would be delivered ahead of them."""
        if event.id.origin not in self.membership.link_states.absent_since or self.seen().has(event):
            return False
        theirs = self.directory.complete_since(task.store, task.topics)
        return theirs is None or self._has_since(task.mine) < theirs

    # -- for others ------------------------------------------------------------------------------------------------

    def on_compare(self, peer: BrokerId, frame: Compare) -> None:
        if not self.passage.arrived(peer, frame.from_broker, frame.store, frame, BETWEEN):
            return
        problem = "busy" if len(self.surveys) >= SURVEYS_MAX else "" if self.store.rows else "no store here"
        if not problem and (frame.width_us < SLICE_US or frame.until_us - frame.since_us > WIDEST * frame.width_us):
            problem = "too many slices"
        if problem:
            self.passage.send(frame.from_broker, Compared(frame.from_broker, self.broker, frame.number, (), problem))
            return
        self.flushes.behind(frame.from_broker, lambda: self._survey_for(frame), frame.topics)

    def _survey_for(self, frame: Compare) -> None:
        """What the other store does not get by itself has arrived: look up what we have."""
        self.numbers += 1
        version = self.settling.version

        def tell(fact: Surveyed) -> None:
            if self.settling.version == version:
                many = "too many slices" if len(fact.slices) > SLICES_MAX else ""
                slices = () if many else fact.slices
                told = (slices, many or fact.problem, self._had_of_absent())
                self.passage.send(frame.from_broker, Compared(frame.from_broker, self.broker, frame.number, *told))

        self.surveys[self.numbers] = tell
        self.orders.effects.append(Survey(self.numbers, frame.topics, frame.since_us, frame.until_us, frame.width_us))

    def _had_of_absent(self) -> tuple[tuple[Stream, int, int], ...]:
        """The newest event that this broker has had of each stream whose origin is away."""
        absent = self.membership.link_states.absent_since
        found = ((stream, *stamp) for stream, stamp in self.seen().newest.items() if origin_of(stream) in absent)
        return tuple(islice(found, STREAMS_MAX))

    def on_surveyed(self, fact: Surveyed) -> None:
        tell = self.surveys.pop(fact.token, None)
        if tell is not None:
            tell(fact)

    # -- time ------------------------------------------------------------------------------------------------------

    def _watch(self, at: Instant) -> None:
        if self.due is None or at < self.due:
            self.due = self.orders.wake(at)

    def woken(self) -> None:
        now = self.orders.now
        if self.due is not None and self.due <= now:
            self.due = None
            if self.filling and self.task is None:
                self.begin(full=True)
            elif self.task is not None:
                if now - self.task.heard_at >= PATIENCE_US:
                    self._give_up(self.task)
                if self.task is not None:
                    self._watch(self.task.heard_at + PATIENCE_US)
        if self.round_due is not None and self.round_due <= now:
            self.round_due = None
            if self.task is None:
                self.begin(full=self.filling or self.behind or bool(self.failed))
            else:
                self.round_due = self.orders.wake(now + (CATCH_UP_US if self.behind else self.settings.replica_us))
