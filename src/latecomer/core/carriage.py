"""Carriage: Request, Response and Credit on their way along the tree (*storing* §III).

A request follows the Advertisement Tables, and its path is recorded hop by hop; responses take the recorded path
back, each broker taking itself off its end. Brokers on the way keep nothing.

Bad input 24: in a tree there is one way between two brokers. A path that is not that way, an answer that does not
come from the side of the store, credit that does not come from the side of who asked: somebody made it up, and the
link ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from latecomer.core.advertisements import Advertisements
from latecomer.core.interest import Interest
from latecomer.core.neighbours import Neighbours
from latecomer.core.table import SELF
from latecomer.messages.link import Credit, Request, Response, ResponseEnd
from latecomer.model.ids import BrokerId

PATH_MAX = 64
"""Hops of a request."""


@dataclass(slots=True)
class Carriage:
    """What one broker does with requests and answers that pass, begin or end here."""

    broker: BrokerId
    neighbours: Neighbours
    interest: Interest
    advertisements: Advertisements
    serve: Callable[[Request], None] = field(init=False)
    """To the store of this broker."""
    credited: Callable[[Credit], None] = field(init=False)
    taken: Callable[[Response, BrokerId], None] = field(init=False)
    """To who asked at this broker; from which side it came."""
    ended: Callable[[ResponseEnd, BrokerId], None] = field(init=False)

    def on_request(self, peer: BrokerId, frame: Request) -> None:
        if self._current(peer) and self._believes(peer, frame):
            self.forward(frame, self.way(frame, peer), peer)

    def _current(self, peer: BrokerId) -> bool:
        """Whether a neighbour's word belongs to our tree: on a link that is not in it, it comes late from another."""
        return self.interest.ready and peer in self.interest.peers

    def _believes(self, peer: BrokerId, frame: Request) -> bool:
        """Bad input 24: the recorded path is the one way that the request can have come."""
        tree, path = self.interest.tree, frame.path
        assert tree is not None
        problem = ""
        if not path or path[0] != frame.id.broker or path[-1] != peer:
            problem = "it does not lead from who asks to who sends"
        elif len(path) > PATH_MAX:
            problem = f"it has more than {PATH_MAX} hops"
        elif path[0] not in tree.parent or tuple(tree.path(path[0], self.broker)) != (*path, self.broker):
            problem = "it is not the way along the tree"
        if problem:
            self.neighbours.reject(peer, f"bad route of request {frame.id}: {problem}")
        return not problem

    def way(
        self, request: Request, came_from: BrokerId | None = None, failed: Sequence[BrokerId | None] = ()
    ) -> BrokerId | None:
        """Where a request goes next, to the nearest store or to the one it names: a neighbour, or `SELF`."""
        if not request.store:
            return self.advertisements.way(request.topics, came_from, failed)
        if request.store == self.broker:
            return SELF
        tree = self.interest.tree
        assert tree is not None
        return tree.next_hop(self.broker, request.store) if request.store in tree.parent else None

    def forward(self, request: Request, way: BrokerId | None, came_from: BrokerId | None = None) -> None:
        """To the next broker, or into our own store."""
        if way == SELF:
            self.serve(request)
        elif way is None or way == came_from or len(request.path) >= PATH_MAX:
            problem = "the way ends here" if len(request.path) < PATH_MAX else f"more than {PATH_MAX} hops"
            end = ResponseEnd(request.id, request.path, self.broker, len(request.path), 0, problem, False)
            self.respond(end)
        else:
            path = (*request.path, self.broker)
            self.neighbours.send(
                way,
                Request(
                    request.id,
                    path,
                    request.topics,
                    request.query,
                    request.user,
                    request.client,
                    request.credit,
                    request.store,
                ),
            )

    def respond(self, frame: Response | ResponseEnd, came_from: BrokerId = SELF) -> None:
        """Send an answer on its recorded path; without one, it is our own."""
        if frame.path:
            self.neighbours.send(frame.path[-1], frame)
        elif type(frame) is Response:
            self.taken(frame, came_from)
        else:
            assert type(frame) is ResponseEnd
            self.ended(frame, came_from)

    def on_response(self, peer: BrokerId, frame: Response | ResponseEnd) -> None:
        if not self._current(peer):
            return
        tree, asker = self.interest.tree, frame.id.broker
        assert tree is not None
        if (
            asker not in tree.parent
            or frame.path != tuple(tree.path(asker, self.broker))
            or frame.store not in tree.parent
            or frame.store == self.broker
            or tree.next_hop(self.broker, frame.store) != peer
            or peer in frame.path
        ):
            self.neighbours.reject(peer, f"bad route of an answer to request {frame.id}")
            return
        self.respond(_shortened(frame), peer)

    def credit(self, frame: Credit) -> None:
        if frame.store == self.broker:
            self.credited(frame)
            return
        tree = self.interest.tree
        assert tree is not None
        if frame.store in tree.parent:
            self.neighbours.send(tree.next_hop(self.broker, frame.store), frame)

    def on_credit(self, peer: BrokerId, frame: Credit) -> None:
        if not self._current(peer):
            return
        tree = self.interest.tree
        assert tree is not None
        asker = frame.id.broker
        if asker not in tree.parent or asker == self.broker or tree.next_hop(self.broker, asker) != peer:
            self.neighbours.reject(peer, f"bad route of credit for request {frame.id}")
        elif frame.store not in tree.parent or frame.store == asker or frame.store in tree.path(asker, peer):
            self.neighbours.reject(peer, f"credit for request {frame.id} on no way to its store")
        else:
            self.credit(frame)


def _shortened(frame: Response | ResponseEnd) -> Response | ResponseEnd:
    """Each broker takes itself off the path (*storing* §III)."""
    path = frame.path[:-1]
    if type(frame) is Response:
        return Response(frame.id, path, frame.store, frame.events, frame.left_us, frame.next)
    assert type(frame) is ResponseEnd
    return ResponseEnd(frame.id, path, frame.store, frame.hops, frame.from_us, frame.problem, frame.final)
