"""The same scenarios, event by event and broker by broker, as slowly and plainly as can be: what the model must count.

Transfers take no time here; the model is compared with links that are very fast.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from latecomer.experiments.mobility.algorithms.algorithm import Algorithm
from latecomer.experiments.mobility.ground import Ground
from latecomer.experiments.mobility.publications import matching
from latecomer.experiments.mobility.tree import Tree


@dataclass
class Client:
    subscription: int
    home: int
    place: int | None
    """The broker where it is connected."""
    holders: list[int]
    """Brokers where its subscription stands; the first is the owner."""
    waiting: list[int] = field(default_factory=list)
    """Publications that the owner keeps for it."""
    got: list[int] = field(default_factory=list)


class Oracle:
    def __init__(self, ground: Ground, algorithm: Algorithm, hop_s: float, log_size: int) -> None:
        self.ground, self.algorithm, self.hop_s = ground, algorithm, hop_s
        tree, first = ground.tree, ground.tree.leaves[0]
        self.tree: Tree = tree
        starts = (ground.movements.starts + first).tolist()
        subscriptions = ground.subscriptions.tolist()
        self.clients = [Client(s, place, place, [place]) for s, place in zip(subscriptions, starts, strict=True)]
        self.logs = {leaf: deque[int](maxlen=log_size) for leaf in tree.leaves}
        self.multicast = self.event_hops = self.relay_hops = 0

    def run(self) -> None:
        moves, first = self.ground.movements, self.tree.leaves[0]
        turns: list[tuple[float, bool, int, int, str]] = []
        for number, (left, came) in enumerate(zip(moves.left.tolist(), moves.came.tolist(), strict=True)):
            old, new = int(moves.old[number]) + first, int(moves.new[number]) + first
            guesses = tuple(int(leaf) + first for leaf in self.ground.guesses[number])
            sent = self.algorithm.departure(guesses)
            source = sent[0] if sent else old
            turns.append((left, False, number, 0, "leaves"))
            if sent:
                ahead = min(left + 3 * self.hop_s * int(self.tree.hops[old, sent[0]]), came)
                turns.append((ahead, False, number, 1, "sent ahead"))
            if came >= self.ground.length_s:
                continue
            turns.append((came, False, number, 2, "comes"))
            ready = min(came + 3 * self.hop_s * int(self.tree.hops[source, new]), float(self.ground.next_left[number]))
            turns.append((ready, False, number, 3, "is ready"))
        published = self.ground.publications
        turns += [(time, True, number, 4, "published") for number, time in enumerate(published.times.tolist())]
        for _, _, number, _, what in sorted(turns):
            getattr(self, "_" + what.replace(" ", "_"))(number)

    def _leaves(self, number: int) -> None:
        self.clients[int(self.ground.movements.client[number])].place = None

    def _sent_ahead(self, number: int) -> None:
        guess = int(self.ground.guesses[number, 0]) + self.tree.leaves[0]
        self._move_session(self.clients[int(self.ground.movements.client[number])], guess, log=False)

    def _comes(self, number: int) -> None:
        client = self.clients[int(self.ground.movements.client[number])]
        place = int(self.ground.movements.new[number]) + self.tree.leaves[0]
        if self.algorithm.arrival() == "attach":
            client.place = place
            self.event_hops += len(client.waiting) * int(self.tree.hops[client.home, place])
            self._give(client)

    def _is_ready(self, number: int) -> None:
        client = self.clients[int(self.ground.movements.client[number])]
        place = int(self.ground.movements.new[number]) + self.tree.leaves[0]
        if self.algorithm.arrival() == "fetch":
            self._move_session(client, place, log=self.algorithm.outline())
            client.place = place
            self._give(client)

    def _move_session(self, client: Client, place: int, *, log: bool) -> None:
        owner = client.holders[0]
        known = self.logs[place] if log else ()
        travelling = [one for one in client.waiting if one not in known]
        self.event_hops += len(travelling) * int(self.tree.hops[owner, place])
        client.holders = [place]

    def _give(self, client: Client) -> None:
        client.got += client.waiting
        client.waiting = []

    def _published(self, number: int) -> None:
        event = int(self.ground.publications.events[number])
        origin = int(self.ground.publications.places[number])
        interested = [client for client in self.clients if matching()[client.subscription, event]]
        links = set(self.tree.ancestors(origin)[:-1])
        for client in interested:
            links |= set(self.tree.ancestors(client.holders[0])[:-1])
        self.multicast += len(links)
        receiving = {client.holders[0] for client in interested} | {origin}
        for leaf in receiving:
            self.logs[leaf].append(number)
        for client in interested:
            client.waiting.append(number)
            at_home = self.algorithm.arrival() == "attach"
            if client.place is not None and (at_home or client.place == client.holders[0]):
                self.relay_hops += int(self.tree.hops[client.holders[0], client.place])
                self._give(client)
