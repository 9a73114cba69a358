"""When everything published before a tree has arrived in it: the wave, broker by broker and on whole trees."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.core.settling import Settling
from latecomer.messages.link import SessionFrame, Settled, Subscribe
from tests.unit.hand import Hand, filters, frames, publications


@dataclass
class Bench:
    sent: list[tuple[str, SessionFrame]] = field(default_factory=list)
    times: int = 0
    settling: Settling = field(init=False)

    def __post_init__(self) -> None:
        def settled() -> None:
            self.times += 1

        self.settling = Settling(lambda peer, frame: self.sent.append((peer, frame)), settled)


def bench(*peers: str) -> Bench:
    made = Bench()
    made.settling.tree_ready("v", list(peers), past=False)
    return made


def test_alone_everything_has_arrived_when_it_has_been_sent() -> None:
    made = bench()
    assert not made.settling.settled
    made.settling.all_sent()
    made.settling.all_sent()
    assert made.settling.settled
    assert made.times == 1


def test_a_leaf_speaks_first_and_settles_when_it_has_an_answer() -> None:
    made = bench("b")
    made.settling.all_sent()
    assert made.sent == [("b", Settled("v"))]
    assert not made.settling.settled
    made.settling.on_settled("b", Settled("v"))
    made.settling.on_settled("b", Settled("v"))
    assert made.settling.settled
    assert (made.times, len(made.sent)) == (1, 1)


def test_each_is_told_when_all_the_others_have_spoken() -> None:
    made = bench("b", "c", "d")
    made.settling.all_sent()
    made.settling.on_settled("b", Settled("v"))
    assert made.sent == []
    made.settling.on_settled("c", Settled("v"))
    assert made.sent == [("d", Settled("v"))]
    assert not made.settling.settled
    made.settling.on_settled("d", Settled("v"))
    assert made.sent[1:] == [("b", Settled("v")), ("c", Settled("v"))]
    assert made.times == 1


def test_who_has_not_sent_all_it_owes_says_nothing() -> None:
    made = bench("b", "c")
    made.settling.on_settled("b", Settled("v"))
    made.settling.on_settled("c", Settled("v"))
    assert (made.sent, made.settling.settled) == ([], False)
    made.settling.all_sent()
    assert made.sent == [("b", Settled("v")), ("c", Settled("v"))]
    assert made.times == 1


def test_words_of_other_trees_and_of_others_do_not_count() -> None:
    made = bench("b")
    made.settling.on_settled("b", Settled("another"))
    made.settling.on_settled("x", Settled("v"))
    made.settling.all_sent()
    assert not made.settling.settled


def test_a_tree_that_is_lost_is_not_settled_and_the_next_begins_anew() -> None:
    made = bench("b")
    made.settling.all_sent()
    made.settling.on_settled("b", Settled("v"))
    made.settling.tree_lost()
    assert not made.settling.settled
    made.settling.all_sent()
    made.settling.on_settled("b", Settled(""))
    assert not made.settling.settled
    made.settling.tree_ready("w", ["b"], past=False)
    made.settling.on_settled("b", Settled("v"))
    made.settling.all_sent()
    assert made.sent[1:] == [("b", Settled("w"))]
    assert not made.settling.settled


# -- in a broker -------------------------------------------------------------------------------------------------------


def test_a_broker_speaks_behind_what_it_owes() -> None:
    hand = Hand("b")
    hand.publish("t")
    hand.publish("t")
    effects = hand.join("b", wants={"b": ["t"]})
    said = [type(frame).__name__ for frame in frames(effects, "b")]
    assert [name for name in said if name in ("Publication", "Settled")] == ["Publication", "Publication", "Settled"]


def test_a_window_that_is_full_delays_the_word() -> None:
    hand = Hand("b", link_max=2)
    for _ in range(3):
        hand.publish("t")
    effects = hand.join("b", wants={"b": ["t"]})
    assert len(publications(effects, "b")) == 1
    assert not [frame for frame in frames(effects, "b") if isinstance(frame, Settled)]


def test_what_is_published_in_the_tree_is_not_waited_for() -> None:
    hand = Hand("b", link_max=2)
    effects = hand.join("b", wants={"b": ["t"]})
    assert [frame for frame in frames(effects, "b") if isinstance(frame, Settled)]
    for _ in range(5):
        hand.publish("t")
    hand.hear("b", Settled(hand.broker.membership.version), Subscribe(filters("u")))
    assert hand.broker.history.settling.settled


# -- on any tree, in any order -----------------------------------------------------------------------------------------


class Network:
    """Brokers of a tree with events that they owe everybody; queues keep order, and nothing else does."""

    def __init__(self, parents: list[int], owed: list[int], pasts: list[bool]) -> None:
        self.peers: list[list[int]] = [[] for _ in parents]
        for child, parent in enumerate(parents[1:], 1):
            self.peers[child].append(parent % child)
            self.peers[parent % child].append(child)
        self.owed = [
            [100 * broker + number for number in range(count)]
            for broker, count in enumerate(owed[: len(parents)])
        ]  # fmt: skip
        self.everything = {number for numbers in self.owed for number in numbers}
        self.had: list[set[int]] = [set(numbers) for numbers in self.owed]
        self.queues: dict[tuple[int, int], deque[SessionFrame | int]] = {
            (here, there): deque() for here, around in enumerate(self.peers) for there in around
        }
        self.settled = [0] * len(parents)
        self.parts = [self.make(broker) for broker in range(len(parents))]
        for broker, part in enumerate(self.parts):
            part.tree_ready("v", [str(peer) for peer in self.peers[broker]], pasts[broker])

    def make(self, broker: int) -> Settling:
        def settled() -> None:
            assert self.had[broker] == self.everything, "something that was owed had not arrived"
            self.settled[broker] += 1

        return Settling(lambda peer, frame: self.queues[broker, int(peer)].append(frame), settled)

    def send(self, broker: int) -> None:
        """The next event that it owes, or the word that there are no more."""
        if not self.owed[broker]:
            self.parts[broker].all_sent()
            return
        number = self.owed[broker].pop(0)
        for peer in self.peers[broker]:
            self.queues[broker, peer].append(number)

    def deliver(self, choice: int) -> bool:
        busy = [way for way, queue in self.queues.items() if queue]
        if not busy:
            return False
        sender, receiver = busy[choice % len(busy)]
        frame = self.queues[sender, receiver].popleft()
        if isinstance(frame, Settled):
            self.parts[receiver].on_settled(str(sender), frame)
        else:
            assert isinstance(frame, int)
            self.had[receiver].add(frame)
            for peer in self.peers[receiver]:
                if peer != sender:
                    self.queues[receiver, peer].append(frame)
        return True


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=8),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
    st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=60),
    st.integers(0, 50),
    st.one_of(st.just([False] * 8), st.lists(st.booleans(), min_size=8, max_size=8)),
)
@settings(max_examples=200)
def test_nobody_settles_before_everything_has_arrived_and_everybody_does_in_the_end(
    parents: list[int], owed: list[int], story: list[tuple[bool, int]], choice: int, pasts: list[bool]
) -> None:
    network = Network(parents, owed, pasts)
    for sends, number in story:
        if sends:
            network.send(number % len(parents))
        else:
            network.deliver(number)
    for broker in range(len(parents)):
        for _ in range(5):
            network.send(broker)
    while network.deliver(choice):
        pass
    assert network.settled == [1] * len(parents)
    assert all(part.settled for part in network.parts)
    first = not any(pasts[: len(parents)])
    assert all(part.first == first for part in network.parts), "everybody hears of everybody's past"
