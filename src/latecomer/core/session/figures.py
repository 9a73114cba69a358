"""`$SYS`: the broker's own figures, for those of its clients that subscribe to them.

The driver measures them and tells them now and then (`Measured`). They are not events: they belong to this broker
alone, so no link carries them, no store keeps them, and neither the disk nor the event log sees them. A new
subscription gets all figures as retained messages; after that, a client gets those that have changed, with QoS 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from latecomer.core.inputs import Measured
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.state import Parcel, Session, Subscription
from latecomer.model.event import Event
from latecomer.model.ids import ClientId, EventId

SYS = "$SYS"


def is_sys(subscription: Subscription) -> bool:
    """Whether a subscription asks for figures. Only a filter whose first level is `$SYS` can [MQTT-4.7.2-1]."""
    topic = subscription.filter.topic
    return topic.startswith(SYS) and topic[len(SYS) : len(SYS) + 1] in ("", "/") and not subscription.group


@dataclass(slots=True)
class Figures:
    """The figures, and the sessions with a subscription to some of them."""

    deliveries: Deliveries
    now: dict[str, Event] = field(default_factory=dict)
    watching: dict[ClientId, Session] = field(default_factory=dict)

    def on_measured(self, fact: Measured) -> None:
        changed = []
        for topic, payload in fact.figures:
            before = self.now.get(topic)
            if before is None or before.payload != payload:
                event = Event(EventId("", 0, 0), topic, "", self.deliveries.orders.now, False, {}, payload, 0)
                self.now[topic] = event
                changed.append(event)
        for session in self.watching.values():
            for event in changed:
                self._give(session, event, retain=False)

    def entered(self, session: Session, subscription: Subscription) -> None:
        if is_sys(subscription):
            self.watching[session.client] = session

    def left(self, session: Session, subscription: Subscription) -> None:
        if is_sys(subscription) and not any(map(is_sys, session.subscriptions.values())):
            self.watching.pop(session.client, None)

    def retained(self, session: Session, subscription: Subscription) -> None:
        """What a new subscription gets at once."""
        if is_sys(subscription):
            for event in self.now.values():
                if subscription in session.matching(event.topic, {}):
                    self._give(session, event, retain=True)

    def _give(self, session: Session, event: Event, *, retain: bool) -> None:
        if session.connection and not session.choked:
            grade = self.deliveries.grade(session, event)
            if grade is not None:
                self.deliveries.tell(session, Parcel(event, 0, retain, grade.ids))
