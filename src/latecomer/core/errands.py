"""Errands: what an operator wants of another broker, carried there along the tree, and the answer back.

What is wanted and answered is for drivers to understand. An errand that is lost with its tree is reported as not
answered; whether it was carried out is then not known, so what is wanted must bear to be wanted twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.effects import CarryOut, Report
from latecomer.core.inputs import CarriedOut, Wanted
from latecomer.core.orders import Orders
from latecomer.core.passage import Passage
from latecomer.messages.link import Errand, ErrandAnswer
from latecomer.model.ids import BrokerId

LOST = "the network changed before the answer came; ask again"
BETWEEN = "of an errand between"


@dataclass(slots=True)
class Errands:
    """Those that begin or end at this broker."""

    broker: BrokerId
    orders: Orders
    passage: Passage
    waiting: dict[int, BrokerId] = field(default_factory=dict)
    """Our own, by token, and who is to answer."""

    def on_wanted(self, fact: Wanted) -> None:
        frame = Errand(self.broker, fact.broker, fact.token, fact.body)
        if self.passage.send(fact.broker, frame):
            self.waiting[fact.token] = fact.broker
        else:
            problem = f"there is no way from {self.broker} to {fact.broker} now"
            self.orders.effects.append(Report(fact.token, b"", problem, answered=False))

    def on_errand(self, peer: BrokerId, frame: Errand) -> None:
        if self.passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN):
            self.orders.effects.append(CarryOut(frame.from_broker, frame.number, frame.body))

    def on_carried_out(self, fact: CarriedOut) -> None:
        answer = ErrandAnswer(self.broker, fact.broker, fact.number, fact.body, fact.problem)
        self.passage.send(fact.broker, answer)  # if there is no way any more, it knows that itself

    def on_answer(self, peer: BrokerId, frame: ErrandAnswer) -> None:
        if not self.passage.arrived(peer, frame.from_broker, frame.to, frame, BETWEEN):
            return
        if self.waiting.get(frame.number) == frame.from_broker:
            del self.waiting[frame.number]
            self.orders.effects.append(Report(frame.number, frame.body, frame.problem))

    def tree_lost(self) -> None:
        for token in list(self.waiting):
            self.orders.effects.append(Report(token, b"", LOST, answered=False))
        self.waiting.clear()
