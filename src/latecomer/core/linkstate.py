"""Link state: what every broker says of its own links, flooded to all, newest wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from latecomer.messages.link import LinkState, Neighbour, Summary
from latecomer.model.ids import BrokerId, Instant

LIFE = 1 << 40
"""More link states than a broker tells of in one life. Where a number is a multiple of it, somebody else has said that
the broker is no more; the broker itself, should it hear of that, counts on from there."""


@dataclass(slots=True)
class LinkStateDatabase:
    """The newest link state of every broker heard of, the absent ones included."""

    broker: BrokerId
    boot: int
    states: dict[BrokerId, LinkState] = field(default_factory=dict)
    absent_since: dict[BrokerId, Instant] = field(default_factory=dict)
    """Known brokers that cannot be reached, and since when."""
    forgotten: dict[BrokerId, int] = field(default_factory=dict)
    """Those that nobody waits for any more, and which of their lives was the last; a newer one is news."""
    returned: list[BrokerId] = field(default_factory=list)
    """Those that were forgotten and are back."""
    lost_since: dict[BrokerId, Instant] = field(default_factory=dict)
    """Since when those that were forgotten had been away."""
    apart_since: Instant | None = None
    """Since when the one that had been away longest, of those who just came back, was away."""
    _seq: int = 0

    def remember(self, broker: BrokerId, now: Instant) -> None:
        """A broker known from before a restart, and not heard of since: an empty state that anything replaces."""
        self.states[broker] = LinkState(broker, 0, 0, ())
        self.absent_since[broker] = now

    def originate(self, neighbours: Iterable[Neighbour]) -> LinkState:
        """Say anew which links this broker has."""
        self._seq += 1
        state = LinkState(self.broker, self.boot, self._seq, tuple(neighbours))
        self.states[self.broker] = state
        return state

    def merge(self, states: Iterable[LinkState]) -> list[LinkState]:
        """Take in what is newer; returns exactly that, to be flooded on."""
        news = []
        for state in states:
            if state.broker == self.broker:
                continue  # nobody knows our links better than we do
            old = self.states.get(state.broker)
            if old is None or (state.boot, state.seq) > (old.boot, old.seq):
                self.states[state.broker] = state
                news.append(state)
        return news

    def summary(self) -> Summary:
        return Summary(tuple((s.broker, s.boot, s.seq) for s in self.states.values()))

    def newer_than(self, summary: Summary) -> tuple[LinkState, ...]:
        """What the sender of the summary does not know yet."""
        theirs = {broker: (boot, seq) for broker, boot, seq in summary.entries}
        return tuple(s for s in self.states.values() if theirs.get(s.broker, (-1, -1)) < (s.boot, s.seq))

    def mark_absent(self, reachable: Mapping[BrokerId, object], now: Instant) -> None:
        """Note who can be reached and since when the others cannot."""
        for broker, state in self.states.items():
            if broker in self.forgotten and (broker in reachable or state.boot > self.forgotten[broker]):
                del self.forgotten[broker]
                self.returned.append(broker)
            if broker in reachable:
                since = self.absent_since.pop(broker, self.lost_since.pop(broker, None))
                if since is not None and (self.apart_since is None or since < self.apart_since):
                    self.apart_since = since
            elif broker not in self.forgotten:
                self.absent_since.setdefault(broker, now)

    def unheard(self) -> bool:
        """Whether somebody names a neighbour that nobody here has ever heard of."""
        return any(n.broker not in self.states for state in self.states.values() for n in state.neighbours)

    def remembered_only(self) -> bool:
        """Whether there is a broker of which nothing is known but that it exists."""
        return any(state.boot == 0 for state in self.states.values() if state.broker not in self.forgotten)

    def bury(self, broker: BrokerId) -> LinkState:
        """Say in the place of a broker, and newer than anything it has said in this life, that it is no more."""
        last = self.states[broker]
        self.states[broker] = LinkState(broker, last.boot, (last.seq // LIFE + 1) * LIFE, ())
        return self.states[broker]

    def buried(self, broker: BrokerId) -> bool:
        """Whether the newest that is known of a broker is that it is no more."""
        last = self.states.get(broker)
        return last is not None and last.seq > 0 and last.seq % LIFE == 0

    def outlived(self, states: Iterable[LinkState]) -> bool:
        """Whether somebody takes this broker, in this life, for one that is no more; what it says next is newer."""
        end = (self._seq // LIFE + 1) * LIFE
        if any((state.broker, state.boot, state.seq) == (self.broker, self.boot, end) for state in states):
            self._seq = end
            return True
        return False

    def forget(self, now: Instant, after_us: int) -> list[BrokerId]:
        """Stop waiting for the brokers that have been away too long, or are no more; returns them. Their link states
        stay: if some kept a state and others did not, they could never agree on a tree with that broker again."""
        gone = [broker for broker, since in self.absent_since.items() if now - since >= after_us or self.buried(broker)]
        for broker in gone:
            self.lost_since[broker] = self.absent_since.pop(broker)
            self.forgotten[broker] = self.states[broker].boot
        return gone
