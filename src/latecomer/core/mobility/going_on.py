"""Clients that do not wait for their session's broker: they go on with a new session, which has the old subscriptions.

Only those go on that want to (`hand_over.owner_away = "go-on"`, or the client's word): a client that is told of a new
session expects no subscriptions in it [MQTT-3.2.2-3]. If the owner is away, what waits there comes later (`leftovers`).
If the owner has lost the session, with its disk or because it is forgotten, nothing comes from there, and the client
gets what stores kept since it was last there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latecomer.core.membership import Membership
from latecomer.core.mobility.particulars import Restored, decode_particulars, remembered
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.core.mobility.whereabouts import Directory
from latecomer.core.orders import Orders
from latecomer.core.session.sessions import Sessions
from latecomer.core.session.state import Session
from latecomer.core.session.terms import OWNER_AWAY, owner_away_of, terms_of
from latecomer.messages.hand_over import Remembered
from latecomer.messages.mqtt import Connect
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.record import Kind
from latecomer.model.when import Options, format_when

SESSION = "session"
"""The user property of a CONNACK that says `restored`: the session is new, and has the subscriptions of the old one."""
OWNER_LOST = "owner-lost"
"""The user property of a CONNACK that names the broker which has lost the old session."""
GO_ON = "go-on"

Words = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class GoingOn:
    """Begins sessions in the place of those that cannot be had."""

    broker: BrokerId
    orders: Orders
    membership: Membership
    sessions: Sessions
    directory: Directory
    settings: HandOverSettings
    restorations: int = 0
    """Sessions that began with the subscriptions of another."""

    def wanted_by(self, packet: Connect) -> bool:
        """Whether a client goes on if its session's broker is away: only with a session that outlives its connection,
        since what waits in the old one could not wait in the new one."""
        return self._goes_on(owner_away_of(packet)) and terms_of(packet, self.sessions.limits)[0] > 0

    def notices(self, session: Session) -> bool:
        """Whether its keepers are told when a client comes and leaves: only then it is known what it missed."""
        return self._goes_on(session.owner_away)

    def _goes_on(self, said: str) -> bool:
        return (said or self.settings.owner_away) == GO_ON

    # -- what is remembered --------------------------------------------------------------------------------------------

    def remembered(self, to: BrokerId, client: ClientId, user: str, *, go_on: bool) -> Remembered | None:
        """What this broker tells another one about a session that cannot be had."""
        row, now = self.directory.found(client), self.orders.now
        if row is None or row.user != user or not go_on:
            return None
        absent_at = self.membership.link_states.absent_since.get(row.owner)
        told = remembered(row, now, absent_at)
        return Remembered(self.broker, to, client, row.owner, user, told, row.lost_at > 0)

    def of_another(self, client: ClientId, user: str) -> bool:
        """Whether a session that cannot be had belongs to another user."""
        row = self.directory.found(client)
        return row is not None and not row.lost_at and row.user != user

    def read(self, frame: Remembered) -> list[Restored]:
        """What a broker remembers, if it can be read."""
        told = decode_particulars(frame.particulars)
        if told is None:
            return []
        since = max(1, self.orders.now - told.left_us)
        return [Restored(frame.owner, frame.lost, told.subscriptions, since, told.stamp)]

    def restored(self, heard: Sequence[Restored], client: ClientId, user: str, *, go_on: bool) -> Restored | None:
        """What a new session begins with, after what others remember and this broker does."""
        if not go_on:
            return None
        own = self.remembered(self.broker, client, user, go_on=True)
        found = [*heard, *(() if own is None else self.read(own))]
        return max(found, key=lambda each: (not each.lost, each.stamp, each.subscriptions is not None), default=None)

    # -- the new session -----------------------------------------------------------------------------------------------

    def restore(self, session: Session, restored: Restored) -> Words:
        """Give a new session the subscriptions of the old one, as far as they are known and allowed here."""
        away = ((OWNER_LOST if restored.lost else OWNER_AWAY, restored.owner),)
        if restored.subscriptions is None:
            return away
        subscribing, access = self.sessions.subscribing, self.sessions.access
        for subscription in restored.subscriptions[: self.sessions.limits.subscriptions_per_client]:
            group = (subscription.group, subscription.filter)
            allowed = access.may_subscribe(session.user, session.client, subscription.filter.topic)
            if allowed and (not subscription.group or self.sessions.shares.problem(group) is None):
                subscribing.enter(session, subscription)
        self.restorations += 1
        count, detail = len(session.subscriptions), "the owner has lost the session" if restored.lost else "owner away"
        self.orders.note(Kind.RESTORED, client=session.client, peer=restored.owner, count=count, detail=detail)
        return ((SESSION, "restored"), *away)

    def recall(self, session: Session, restored: Restored | None) -> None:
        """The old session is lost: a client that goes on gets what stores kept since it was there."""
        if restored is None or not restored.lost or not self._goes_on(session.owner_away):
            return
        recalls, options = self.sessions.recalls, Options(since=format_when(restored.since))
        classes_for = recalls.retrieval.advertisements.classes_for
        begun = 0
        for subscription in list(session.subscriptions.values()):
            topics = subscription.filter.topic
            if begun >= self.sessions.limits.recalls_per_client:
                return
            if subscription.group or not subscription.qos or not classes_for(topics):
                continue
            if self.sessions.access.may_request(session.user, session.client, topics):
                begun += 1
                recalls.begin(session, subscription, options)
