"""Shared subscriptions: each message goes to one member of the group, wherever in the network its members are.

Every broker tells all others which groups have members with it, and how many: everything at the start of a link session
and of a life, afterwards what changed. The last word of a broker is the one with its largest (boot, number). The
*origin* of an event chooses, once, the broker whose members get it, and writes the choice into the event; that broker
chooses among its own members. So one decision stands behind every delivery, and an event that is sent again in another
tree takes its choice along. What the others said is kept on disk: a broker that was just started must not choose as if
there were no members but its own.

A chosen broker that has no members any more hands the event on to another broker (`events.hand_on`). So does the broker
of a member whose session ended before it acknowledged the event.

A group that the others cannot be told of is refused when a client asks for it (`problem`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field

from latecomer.core.clients import Disk
from latecomer.core.effects import Drop, Put
from latecomer.core.index import FilterIndex
from latecomer.core.orders import Orders
from latecomer.messages.link import GROUP_NAME_MAX, GROUPS_MAX, SessionFrame, Sharing, SharingChange
from latecomer.model.event import Value
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId

CHOICES_MAX = 65_536
"""Topics whose groups are remembered."""
WORD_MAX = 2_097_152
"""Characters of groups and filters that one broker may have: all of them must fit into a frame."""
NETWORK_MAX = 16 * WORD_MAX
"""Characters of the groups of all brokers together up to which a broker grants new ones. Brokers that grant at the same
time can pass it, so a neighbour may tell of twice as much."""
CHOSEN_MAX = 32_768
"""Characters of choices that one event carries; what is beyond travels in further copies for groups only."""
PLAIN_MAX = 48
"""Characters of a group and its filter that an event names as they are; longer ones by a digest."""

GroupKey = tuple[str, Filter]
GroupName = tuple[str, str]
"""A group as events name it: its name and filter, or nothing and a digest of both."""
Choice = tuple[str, str, str]
"""The name of a group in two parts, and the broker that serves it."""


def name_of(group: str, filter: str) -> GroupName:
    """How an event names a group; a name that is a digest already stays as it is."""
    if not group or len(group) + len(filter) <= PLAIN_MAX:
        return group, filter
    return "", hashlib.blake2b(f"{group}/{filter}".encode(), digest_size=12).hexdigest()


@dataclass(slots=True)
class Group:
    """The members of a group at this broker, and whose turn it is."""

    members: dict[ClientId, None] = field(default_factory=dict)
    turn: int = 0

    def rotate(self) -> list[ClientId]:
        """The members, beginning with the one whose turn it is."""
        members = list(self.members)
        self.turn = (self.turn + 1) % len(members)
        return members[self.turn :] + members[: self.turn]


@dataclass(slots=True)
class Word:
    """What another broker said last: how many members of each group it has."""

    boot: int
    number: int
    counts: dict[GroupKey, int] = field(default_factory=dict)
    size: int = 0
    """Characters of the groups."""

    def frame(self, broker: BrokerId) -> Sharing:
        return Sharing(broker, self.boot, self.number, tuple((*key, count) for key, count in self.counts.items()))


@dataclass(slots=True)
class Shares:
    """Who has members of which group."""

    broker: BrokerId
    orders: Orders
    send: Callable[[BrokerId, SessionFrame], None]
    neighbours: Callable[[], list[BrokerId]]
    wake: Callable[[], None]
    """Asks for `flush` soon: changes are told together."""
    heard: Callable[[], None]
    """Called when others have other members."""
    reject: Callable[[BrokerId, str], None]
    brokers_max: int
    groups: dict[GroupKey, Group] = field(default_factory=dict)
    told: dict[BrokerId, Word] = field(default_factory=dict)
    """The last word of every other broker."""
    number: int = 0
    """Of the last word that this broker told in this life."""
    size: int = 0
    """Characters of the groups of this broker."""
    told_size: int = 0
    """Characters of the groups of all others, counted once for each broker."""
    changed: dict[GroupKey, None] = field(default_factory=dict)
    """Groups of this broker whose members changed since `flush`."""
    waiting: bool = False
    """`flush` was asked for."""
    _names: dict[GroupName, GroupKey] = field(default_factory=dict)
    """The groups that have members anywhere, as events name them."""
    _places: dict[GroupKey, dict[BrokerId, int]] = field(default_factory=dict)
    _index: FilterIndex = field(default_factory=FilterIndex)
    _by_filter: dict[Filter, list[str]] = field(default_factory=dict)
    _by_topic: dict[str, list[GroupKey]] = field(default_factory=dict)
    _turns: dict[GroupKey, int] = field(default_factory=dict)

    def recover(self, disk: Disk) -> None:
        """Find what the others said last."""
        rows = disk.get("share", {})
        for frame in disk.get("sharing", {}).get("", {}).values():
            assert isinstance(frame, Sharing)
            word = self.told[frame.broker] = Word(frame.boot, frame.number)
            for row in rows.get(frame.broker, {}).values():
                assert isinstance(row, tuple)
                group, filter, count = row
                self._put(frame.broker, word, (group, filter), count)
            if frame.entries:  # an older release wrote all of it into one row
                for group, filter, count in frame.entries:
                    self._put(frame.broker, word, (group, filter), count)
                    self._keep(frame.broker, (group, filter), count)
                self._keep_number(frame.broker, word)

    # -- own members -------------------------------------------------------------------------------------------------

    def problem(self, key: GroupKey) -> str | None:
        """Why a client cannot become a member of a group here: the other brokers could not be told of it."""
        if key in self.groups:
            return None
        if len(key[0].encode()) > GROUP_NAME_MAX:
            return f"the name of a group has at most {GROUP_NAME_MAX} bytes"
        size = size_of(key)
        if len(self.groups) >= GROUPS_MAX or self.size + size > WORD_MAX:
            return "this broker has no room for more groups of shared subscriptions"
        if self.size + self.told_size + size > NETWORK_MAX:
            return "the network has no room for more groups of shared subscriptions"
        return None

    def join(self, key: GroupKey, client: ClientId) -> bool:
        """Whether the group is new at this broker."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group()
            self.size += size_of(key)
        first = not group.members
        group.members[client] = None
        self._own_changed(key, len(group.members))
        return first

    def leave(self, key: GroupKey, client: ClientId) -> bool:
        """Whether nobody of the group is left at this broker."""
        group = self.groups[key]
        del group.members[client]
        if not group.members:
            del self.groups[key]
            self.size -= size_of(key)
        self._own_changed(key, len(group.members))
        return not group.members

    def _own_changed(self, key: GroupKey, count: int) -> None:
        self._place(key, self.broker, count)
        self.changed[key] = None
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self.waiting:
            self.waiting = True
            self.wake()

    def flush(self) -> None:
        """Tell the others what changed here."""
        if not self.waiting:
            return
        self.waiting = False
        changed, self.changed = self.changed, {}
        first, self.number = not self.number, self.number + 1
        whole = first or len(changed) > len(self.groups) or sum(map(size_of, changed)) > WORD_MAX
        frame = self._word() if whole else self._change(changed)
        for peer in self.neighbours():
            self.send(peer, frame)

    def _word(self) -> Sharing:
        entries = tuple((group, filter, len(of.members)) for (group, filter), of in self.groups.items())
        return Sharing(self.broker, self.orders.boot, self.number, entries)

    def _change(self, changed: Mapping[GroupKey, None]) -> SharingChange:
        entries = []
        for key in changed:
            group = self.groups.get(key)
            entries.append((*key, 0 if group is None else len(group.members)))
        return SharingChange(self.broker, self.orders.boot, self.number, tuple(entries))

    # -- between brokers ---------------------------------------------------------------------------------------------

    def greet(self, peer: BrokerId) -> None:
        """A link session began: tell everything."""
        if self.groups or self.number:
            self.send(peer, self._word())
        for broker, word in self.told.items():
            self.send(peer, word.frame(broker))

    def on_sharing(self, peer: BrokerId, frame: Sharing) -> None:
        """Another broker's groups, all of them."""
        if not self._is_news(frame):
            return
        before = self.told.get(frame.broker)
        if before is None and len(self.told) >= self.brokers_max:
            self.reject(peer, f"it tells of more than {self.brokers_max} brokers, which core.brokers_max allows")
            return
        counts = {(group, filter): count for group, filter, count in frame.entries}
        changes = dict(counts)
        if before is not None:
            changes = {key: 0 for key in before.counts if key not in counts} | {
                key: count for key, count in counts.items() if before.counts.get(key) != count
            }
        self._apply(peer, frame, before or Word(0, 0), changes)

    def on_change(self, peer: BrokerId, frame: SharingChange) -> None:
        """What changed of another broker's groups since its word before this one."""
        if not self._is_news(frame):
            return
        word = self.told.get(frame.broker)
        if word is None or (word.boot, word.number + 1) != (frame.boot, frame.number):
            # A session begins with everything, and whoever tells a change has told the word before it.
            self.reject(peer, f"it tells a change of the groups at {frame.broker!r} without what was before it")
            return
        self._apply(peer, frame, word, {(group, filter): count for group, filter, count in frame.entries})

    def _is_news(self, frame: Sharing | SharingChange) -> bool:
        if frame.broker == self.broker:
            if frame.boot < self.orders.boot and not self.number:
                self._tell_soon()  # our word of an earlier life: nobody heard yet that those members are gone
            return False
        word = self.told.get(frame.broker)
        return word is None or (word.boot, word.number) < (frame.boot, frame.number)

    def _apply(
        self, peer: BrokerId, frame: Sharing | SharingChange, word: Word, changes: Mapping[GroupKey, int]
    ) -> None:
        groups, size = len(word.counts), word.size
        for key, count in changes.items():
            step = bool(count) - (key in word.counts)
            groups, size = groups + step, size + step * size_of(key)
        if groups > GROUPS_MAX or size > WORD_MAX:
            self.reject(peer, f"it tells of {groups} groups with {size} characters at {frame.broker!r}, which is more "
                              f"than the {GROUPS_MAX} groups or {WORD_MAX} characters that are allowed")  # fmt: skip
            return
        if self.told_size + size - word.size > 2 * NETWORK_MAX:
            self.reject(peer, f"it tells of groups with more than {2 * NETWORK_MAX} characters altogether")
            return
        self.told[frame.broker] = word
        word.boot, word.number = frame.boot, frame.number
        for key, count in changes.items():
            self._put(frame.broker, word, key, count)
            self._keep(frame.broker, key, count)
        self._keep_number(frame.broker, word)
        for other in self.neighbours():
            if other != peer:
                self.send(other, frame)
        self.heard()

    def _put(self, broker: BrokerId, word: Word, key: GroupKey, count: int) -> None:
        known = key in word.counts
        if count:
            word.counts[key] = count
        elif known:
            del word.counts[key]
        step = (bool(count) - known) * size_of(key)
        word.size += step
        self.told_size += step
        self._place(key, broker, count)

    def _keep(self, broker: BrokerId, key: GroupKey, count: int) -> None:
        row = f"{key[0]}/{key[1]}"
        self.orders.writes.append(Put("share", broker, row, (*key, count)) if count else Drop("share", broker, row))

    def _keep_number(self, broker: BrokerId, word: Word) -> None:
        self.orders.writes.append(Put("sharing", "", broker, Sharing(broker, word.boot, word.number, ())))

    # -- choosing ----------------------------------------------------------------------------------------------------

    def any_for(self, topic: str) -> bool:
        """Whether some group anywhere may want this topic."""
        return bool(self._places) and bool(self._groups_for(topic))

    def choose(
        self,
        topic: str,
        attributes: Callable[[], Mapping[str, Value]],
        present: Container[BrokerId],
        known: Container[BrokerId],
    ) -> list[tuple[Choice, ...]]:
        """The broker that serves each group, for one event, in parts of which each fits into an event. Members count
        alike, wherever they are; brokers that are away (`known`) are chosen where no broker that is there has any."""
        parts: list[tuple[Choice, ...]] = []
        chosen: list[Choice] = []
        size = 0
        for key in self._groups_for(topic):
            group, filter = key
            if filter.where is not None and not filter.where.matches(attributes()):
                continue
            choice = self._choose(key, name_of(group, str(filter)), present, known)
            if choice is None:
                continue
            size += sum(map(len, choice))
            if size > CHOSEN_MAX and chosen:
                parts.append(tuple(chosen))
                chosen, size = [], sum(map(len, choice))
            chosen.append(choice)
        if chosen:
            parts.append(tuple(chosen))
        return parts

    def choose_again(self, name: GroupName, present: Container[BrokerId], known: Container[BrokerId]) -> Choice | None:
        """Another broker for an event that whoever was chosen cannot deliver; None: the group has no members."""
        name = name_of(*name)
        key = self._names.get(name)
        return None if key is None else self._choose(key, name, present, known)

    def _choose(
        self, key: GroupKey, name: GroupName, present: Container[BrokerId], known: Container[BrokerId]
    ) -> Choice | None:
        places = self._places[key]
        seats = {broker: count for broker, count in places.items() if broker in present}
        seats = seats or {broker: count for broker, count in places.items() if broker in known}
        if not seats:
            return None
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        return (*name, _seat(seats, turn))

    def mine(self, shares: tuple[Choice, ...]) -> Iterator[tuple[GroupName, GroupKey | None, Group | None]]:
        """The groups that this broker was chosen for; None: it has no members of it."""
        for group, filter, broker in shares:
            if broker == self.broker:
                key = self._names.get(name_of(group, filter))
                yield (group, filter), key, None if key is None else self.groups.get(key)

    def places(self, name: GroupName) -> Mapping[BrokerId, int]:
        """The brokers that have members of a group, and how many."""
        key = self._names.get(name_of(*name))
        return {} if key is None else self._places[key]

    def elsewhere(self, key: GroupKey) -> bool:
        """Whether other brokers have members of a group."""
        return any(broker != self.broker for broker in self._places.get(key, ()))

    def _groups_for(self, topic: str) -> list[GroupKey]:
        keys = self._by_topic.get(topic)
        if keys is None:
            if len(self._by_topic) >= CHOICES_MAX:
                self._by_topic.clear()
            keys = self._by_topic[topic] = [
                (group, filter) for filter in self._index.match(topic) for group in self._by_filter[filter]
            ]
        return keys

    def _place(self, key: GroupKey, broker: BrokerId, count: int) -> None:
        places = self._places.get(key)
        if places is None:
            if not count:
                return
            places = self._places[key] = {}
            group, filter = key
            self._names[name_of(group, str(filter))] = key
            if filter not in self._by_filter:
                self._index.add(filter)
            self._by_filter.setdefault(filter, []).append(group)
            self._by_topic.clear()
        if count:
            places[broker] = count
            return
        places.pop(broker, None)
        if not places:
            self._remove(key)

    def _remove(self, key: GroupKey) -> None:
        group, filter = key
        del self._places[key]
        del self._names[name_of(group, str(filter))]
        self._turns.pop(key, None)
        self._by_filter[filter].remove(group)
        if not self._by_filter[filter]:
            del self._by_filter[filter]
            self._index.remove(filter)
        self._by_topic.clear()


def size_of(key: GroupKey) -> int:
    """Characters of a group and its filter."""
    return len(key[0]) + len(str(key[1]))


def _seat(seats: Mapping[BrokerId, int], turn: int) -> BrokerId:
    """Whose turn it is among brokers with so many seats each, one row behind the other."""
    at = turn % sum(seats.values())
    for broker, count in seats.items():
        if at < count:
            return broker
        at -= count
    raise AssertionError("there is a seat for every turn")
