"""Shared subscriptions: each message goes to one member of the group, wherever in the network its members are.

Every broker tells all others which groups have members with it, and how many; the last word of a broker is the one
with its largest (boot, number). The *origin* of an event chooses, once, the broker whose members get it, and writes the
choice into the event; that broker chooses among its own members. So one decision stands behind every delivery, and an
event that is sent again in another tree takes its choice along. What the others said is kept on disk: a broker that was
just started must not choose as if there were no members but its own.

The filter of a group is in the tables of interest like any other, which is what brings the event to the chosen broker.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field

from latecomer.core.clients import Disk
from latecomer.core.index import FilterIndex
from latecomer.messages.link import SessionFrame, Sharing
from latecomer.model.event import Value
from latecomer.model.filters import Filter
from latecomer.model.ids import BrokerId, ClientId

CHOICES_MAX = 65_536
"""Topics whose groups are remembered."""
GROUPS_MAX = 65_536
"""Groups of one broker that the others are told of. What is beyond gets publications of its own broker only."""
WORD_MAX = 2_097_152
"""Characters of groups and filters in one word, likewise: it must fit into a frame."""
CHOSEN_MAX = 262_144
"""Characters of groups and filters that one event carries; it must fit as well, and groups beyond miss it."""

GroupKey = tuple[str, Filter]


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
class Shares:
    """Who has members of which group."""

    broker: BrokerId
    boot: int
    send: Callable[[BrokerId, SessionFrame], None]
    neighbours: Callable[[], list[BrokerId]]
    wake: Callable[[], None]
    """Asks for `flush` soon: changes are told together."""
    heard: Callable[[], None]
    """Called when others have other members."""
    keep: Callable[[Sharing], None]
    """Writes the last word of another broker down."""
    reject: Callable[[BrokerId, str], None]
    brokers_max: int
    groups: dict[GroupKey, Group] = field(default_factory=dict)
    told: dict[BrokerId, Sharing] = field(default_factory=dict)
    """The last word of every other broker."""
    number: int = 0
    changed: bool = False
    crowded: bool = False
    """The last choice left groups out, because there were too many."""
    _own: dict[tuple[str, str], GroupKey] = field(default_factory=dict)
    """Keys of `groups` as events write them."""
    _places: dict[GroupKey, dict[BrokerId, int]] = field(default_factory=dict)
    _index: FilterIndex = field(default_factory=FilterIndex)
    _by_filter: dict[Filter, list[str]] = field(default_factory=dict)
    _by_topic: dict[str, list[GroupKey]] = field(default_factory=dict)
    _turns: dict[GroupKey, int] = field(default_factory=dict)

    def recover(self, disk: Disk) -> None:
        """Find what the others said last."""
        for word in disk.get("sharing", {}).get("", {}).values():
            assert isinstance(word, Sharing)
            self.told[word.broker] = word
            for group, filter, count in word.entries:
                self._place((group, filter), word.broker, count)

    # -- own members -------------------------------------------------------------------------------------------------

    def join(self, key: GroupKey, client: ClientId) -> bool:
        """Whether the group is new at this broker."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group()
            self._own[key[0], str(key[1])] = key
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
            del self._own[key[0], str(key[1])]
        self._own_changed(key, len(group.members))
        return not group.members

    def _own_changed(self, key: GroupKey, count: int) -> None:
        self._place(key, self.broker, count)
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self.changed:
            self.changed = True
            self.wake()

    def flush(self) -> None:
        """Tell the others what changed here."""
        if not self.changed:
            return
        self.changed = False
        self.number += 1
        for peer in self.neighbours():
            self.send(peer, self._word())

    def _word(self) -> Sharing:
        entries: list[tuple[str, Filter, int]] = []
        size = 0
        for (group, filter), members in self.groups.items():
            size += len(group) + len(str(filter))
            if len(entries) >= GROUPS_MAX or size > WORD_MAX:
                break
            entries.append((group, filter, len(members.members)))
        return Sharing(self.broker, self.boot, self.number, tuple(entries))

    # -- between brokers ---------------------------------------------------------------------------------------------

    def greet(self, peer: BrokerId) -> None:
        """A link session began: tell everything."""
        if self.groups or self.number:
            self.send(peer, self._word())
        for word in self.told.values():
            self.send(peer, word)

    def on_sharing(self, peer: BrokerId, frame: Sharing) -> None:
        if frame.broker == self.broker:
            if frame.boot < self.boot and not self.number:
                self._tell_soon()  # our word of an earlier life: nobody heard yet that those members are gone
            return
        before = self.told.get(frame.broker)
        if before is not None and (before.boot, before.number) >= (frame.boot, frame.number):
            return
        if before is None and len(self.told) >= self.brokers_max:
            self.reject(peer, f"it tells of more than {self.brokers_max} brokers, which core.brokers_max allows")
            return
        if len(frame.entries) > GROUPS_MAX:
            self.reject(peer, f"it tells of {len(frame.entries)} groups at {frame.broker!r}; {GROUPS_MAX} are allowed")
            return
        self.told[frame.broker] = frame
        self.keep(frame)
        for group, filter, _ in before.entries if before is not None else ():
            self._place((group, filter), frame.broker, 0)
        for group, filter, count in frame.entries:
            self._place((group, filter), frame.broker, count)
        for other in self.neighbours():
            if other != peer:
                self.send(other, frame)
        self.heard()

    # -- choosing ----------------------------------------------------------------------------------------------------

    def any_for(self, topic: str) -> bool:
        """Whether some group anywhere may want this topic."""
        return bool(self._places) and bool(self._groups_for(topic))

    def choose(
        self, topic: str, attributes: Callable[[], Mapping[str, Value]], present: Container[BrokerId]
    ) -> tuple[tuple[str, str, str], ...]:
        """The broker that serves each group, for one event; members count alike, wherever they are."""
        chosen = []
        size = 0
        self.crowded = False
        for key in self._groups_for(topic):
            group, filter = key
            size += len(group) + len(str(filter))
            if size > CHOSEN_MAX:
                self.crowded = True
                break
            if filter.where is not None and not filter.where.matches(attributes()):
                continue
            places = self._places[key]
            seats = {broker: count for broker, count in places.items() if broker in present} or places
            turn = self._turns[key] = self._turns.get(key, -1) + 1
            chosen.append((group, str(filter), _seat(seats, turn)))
        return tuple(chosen)

    def mine(self, shares: tuple[tuple[str, str, str], ...]) -> Iterator[tuple[GroupKey, Group]]:
        """The groups of this broker that an event was meant for."""
        for name, text, broker in shares:
            key = self._own.get((name, text)) if broker == self.broker else None
            if key is not None:
                yield key, self.groups[key]

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
        self._turns.pop(key, None)
        self._by_filter[filter].remove(group)
        if not self._by_filter[filter]:
            del self._by_filter[filter]
            self._index.remove(filter)
        self._by_topic.clear()


def _seat(seats: Mapping[BrokerId, int], turn: int) -> BrokerId:
    """Whose turn it is among brokers with so many seats each, one row behind the other."""
    at = turn % sum(seats.values())
    for broker, count in seats.items():
        if at < count:
            return broker
        at -= count
    raise AssertionError("there is a seat for every turn")
