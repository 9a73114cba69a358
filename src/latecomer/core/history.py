"""The past of the network, wired: tables of stores, the own store, requests and answers, replicas."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from latecomer.core.advertisements import Advertisements
from latecomer.core.beginnings import Beginnings
from latecomer.core.carriage import Carriage
from latecomer.core.clients import Clients, Disk
from latecomer.core.directory import Directory
from latecomer.core.errands import Errands
from latecomer.core.fences import Fences
from latecomer.core.inputs import (
    CarriedOut,
    Found,
    Requested,
    StoreAssigned,
    StoreBlocked,
    StoreTrimmed,
    Surveyed,
    Wanted,
)
from latecomer.core.interest import Interest
from latecomer.core.membership import Membership
from latecomer.core.neighbours import Neighbours
from latecomer.core.orders import Orders
from latecomer.core.outbox import Outbox
from latecomer.core.passage import Passage
from latecomer.core.replicas import Replicas
from latecomer.core.retrieval import Retrieval
from latecomer.core.ring.flushes import Flushes
from latecomer.core.seen import Seen
from latecomer.core.session.limits import Access
from latecomer.core.settings import BrokerSettings
from latecomer.core.settling import Settling
from latecomer.core.store import REPLICA, Store
from latecomer.messages.link import (
    Compare,
    Compared,
    Credit,
    Errand,
    ErrandAnswer,
    Keeping,
    Request,
    RequestId,
    Response,
    ResponseEnd,
    Settled,
    StoreAdvertise,
    StoreWithdraw,
)
from latecomer.model.ids import BrokerId, Instant


class History:
    """What a broker does for those who come late."""

    def __init__(
        self,
        broker: BrokerId,
        settings: BrokerSettings,
        orders: Orders,
        neighbours: Neighbours,
        interest: Interest,
        membership: Membership,
        clients: Clients,
        outbox: Callable[[], Outbox],
        seen: Callable[[], Seen],
        advertisements: Advertisements,
        settling: Settling,
        access: Access,
        fences: Fences,
        flushes: Flushes,
    ) -> None:
        self.advertisements = advertisements
        self.flushes = flushes
        self.behind: dict[RequestId, None] = {}
        """Requests that wait for what went ahead of them on other ways."""
        self.settling = settling
        self.carriage = carriage = Carriage(broker, neighbours, interest, advertisements)
        self.store = Store(
            broker,
            settings,
            orders,
            clients,
            advertisements,
            access,
            outbox,
            settling,
            lambda: not membership.uncharted and not membership.link_states.absent_since,
            carriage.respond,
            lambda: self.replicas.keeps(),
            Beginnings(settings, fences),
        )
        self.retrieval = Retrieval(broker, orders, interest, advertisements, carriage, outbox)
        carriage.serve, carriage.credited = self._serve, self._credited
        carriage.taken, carriage.ended = self.retrieval.on_response, self.retrieval.on_end
        self.directory = Directory(broker, orders, neighbours, settings.brokers_max)
        passage = Passage(broker, neighbours, interest)
        self.errands = Errands(broker, orders, passage)
        self.replicas = Replicas(
            broker,
            settings,
            orders,
            neighbours,
            interest,
            membership,
            settling,
            self.store,
            self.retrieval,
            self.directory,
            passage,
            seen,
            flushes,
        )
        self.retrieval.expects = self.replicas.expects
        self.retrieval.complete_since = self.directory.complete_since
        self.retrieval.seen, self.retrieval.may_receive = seen, access.may_receive_past
        self.retrieval.replicas = self.directory.replicas
        self.retrieval.absent = lambda: membership.link_states.absent_since

    def _serve(self, request: Request) -> None:
        """A request has come. Stores that compare themselves have seen to the order before (`replicas`)."""
        if request.client == REPLICA:
            self.store.serve(request)
            return
        self.behind[request.id] = None
        topics = (request.query.filter.topic, request.topics)
        self.flushes.behind(request.id.broker, lambda: self._serve_now(request), *topics)

    def _serve_now(self, request: Request) -> None:
        if request.id in self.behind:  # otherwise nobody wants it any more
            del self.behind[request.id]
            self.store.serve(request)

    def _credited(self, frame: Credit) -> None:
        if frame.credit == 0:
            self.behind.pop(frame.id, None)
        self.store.on_credit(frame)

    def recover(self, disk: Disk) -> None:
        self.store.recover(disk)
        self.replicas.started_at = self.replicas.orders.now

    def _trimmed(self, fact: StoreTrimmed) -> None:
        self.store.on_trimmed(fact)
        self.replicas.tell_news()

    def fence_passed(self, wave: int) -> None:
        """Everybody in the tree knows what was told before this fence."""
        known = self.store.beginnings.passed(wave)
        if known:
            self.store.known_to_all(known)
            self.replicas.tell_news()

    def settled(self) -> None:
        """Everything that was published before this tree has arrived."""
        tree = self.retrieval.interest.tree
        assert tree is not None
        self.retrieval.debts.settled(tree.parent)
        self.store.settled_first()
        self.store.begin_waiting()
        self.replicas.settled()

    def tree_ready(self, brokers: Container[BrokerId]) -> None:
        """A tree is ready, of the brokers that are known."""
        self.directory.tree_ready(brokers)
        retrieval, tree = self.retrieval, self.retrieval.interest.tree
        assert tree is not None
        stores = [broker for broker in retrieval.absent() if broker in self.directory.words]
        retrieval.debts.tree_ready(tree.parent, stores, retrieval.orders.now)
        retrieval.tree_ready()

    def tree_lost(self) -> None:
        self.behind.clear()
        self.settling.tree_lost()
        self.store.tree_lost()
        self.replicas.tree_lost()
        self.errands.tree_lost()
        self.retrieval.tree_lost()

    def woken(self) -> None:
        self.store.woken()
        self.retrieval.woken()
        self.replicas.woken()

    def dues(self) -> tuple[Instant | None, ...]:
        return (self.store.alive_due, self.retrieval.due, self.replicas.due, self.replicas.round_due)

    def inputs(self) -> dict[type, Callable[[Any], None]]:
        return {
            StoreAssigned: self.store.on_assigned,
            StoreTrimmed: self._trimmed,
            StoreBlocked: self.store.on_blocked,
            Found: self.store.on_found,
            Surveyed: self.replicas.on_surveyed,
            Requested: self.retrieval.on_requested,
            Wanted: self.errands.on_wanted,
            CarriedOut: self.errands.on_carried_out,
        }

    def frames(self) -> dict[type, Callable[[BrokerId, Any], None]]:
        return {
            StoreAdvertise: self.advertisements.on_advertise,
            StoreWithdraw: self.advertisements.on_withdraw,
            Settled: self.settling.on_settled,
            Request: self.carriage.on_request,
            Response: self.carriage.on_response,
            ResponseEnd: self.carriage.on_response,
            Credit: self.carriage.on_credit,
            Keeping: self.replicas.on_keeping,
            Compare: self.replicas.on_compare,
            Compared: self.replicas.on_compared,
            Errand: self.errands.on_errand,
            ErrandAnswer: self.errands.on_answer,
        }
