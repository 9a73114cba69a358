"""Stays of clients that wander: which sessions must be found again wherever the client comes, and which wills must be
published, once, and which must not because the client only moved.

A stay begins when a broker sends the CONNACK: then the connection is known by its number. While the client waits for
one, the broker that has its session suspends will and expiry; so whatever falls due between a CONNECT that reached any
broker and its CONNACK may have happened or not. Whether a session was over, and a will due, is judged by the step that
made the CONNACK: a slow disk may hold the packet back long after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.messages.hand_over import Ask, AskRefused, Attempt, Standing, Taken
from latecomer.messages.mqtt import Connect, Reason
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import SESSION_ENDED, Kind, Record
from latecomer.sim.mqtt_stays import SECOND_US, Stay, Stays
from latecomer.sim.wander_pipes import WanderPipe, WanderPipes

WRITES_US = 200_000
"""How long a frame may wait for the disk."""
LATE_US = 50_000
"""How much later than noted a hand-over may be over, for the old broker."""
WITH_ITS_TREE = "the tunnel ended with its tree"
BROKE, GOODBYE = "the connection broke", "the client said goodbye"
THROUGH = " through "
"""Behind it, in the detail of a `CONNECTED`, stands the name of the tunnel."""
MOVED = "session moved to "
"""How the detail of a `DISCONNECTED` begins when another broker has taken the session."""


@dataclass(slots=True)
class WanderStays(Stays):
    """All stays, by client, over the whole network."""

    pipes: WanderPipes = field(init=False)
    now: Callable[[], Instant] = field(init=False)
    patience_us: int = field(init=False)
    """How long a broker waits for another question about a session when the tree is lost."""
    in_tree: Callable[[BrokerId], bool] = field(init=False)
    """Whether a broker has a tree that is ready."""
    later: Callable[[Callable[[], None]], None] = field(init=False)
    """Has something done at the end of this instant."""
    split: dict[ClientId, None] = field(default_factory=dict)
    """Clients that began a new session while the broker that had the last one could not be told: they may be given
    either until the network is whole."""
    splits: int = 0
    leaving: dict[ClientId, tuple[BrokerId, Attempt]] = field(default_factory=dict)
    """Sessions that a broker has begun to hand over, as far as its frames say."""
    welcomes: dict[tuple[ClientId, BrokerId], str] = field(default_factory=dict)
    """The step in which a broker noted a connection last."""
    taken_at: dict[tuple[ClientId, BrokerId], Instant] = field(default_factory=dict)
    """When that step was, if its CONNACK has not left yet."""
    brief: dict[tuple[ClientId, BrokerId], Instant] = field(default_factory=dict)
    """Connections that ended in the step in which they began, before their CONNACK left."""
    spans: dict[ClientId, list[list[Instant]]] = field(default_factory=dict)
    """From when until when sessions were handed over; without an end: they still are."""
    given_up: dict[Attempt, None] = field(default_factory=dict)
    endings: dict[str, None] = field(default_factory=dict)
    """The steps in which connections or sessions began or ended: with them a hand-over may."""
    asked: dict[str, WanderPipe | None] = field(default_factory=dict)
    """The connections that brokers ask others to serve, by attempt."""
    ending: dict[tuple[BrokerId, str], None] = field(default_factory=dict)
    """Brokers that end sessions at this instant which others have taken from them, and the wills of these sessions."""
    doubled: Counter[str] = field(default_factory=Counter)
    """How often wills were published with such sessions."""
    parted: Callable[[ClientId], None] = field(init=False)
    """Told who is between two sessions."""

    def noted(self, record: Record) -> None:
        if record.kind is Kind.CONNECTED:
            self.endings[record.cause] = None
            self.welcomes[record.client, record.broker] = record.cause
            self.taken_at[record.client, record.broker] = record.at_us
            self._came_back(record)
            return
        if record.kind is Kind.DISCONNECTED:
            self.endings[record.cause] = None
            if record.detail.startswith(MOVED):
                self._stays_or_is_gone(record.client)
            elif not record.detail.startswith(SESSION_ENDED):
                self._ended(record)
            return
        if record.kind in (Kind.TREE_ADOPTED, Kind.STARTED):
            late_us = self.patience_us if record.kind is Kind.TREE_ADOPTED else 0
            for client in [client for client, entry in self.leaving.items() if entry[0] == record.broker]:
                self._stays_or_is_gone(client, late_us)
        if record.kind is Kind.MOVED:
            self._end_span(record.client)
        if record.kind is Kind.PUBLISHED and record.topic.startswith("will/"):
            self._judge_leaving(record)
            if self.ending.pop((record.broker, record.topic), "") is None:
                self.doubled[record.topic] += 1
                return
        if record.kind is Kind.STARTED:
            for stays in self.by_client.values():
                for stay in stays:
                    if _host(stay) == record.broker and stay.ended_at is None:
                        stay.ended_at, stay.crashed = record.at_us, True
                        _home_died(stay)
                    elif _host(stay) == record.broker and stay.next_at is None and _lapsed(stay):
                        stay.judged = True  # a crash ends the time that its client was given
                        _home_died(stay)
            return
        Stays.noted(self, record)

    def _ended(self, record: Record) -> None:
        for stay in reversed(self.by_client.get(record.client, ())):
            if _host(stay) == record.broker and stay.ended_at is None:
                stay.ended_at = record.at_us
                assert isinstance(stay.pipe, WanderPipe)
                if stay.pipe.home:
                    if record.detail == BROKE:
                        self._judge_broken(record, stay.pipe)
                    self.pipes.over(stay.pipe, goodbye=record.detail == GOODBYE)
                    if record.detail == WITH_ITS_TREE:
                        stay.pipe.lapsed = True
                        self.spans.setdefault(record.client, []).append([record.at_us, record.at_us + self.patience_us])
                return
        if self.welcomes.get((record.client, record.broker)) == record.cause:
            self.brief[record.client, record.broker] = record.at_us

    def _judge_broken(self, record: Record, pipe: WanderPipe) -> None:
        """Home takes the connection of a visitor for broken: its broker must have said so, and not read a goodbye."""
        where = f"{record.broker} lost connection {pipe.number} of {pipe.client} at {pipe.broker}"
        if pipe.said is not None:
            self.violate("goodbye", f"{where}, which has read a goodbye")
        elif not pipe.ended:
            self.violate("tunnel", f"{where}, which is open")

    def began(self, pipe: WanderPipe, present: bool) -> None:
        """A broker sends a CONNACK that welcomes a client."""
        taken_at = self.taken_at.pop((pipe.client, pipe.host), self.now())
        must, stays = self._present(pipe, taken_at), self.by_client.setdefault(pipe.client, [])
        if stays and stays[-1].next_at is None:
            stays[-1].next_at, stays[-1].next_clean_start = taken_at, pipe.connect.clean_start
        stay = Stay(pipe, must, self.brief.pop((pipe.client, pipe.host), None))
        stays.append(stay)
        self.by_number[pipe.number] = stay
        self._judge_present(pipe, present)

    def welcomed(self, pipe: object, present: bool) -> None:
        """Judged when the CONNACK was sent."""

    def _judge_present(self, pipe: WanderPipe, present: bool) -> None:
        Stays.welcomed(self, pipe, present)

    def _present(self, pipe: WanderPipe, taken_at: Instant) -> bool | None:
        """Whether a session must be found by a broker that took the connection then; None: either is right."""
        stays = self.by_client.get(pipe.client)
        if pipe.connect.clean_start or not stays:
            return False
        before = stays[-1]
        if pipe.client in self.split or self._doubtful(before):
            return None
        if before.ends_session:
            return False
        if before.ended_at is None:
            other = f"{before.pipe.broker} serves it on connection {before.pipe.number}"
            self.violate("two", f"{pipe.broker} serves {pipe.client} on connection {pipe.number}, and {other}")
            return None
        over_at, now = before.ended_at + before.expiry_us, self.now()
        assert isinstance(before.pipe, WanderPipe)
        since = (before.pipe.reached_at or 0) + 1
        if self.pipes.stale(before.pipe, now) or self.pipes.starts_clean(pipe.client, since, now):
            return None  # the session may have ended for a client that did not wait for the new one
        if taken_at < over_at:
            return True
        suspended = self._suspended(before.pipe, before.ended_at, over_at, taken_at)
        return None if suspended or taken_at == over_at else False

    @staticmethod
    def _doubtful(stay: Stay) -> bool:
        assert isinstance(stay.pipe, WanderPipe)
        return stay.pipe.doubtful

    def may_be_over(self, client: ClientId) -> bool:
        """Whether the session of a client may have ended by now."""
        stays = self.by_client.get(client)
        if not stays or client in self.split:
            return True
        last = stays[-1]
        assert isinstance(last.pipe, WanderPipe)
        goodbye = last.pipe.goodbye
        if not last.expiry_us or (goodbye is not None and goodbye.properties.session_expiry_s == 0):
            return True
        since = (last.pipe.reached_at or 0) + 1
        if self.pipes.starts_clean(client, since, self.now()) or self.pipes.stale(last.pipe, self.now()):
            return True
        return last.ended_at is not None and self.now() - last.ended_at >= last.expiry_us

    def part(self, client: ClientId) -> None:
        """From now on until the network is whole nothing is promised about a client."""
        self.splits += client not in self.split
        self.split[client] = None
        self.parted(client)

    def whole(self) -> None:
        """Everybody has one session again; the wills of those who may have had two are not judged."""
        for client in self.split:
            for stay in self.by_client.get(client, [])[:-1]:
                stay.judged = True
        self.split.clear()

    # -- tunnels -------------------------------------------------------------------------------------------------------

    def asks(self, sender: BrokerId, frame: Ask) -> None:
        """A frame has left a broker: with a CONNECT it asks another one to serve its client. It may have waited for the
        disk, and may leave again over a link that had to be made again: the client may have connected anew since."""
        connect = frame.connect.packets[0] if frame.connect is not None else None
        if isinstance(connect, Connect) and not frame.user and frame.from_broker == sender:
            pipe = self.pipes.asked(frame, connect, self.now() - frame.age_us)
            self.asked.setdefault(str(frame.attempt), pipe)

    def tunnelled(self, record: Record) -> WanderPipe | None:
        """The connection that a broker serves from now on through another one."""
        pipe = self.asked.get(record.detail.partition(THROUGH)[2])
        if pipe is None:
            return None
        if (before := self.by_number.get(pipe.number)) is not None:
            before.judged = True  # its CONNECT is answered by the second tunnel
            pipe.again += 1
        pipe.home, pipe.lapsed, pipe.over, pipe.superseded = record.broker, False, False, False
        return pipe

    # -- hand-overs under way ----------------------------------------------------------------------------------------

    def sent(self, sender: BrokerId, frame: Standing | AskRefused | Taken) -> None:
        """A frame has left a broker."""
        if isinstance(frame, Standing):
            if frame.from_broker == sender and frame.attempt not in self.given_up:
                self._end_span(frame.client)
                self.leaving[frame.client] = (sender, frame.attempt)
                self.spans.setdefault(frame.client, []).append([self._made_at(frame)])
        elif isinstance(frame, AskRefused) or not frame.yes:
            self.given_up[frame.attempt] = None
            if (entry := self.leaving.get(frame.client)) is not None and entry[1] == frame.attempt:
                self._stays_or_is_gone(frame.client)

    def _made_at(self, frame: Standing) -> Instant:
        """When a frame was made that says how long the client has been away: it may have waited for a slow disk."""
        last = self.by_client.get(frame.client, [None])[-1]
        if last is None or last.ended_at is None:
            return self.now()
        return max(self.now() - WRITES_US, min(self.now(), last.ended_at + frame.away_us))

    def _came_back(self, record: Record) -> None:
        """A client is back at the broker that hands its session over: that is over, although the frame that says so may
        wait for a link."""
        broker, attempt = self.leaving.get(record.client, ("", None))
        if broker == record.broker and attempt is not None:
            self.given_up[attempt] = None
            self._stays_or_is_gone(record.client)

    def _stays_or_is_gone(self, client: ClientId, late_us: int = 0) -> None:
        """A hand-over is over. If its tree was lost, the old broker waits some time for another question."""
        if self.leaving.pop(client, None) is not None:
            self._end_span(client, late_us)

    def _end_span(self, client: ClientId, late_us: int = 0) -> None:
        spans = self.spans.get(client)
        if spans and len(spans[-1]) == 1:
            spans[-1].append(self.now() + late_us)

    def _suspended(self, pipe: WanderPipe, since: Instant, due: Instant, now: Instant) -> bool:
        """Whether a will, or the end of a session, that is due may be late: because the session is handed over at that
        moment, because the time on the way did not count when it was before, or because its client waited for it at
        another broker."""
        lag_us = 0
        for start, *end in self.spans.get(pipe.client, ()):
            until = end[0] if end else now
            if start <= due + lag_us and until >= since:
                lag_us += until - start + LATE_US
        return now <= due + lag_us or self.pipes.waited(pipe, since, due)

    def _judge_leaving(self, record: Record) -> None:
        """A will that waits goes on waiting while its session is handed over, unless the session ends."""
        _, client, number = record.topic.split("/")
        stay, entry = self.by_number.get(int(number)), self.leaving.get(client)
        will = stay.pipe.connect.will if stay is not None else None
        if entry is None or entry[0] != record.broker or will is None or not will.properties.will_delay_s:
            return

        in_tree = self.in_tree(record.broker)  # a hand-over ends with its tree

        def judge() -> None:
            over = record.cause in self.endings or entry[1] in self.given_up  # in this very step, perhaps
            if in_tree and not over:
                self.violate("will", f"{record.broker} published {record.topic} while it handed the session over")

        self.later(judge)

    # -- wills ---------------------------------------------------------------------------------------------------------

    def check_wills(self) -> None:
        Stays.check_wills(self)
        for topic, count in self.wills.items():
            number = int(topic.rpartition("/")[2])
            if count and number not in self.by_number:
                self.violate("will", f"{topic} was published, and nobody was welcomed with it")

    def _wills_most(self, number: int) -> int:
        stay = self.by_number.get(number)
        if stay is None or not isinstance(stay.pipe, WanderPipe):
            return 1
        return 1 + stay.pipe.again + (stay.pipe.client in self.split)  # either of two sessions may have it

    def ends_promised(self, broker: BrokerId, topic: str) -> None:
        """A broker ends a session for a client that begins anew, and does not know that another one has taken it: both
        may publish its will (`docs/protocol/hand-over.md`, "What is not promised")."""
        self.ending[broker, topic] = None
        self.later(self.ending.clear)

    def _count(self, topic: str, must: int) -> int:
        """What came with a session that another broker had taken counts if it must have come."""
        count = self.wills[topic]
        return min(max(count, must), count + self.doubled[topic])

    def published_again(self, topic: str) -> int:
        """How often a will was published beyond the first time, as two sentences of `docs/protocol/hand-over.md`, "What
        is not promised", allow: home died between the CONNECT and its CONNACK, or a session ended that another broker
        had taken. To whoever gets it, each is an event of its own."""
        stay = self.by_number.get(int(topic.rpartition("/")[2]))
        pipe = stay.pipe if stay is not None else None
        asked_again = pipe.again if isinstance(pipe, WanderPipe) and pipe.home_died else 0
        return max(0, min(self.wills[topic], 1 + asked_again) + self.doubled[topic] - 1)

    def _must(self, stay: Stay, delay_s: int) -> int | None:
        client = stay.pipe.client
        assert isinstance(stay.pipe, WanderPipe)
        if self._doubtful(stay) or client in self.split or self.pipes.stale(stay.pipe, stay.ended_at or self.now()):
            stay.judged = True
            return None
        if stay.pipe.again:
            return None  # home may have died before it could say so, and published the will then
        if stay.pipe.lapsed and not stay.ends_session:
            return self._must_after_tree(stay, delay_s)
        must = Stays._must(self, stay, delay_s)
        goodbye = stay.pipe.goodbye
        deleted = stay.clean and goodbye is not None and goodbye.reason == Reason.SUCCESS
        if stay.ended_at is None or not delay_s or deleted or must is None or stay.next_at is None:
            return must
        if stay.ends_session or stay.next_clean_start:
            return must
        if self.pipes.starts_clean(client, (stay.pipe.reached_at or 0) + 1, stay.next_at):
            return None  # the session may have ended for a client that did not wait for the new one
        if must == 0:
            return must
        due = stay.ended_at + min(delay_s * SECOND_US, stay.expiry_us)
        return None if self._suspended(stay.pipe, stay.ended_at, due, stay.next_at) else must

    def _must_after_tree(self, stay: Stay, delay_s: int) -> int | None:
        """The will of a client whose tunnel ended with its tree waits at least as long as a CONNECT may."""
        if stay.next_at is None or stay.ended_at is None or stay.next_clean_start:
            return None
        away_us, wait_us = stay.next_at - stay.ended_at, min(delay_s * SECOND_US, stay.expiry_us)
        if away_us < self.patience_us - LATE_US:
            return 0
        over = away_us > max(self.patience_us, wait_us) + LATE_US
        assert isinstance(stay.pipe, WanderPipe)
        due = stay.ended_at + max(self.patience_us, wait_us)
        return 1 if over and not self._suspended(stay.pipe, stay.ended_at, due, stay.next_at) else None


def _host(stay: Stay) -> BrokerId:
    assert isinstance(stay.pipe, WanderPipe)
    return stay.pipe.host


def _home_died(stay: Stay) -> None:
    assert isinstance(stay.pipe, WanderPipe)
    stay.pipe.home_died |= bool(stay.pipe.home)


def _lapsed(stay: Stay) -> bool:
    assert isinstance(stay.pipe, WanderPipe)
    return stay.pipe.lapsed
