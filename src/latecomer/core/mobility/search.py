"""Looking for a session: where a client's session is, and what the client is told when it cannot be had."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.mobility.arrival import Arrival, Arrivals, Stage
from latecomer.core.mobility.departure import Departures
from latecomer.core.mobility.doubts import Doubts
from latecomer.core.mobility.going_on import GoingOn
from latecomer.core.mobility.seek import Seeking
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.mobility.whereabouts import Directory
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Refusal
from latecomer.messages.hand_over import AskRefused, End, Here, Remembered, Seeker
from latecomer.messages.mqtt import Reason
from latecomer.model.ids import BrokerId, Instant

AGAIN_US = 100_000
"""After so long a broker that has too much to do is asked again."""


@dataclass(slots=True)
class Search:
    """Decides, for each CONNECT that waits, whom to ask for its session and how to answer it."""

    broker: BrokerId
    orders: Orders
    interest: Interest
    membership: Membership
    passage: Passage
    sessions: Sessions
    arrivals: Arrivals
    departures: Departures
    seeking: Seeking
    directory: Directory
    doubts: Doubts
    settings: HandOverSettings
    going_on: GoingOn
    started_at: Instant = 0
    dues: list[tuple[Instant, int, Arrival]] = field(default_factory=list)
    """A heap: when to look whether a client has waited long enough. It may be given more time meanwhile."""
    by_wave: dict[int, list[Arrival]] = field(default_factory=dict)
    """Arrivals by the fence behind which all answers about them have come."""
    early: list[Arrival] = field(default_factory=list)
    """Arrivals that nobody knows, as far as can be told so soon after this broker's start."""
    again: deque[tuple[Instant, Arrival]] = field(default_factory=deque)
    """Those whose broker had too much to do: when to ask it again."""
    _order: int = 0

    def watch(self, arrival: Arrival) -> None:
        """A client waits: answer it in time."""
        self._order += 1
        heappush(self.dues, (arrival.due, self._order, arrival))

    def _waits(self, arrival: Arrival) -> bool:
        return self.arrivals.by_client.get(arrival.client) is arrival

    # -- whom to ask -------------------------------------------------------------------------------------------------

    def look_for(self, arrival: Arrival) -> None:
        """Ask whoever may have the session: who was promised ours, who is named, or everybody."""
        if arrival.client in self.departures.promises:
            self.departures.offer(arrival.client)
            return
        hint, arrival.hint = arrival.hint, ""
        if hint and hint != self.broker and self.is_there(hint) and self.arrivals.ask(arrival, hint):
            return
        self.seek(arrival)

    def seek(self, arrival: Arrival) -> None:
        """Ask everybody."""
        arrival.wave = 0

        def question() -> Seeker | None:
            if not self._waits(arrival) or arrival.stage is not Stage.SEEKING:
                return None
            return Seeker(arrival.client, arrival.user, self.orders.now - arrival.since, go_on=arrival.go_on)

        self.seeking.ask(arrival.client, question)

    def asked(self, seekers: list[Seeker], wave: int) -> None:
        """All answers about these clients have come when the fence of this number has passed."""
        for seeker in seekers:
            if seeker.ends:
                self.doubts.asked(seeker.client, wave)
                continue
            arrival = self.arrivals.by_client.get(seeker.client)
            if arrival is not None and arrival.stage is Stage.SEEKING:
                arrival.wave, arrival.asked_at = wave, self.orders.now
                arrival.heard, arrival.remembered = [], []
                self.by_wave.setdefault(wave, []).append(arrival)
        if self.seeking.fences.done >= wave:
            self.passed(wave)

    def passed(self, wave: int) -> None:
        for number in [number for number in self.by_wave if number <= wave]:
            for arrival in self.by_wave.pop(number, ()):
                if self._waits(arrival) and arrival.stage is Stage.SEEKING and arrival.wave == number:
                    arrival.wave = 0
                    self._decide(arrival)

    def on_here(self, frame: Here) -> None:
        arrival = self.arrivals.by_client.get(frame.client)
        if arrival is not None and arrival.stage is Stage.SEEKING and arrival.wave and arrival.user == frame.user:
            arrival.heard.append(frame)

    def on_remembered(self, frame: Remembered) -> None:
        arrival = self.arrivals.by_client.get(frame.client)
        if arrival is not None and arrival.stage is Stage.SEEKING and arrival.wave and arrival.user == frame.user:
            arrival.remembered += self.going_on.read(frame)

    # -- what to do ----------------------------------------------------------------------------------------------------

    def _decide(self, arrival: Arrival) -> None:
        """Everybody has answered."""
        heard, arrival.heard = arrival.heard, []
        owner = self.directory.owners.get(arrival.client)
        if owner is not None and owner in self.membership.link_states.absent_since:
            refusal = "user" if self.going_on.of_another(arrival.client, arrival.user) else ""
            heard.append(
                Here(self.broker, self.broker, arrival.client, owner, refusal=refusal, user=arrival.user),
            )
        refusals = [here.refusal for here in heard if here.refusal]
        if refusals:
            self._refused(arrival, "user" if "user" in refusals else "younger")
            return
        if any(here.promised for here in heard):
            self.seek(arrival)  # it is about to be known whose the session is
            return
        own = [here for here in heard if here.owner == here.from_broker]
        if arrival.clean:
            arrival.asked_all = len(own) == len(heard)
            self._begin_anew(arrival, own)
            return
        owners = sorted((not here.connected, here.age_us, here.owner) for here in own)
        said = [here.owner for here in heard if here.owner != self.broker and here.owner not in arrival.denied]
        names = [owner for *_, owner in owners] or said
        if not names:  # the client said so, it went there from here, or was asked for there
            absent, known = self.membership.link_states.absent_since, (arrival.word, arrival.owner)
            names = [name for name in known if name in absent and name not in arrival.denied]
        there = list(dict.fromkeys(name for name in names if self.is_there(name)))
        if there:
            arrival.unsure = tuple(there[1:]) if owners else ()
            self.arrivals.ask(arrival, there[0])
        elif names:
            arrival.waits_for = names[0]
            if arrival.go_on:
                self._nobody(arrival)
        else:
            self._nobody(arrival)

    def _begin_anew(self, arrival: Arrival, others: list[Here]) -> None:
        """Sessions that others have end first; unless the client has surely connected there after it came here."""
        now = self.orders.now
        if any(here.age_us + now - arrival.asked_at < now - arrival.since for here in others if here.connected):
            self.taken_over(arrival)
            return
        for here in others:
            self.passage.send(here.from_broker, End(self.broker, here.from_broker, arrival.client, here.stamp))
        if others:
            self.seek(arrival)
        else:
            self._nobody(arrival)

    def _nobody(self, arrival: Arrival) -> None:
        """No broker that is there has the session, and the client does not wait for one that is away."""
        now, absent = self.orders.now, self.membership.link_states.absent_since
        if (absent or self.membership.uncharted) and not arrival.clean and now < arrival.due:
            charted_at = self.started_at + self.settings.patience_us
            if now < charted_at:  # this broker has just begun, and does not see yet who else there is
                self.orders.wake(charted_at)
                arrival.answered = True
                self.early.append(arrival)
                return
            if not arrival.go_on and not self.directory.would_know(arrival.client, self._can_tell):
                arrival.answered = True  # perhaps one of those is back before the client has waited long enough
                return
        fact, client, restored = arrival.fact, arrival.client, None
        if not arrival.clean:
            restored = self.going_on.restored(arrival.remembered, client, arrival.user, go_on=arrival.go_on)
        self.arrivals.drop(arrival)
        if fact is not None:
            self.sessions.answer(fact, client, arrival.since, restored, asked=arrival.asked_all)

    def _can_tell(self, broker: BrokerId) -> bool:
        return broker == self.broker or self.is_there(broker)

    def on_ask_refused(self, frame: AskRefused) -> None:
        arrival = self.arrivals.of(frame.attempt, frame.client)
        if arrival is None or arrival.owner != frame.from_broker:
            return
        if arrival.fact is None:
            self.arrivals.drop(arrival)  # it was to come while its client is away: then it stays where it is
        elif frame.refusal in ("user", "younger"):
            self._refused(arrival, frame.refusal)
        elif frame.refusal == "ended" and not arrival.unsure:
            self._nobody(arrival)  # otherwise somebody else has one that has not ended
        elif frame.refusal == "busy":
            self.arrivals.begin_later(arrival)
            self.again.append((self.orders.wake(self.orders.now + AGAIN_US), arrival))
        else:
            arrival.denied[frame.from_broker] = None
            self.arrivals.begin_anew(arrival)

    def is_there(self, broker: BrokerId) -> bool:
        tree = self.interest.tree
        return tree is not None and self.interest.ready and broker in tree.parent

    # -- what the client is told ---------------------------------------------------------------------------------------

    def _refused(self, arrival: Arrival, why: str) -> None:
        if why == "user":
            self.give_up(arrival, Reason.CLIENT_IDENTIFIER_NOT_VALID, "this client id belongs to somebody else")
        else:
            self.taken_over(arrival)

    def taken_over(self, arrival: Arrival) -> None:
        self.give_up(arrival, Reason.SESSION_TAKEN_OVER, "another connection uses this client id")

    def give_up(self, arrival: Arrival, reason: Reason, problem: str) -> None:
        self.arrivals.drop(arrival)
        self.refuse(arrival, reason, problem)

    def refuse(self, arrival: Arrival, reason: Reason, problem: str) -> None:
        if arrival.fact is not None:
            self.sessions.refuse(arrival.fact, Refusal(reason, problem))

    def due(self) -> Instant | None:
        """When the first client is told to try again later, or that it has a new session."""
        dues = self.dues
        while dues and not self._waits(dues[0][2]):
            heappop(dues)
        if not dues and not self.early and not self.again:
            return None
        first = dues[0][0] if dues else None
        charted = self.started_at + self.settings.patience_us
        found = (first, charted if self.early else None, self.again[0][0] if self.again else None)
        return min((due for due in found if due is not None), default=None)

    def woken(self) -> None:
        now = self.orders.now
        while self.dues and self.dues[0][0] <= now:
            _, _, arrival = heappop(self.dues)
            if not self._waits(arrival):
                continue
            if arrival.due > now:
                self.watch(arrival)
            else:
                self._impatient(arrival)
        while self.again and self.again[0][0] <= now:
            _, arrival = self.again.popleft()
            if self._waits(arrival) and arrival.busy and arrival.stage is Stage.SEEKING:
                arrival.hint = arrival.busy
                self.look_for(arrival)
        if self.early and self.started_at + self.settings.patience_us <= now:
            early, self.early = self.early, []
            for arrival in early:
                if self._waits(arrival) and arrival.answered:
                    self._nobody(arrival)

    def _impatient(self, arrival: Arrival) -> None:
        """The client has waited long enough."""
        if arrival.answered or arrival.clean:
            arrival.asked_all = arrival.asked_all and arrival.answered
            self._nobody(arrival)
        elif arrival.waits_for:
            problem = f"what belongs to the session is at {arrival.waits_for}, which is away: try again later"
            self.give_up(arrival, Reason.SERVER_UNAVAILABLE, problem)
        elif arrival.busy:
            problem = f"too many sessions are leaving {arrival.busy} at the moment: try again later"
            self.give_up(arrival, Reason.SERVER_BUSY, problem)
        else:
            self.give_up(arrival, Reason.SERVER_UNAVAILABLE, "the network is being rearranged: try again later")
