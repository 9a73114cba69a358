"""SUBSCRIBE and UNSUBSCRIBE: what a client may ask for, and what it gets at once because it is retained.

A content filter comes as the user property `filter` (MQTT 5), for all topic filters of the packet, or behind a `?` in
the topic filter (3.1.1): architecture §4.

History is asked for by the user properties `since`, `until` and `last` (MQTT 5), for all topic filters of the packet,
or by a topic filter `$history/options/filter` (both versions), whose own options win. It takes the place of retained
messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from latecomer.core.attributes import attributes_of
from latecomer.core.clients import Clients
from latecomer.core.effects import Drop, Put
from latecomer.core.orders import Orders
from latecomer.core.retained import RetainedMessages
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.figures import Figures
from latecomer.core.session.limits import Access, SessionLimits
from latecomer.core.session.recall import Recalls
from latecomer.core.session.state import HISTORY_END, Grade, Refusal, Session, Subscription
from latecomer.core.session.subacks import Subacks
from latecomer.core.shares import Shares
from latecomer.messages.mqtt import (
    NONE,
    V5,
    PacketError,
    Properties,
    Reason,
    Request,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from latecomer.model.content import Conjunction
from latecomer.model.errors import FilterError, SettingsError
from latecomer.model.filters import Filter, make_filter, parse_filter
from latecomer.model.ids import ClientId, Instant
from latecomer.model.record import Kind
from latecomer.model.when import NAMES, Options, make_wish, parse_options

SHARE = "$share"
HISTORY = "$history"
RETAINED_SLICE = 256
"""Retained messages given in one step."""
RETAINED_PAUSE_US, RETAINED_WAIT_US = 500, 20_000
"""Until the next ones; until it is seen whether a client that does not read has begun to."""
GRANTED = (Reason.SUCCESS, Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_2)


@lru_cache(maxsize=64)
def _content(text: str) -> Conjunction | FilterError | None:
    """A content filter, or what is wrong with it; read once for a packet with a thousand topic filters."""
    try:
        return make_filter("any", text).where
    except FilterError as error:
        return error


@dataclass(slots=True)
class Subscribing:
    """Keeps the subscriptions of sessions, and the broker's tables in step with them."""

    orders: Orders
    limits: SessionLimits
    access: Access
    clients: Clients
    shares: Shares
    retained: RetainedMessages
    deliveries: Deliveries
    recalls: Recalls
    subacks: Subacks
    figures: Figures
    lagging: dict[ClientId, Session] = field(default_factory=dict)
    """Those who have not got all that was retained for them."""
    due: Instant | None = None
    changed: Callable[[Session], None] = field(init=False)
    """Told which session has other subscriptions than before."""

    # -- packets -----------------------------------------------------------------------------------------------------

    def subscribe(self, session: Session, packet: Subscribe) -> None:
        reasons: list[int] = []
        problems: list[str] = []
        retained: dict[str, Subscription] = {}  # once per packet, however often it names the same filter
        asked: dict[str, Options | None] = {}
        refused_as: dict[Reason, list[str]] = {}
        for request in packet.requests[: self.limits.subscriptions_per_client]:
            try:
                subscription, options = self.read(session, request, packet.properties)
                self._permit(session, subscription, options)
                self._permit_recall(session, subscription, options, asked)
            except Refusal as refusal:
                reasons.append(refusal.reason)
                if len(problems) < 10:
                    problems.append(f"{request.filter[:80]}: {refusal.problem}")
                refused_as.setdefault(refusal.reason, []).append(request.filter)
                continue
            known = subscription.text in session.subscriptions
            self.enter(session, subscription)
            reasons.append(GRANTED[subscription.qos])
            asked[subscription.text] = options
            # [MQTT-3.3.1-9 to -11], and never for a shared subscription (§4.8.2)
            retained.pop(subscription.text, None)
            if not (subscription.group or options) and (
                request.retain_handling == 0 or (request.retain_handling == 1 and not known)
            ):
                retained[subscription.text] = subscription
        surplus = packet.requests[len(reasons) :]
        if surplus:  # bad input 8: no client can have as many, so they are not worth a look
            reasons += [Reason.QUOTA_EXCEEDED] * len(surplus)
            refused_as.setdefault(Reason.QUOTA_EXCEEDED, []).extend(request.filter for request in surplus)
            problems.append(f"a client has at most {self.limits.subscriptions_per_client} subscriptions")
        for reason, texts in refused_as.items():  # one line for a packet, which may have a hundred thousand filters
            detail = f"{reason.name.lower()}: {len(texts)} of {len(packet.requests)} subscriptions"
            self.orders.note(Kind.REFUSED, client=session.client, filter=texts[0], count=len(texts), detail=detail)
        properties = Properties(reason_string="; ".join(problems)[:1024]) if problems and session.explains else NONE
        self.subacks.send(session, Suback(packet.packet_id, tuple(reasons), properties), granted=bool(asked))
        for text, options in asked.items():
            if options is None:
                self.recalls.cancel(session, text)
            else:
                self.recalls.begin(session, session.subscriptions[text], options)
        for subscription in retained.values():
            self.figures.retained(session, subscription)
            session.giving.append((subscription, deque(self.retained.topics(subscription.filter.topic))))
        self.give_retained(session)

    def unsubscribe(self, session: Session, packet: Unsubscribe) -> None:
        reasons = []
        for text in packet.filters:
            subscription = session.subscriptions.get(text)
            reasons.append(Reason.NO_SUBSCRIPTION_EXISTED if subscription is None else Reason.SUCCESS)
            if subscription is not None:
                self.leave(session, subscription)
        self.orders.transmit(session.connection, Unsuback(packet.packet_id, tuple(reasons)))

    # -- retained messages -------------------------------------------------------------------------------------------

    def give_retained(self, session: Session) -> None:
        """Hand over some of what is retained for new subscriptions; a long list must not keep others waiting."""
        budget = RETAINED_SLICE
        giving = session.giving
        while giving and budget and not session.choked:
            subscription, topics = giving[0]
            if not topics or session.subscriptions.get(subscription.text) != subscription:
                giving.popleft()
                continue
            budget -= 1
            self._give_one(session, subscription, topics.popleft())
        if giving:
            self.lagging[session.client] = session
            pause_us = RETAINED_WAIT_US if session.choked else RETAINED_PAUSE_US
            self.due = self.orders.wake(self.orders.now + pause_us)

    def keep_retained(self, session: Session) -> None:
        """The client is away before it has got everything: what is owed with QoS 1 or 2 waits for it."""
        giving, session.giving = session.giving, deque()
        for subscription, topics in giving:
            if subscription.qos and session.subscriptions.get(subscription.text) == subscription:
                for topic in topics:
                    self._give_one(session, subscription, topic)

    def woken(self) -> None:
        """Go on with those who have not got everything yet."""
        if self.due is None or self.due > self.orders.now:
            return
        self.due = None
        lagging, self.lagging = self.lagging, {}
        for session in lagging.values():
            if session.connection:
                self.give_retained(session)

    def _give_one(self, session: Session, subscription: Subscription, topic: str) -> None:
        event = self.retained.get(topic, self.orders.now)
        if event is None or not self.access.may_receive(session.user, session.client, topic):
            return
        if subscription.no_local and event.publisher == session.client:
            return
        where = subscription.filter.where
        if where is None or where.matches(attributes_of(event)):
            grade = Grade(subscription.qos, (subscription.id,) if subscription.id else (), True)
            self.deliveries.give(session, event, grade, True, 0)

    # -- what a client may ask for -------------------------------------------------------------------------------------

    def read(self, session: Session, request: Request, properties: Properties) -> tuple[Subscription, Options | None]:
        """What one topic filter of a SUBSCRIBE asks for."""
        text, group = request.filter, ""
        options = _options(properties) if session.version == V5 else None
        if _begins(text, SHARE):
            group, text = self._group(request)
            name_max = min(self.limits.group_name_bytes, self.limits.topic_bytes)
            if len(group.encode()) > name_max:
                raise Refusal(Reason.TOPIC_FILTER_INVALID, f"the name of a group has at most {name_max} bytes here")
            if options is not None:
                problem = (
                    "a shared subscription has no history: subscribe without $share, or without since, until, last"
                )
                raise Refusal(Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, problem)
        elif _begins(text, HISTORY):
            options, text = _history(text)
        if _begins(text, SHARE) or _begins(text, HISTORY):
            problem = f"{HISTORY} and {SHARE} stand alone and in front: $history/options/filter or $share/name/filter"
            raise Refusal(Reason.TOPIC_FILTER_INVALID, problem)
        if options is not None:
            try:
                make_wish(options, self.orders.now)
            except SettingsError as error:
                raise Refusal(Reason.TOPIC_FILTER_INVALID, error.problem) from None
        try:
            filter = self._filter(session, text, properties)
        except FilterError as error:
            raise Refusal(Reason.TOPIC_FILTER_INVALID, error.problem) from None
        if filter.topic.count("/") >= self.limits.topic_levels:
            raise Refusal(Reason.TOPIC_FILTER_INVALID, f"a filter has at most {self.limits.topic_levels} levels here")
        if len(filter.topic.encode()) > self.limits.topic_bytes:
            raise Refusal(Reason.TOPIC_FILTER_INVALID, f"a filter has at most {self.limits.topic_bytes} bytes here")
        if filter.topic.count("+") > self.limits.wildcards_per_filter:
            raise Refusal(Reason.QUOTA_EXCEEDED, f"a filter has at most {self.limits.wildcards_per_filter} '+' here")
        ids = properties.subscription_ids
        subscription = Subscription(
            request.filter,
            filter,
            request.qos,
            group,
            request.no_local,
            request.retain_as_published,
            ids[0] if ids else 0,
        )
        return subscription, options

    @staticmethod
    def _filter(session: Session, text: str, properties: Properties) -> Filter:
        if session.version != V5:
            return parse_filter(text)
        for name, content in properties.user:
            if name == "filter":
                where = _content(content)
                if isinstance(where, FilterError):
                    raise where
                return Filter(text, where)
        return Filter(text)

    @staticmethod
    def _group(request: Request) -> tuple[str, str]:
        """[MQTT-4.8.2-1, -2] '$share/name/filter', with a name of at least one character and no wildcard."""
        _, _, rest = request.filter.partition("/")
        name, slash, text = rest.partition("/")
        if not name or not slash or not text or "+" in name or "#" in name:
            raise Refusal(Reason.TOPIC_FILTER_INVALID, "a shared subscription is written $share/name/filter")
        if request.no_local:
            raise PacketError(Reason.PROTOCOL_ERROR, "No Local on a shared subscription")  # [MQTT-3.8.3-4]
        return name, text

    def _permit(self, session: Session, subscription: Subscription, options: Options | None) -> None:
        """Bad inputs 8, 14, 15: the filter behind any prefix decides."""
        topic_filter = subscription.filter.topic
        if not self.access.may_subscribe(session.user, session.client, topic_filter):
            raise Refusal(Reason.NOT_AUTHORIZED, "you may not subscribe to all of this")
        if options is not None and not self.access.may_request(session.user, session.client, topic_filter):
            raise Refusal(Reason.NOT_AUTHORIZED, "you may not ask for the past of all of this")
        if (
            subscription.text not in session.subscriptions
            and len(session.subscriptions) >= self.limits.subscriptions_per_client
        ):
            raise Refusal(
                Reason.QUOTA_EXCEEDED, f"a client has at most {self.limits.subscriptions_per_client} subscriptions"
            )
        if not subscription.group:
            return
        if subscription.text not in session.subscriptions and session.shared >= self.limits.groups_per_client:
            problem = f"a client has at most {self.limits.groups_per_client} shared subscriptions"
            raise Refusal(Reason.QUOTA_EXCEEDED, problem)
        problem = self.shares.problem((subscription.group, subscription.filter)) or ""
        if problem:
            raise Refusal(Reason.QUOTA_EXCEEDED, problem)

    def _permit_recall(
        self, session: Session, subscription: Subscription, options: Options | None, asked: Mapping[str, Options | None]
    ) -> None:
        """Bad input 8, for the past: each history under way costs buffers at the store, here and on the way."""
        if options is None:
            return
        under_way = {text for text, others in asked.items() if others is not None}
        if session.past is not None:
            under_way.update(recall.text for recall in session.past.running())
        limit = self.limits.recalls_per_client
        if subscription.text not in under_way and len(under_way) >= limit:
            problem = f"a client has at most {limit} histories under way: wait for {HISTORY_END}"
            raise Refusal(Reason.QUOTA_EXCEEDED, problem)

    # -- the tables --------------------------------------------------------------------------------------------------

    def enter(self, session: Session, subscription: Subscription, *, stored: bool = True) -> None:
        """Add a subscription, or put it in the place of one of the same text [MQTT-3.8.4-3]."""
        before = session.subscriptions.get(subscription.text)
        if before == subscription:
            return
        if before is not None and (before.filter, before.group) != (subscription.filter, subscription.group):
            self.leave(session, before)
            before = None
        session.enter(subscription)
        self.figures.entered(session, subscription)
        self.changed(session)
        if session.durable and stored:
            self.orders.writes.append(Put("subscriptions", session.client, subscription.text, subscription))
        if before is not None:
            self.clients.interest.changed()  # whoever made something of the options must make it anew
            return
        self.orders.note(Kind.SUBSCRIBED, client=session.client, filter=subscription.text)
        clients, filter = self.clients, subscription.filter
        if subscription.group:
            if self.shares.join((subscription.group, filter), session.client):
                clients.shared[filter] = clients.shared.get(filter, 0) + 1
        else:
            clients.subscribers.setdefault(filter, {})[session.client] = None
        clients.interested(filter)

    def recover(self, session: Session, subscription: Subscription) -> None:
        """Find a subscription on disk. An older release may have granted a group that nobody can be told of."""
        problem = self.shares.problem((subscription.group, subscription.filter)) if subscription.group else None
        if problem is None:
            self.enter(session, subscription, stored=False)
            return
        self.orders.writes.append(Drop("subscriptions", session.client, subscription.text))
        detail = f"quota_exceeded: {problem}"
        self.orders.note(Kind.REFUSED, client=session.client, filter=subscription.text[:1024], detail=detail)

    def leave(self, session: Session, subscription: Subscription) -> None:
        """Remove a subscription."""
        session.leave(subscription)
        self.figures.left(session, subscription)
        self.changed(session)
        self.recalls.left(session, subscription)
        if session.durable:
            self.orders.writes.append(Drop("subscriptions", session.client, subscription.text))
        self.orders.note(Kind.UNSUBSCRIBED, client=session.client, filter=subscription.text)
        clients, filter = self.clients, subscription.filter
        if self._in_other_words(session, subscription):
            return
        if subscription.group:
            if self.shares.leave((subscription.group, filter), session.client):
                clients.shared[filter] -= 1
                if not clients.shared[filter]:
                    del clients.shared[filter]
        else:
            del clients.subscribers[filter][session.client]
            if not clients.subscribers[filter]:
                del clients.subscribers[filter]
        clients.uninterested(filter)

    @staticmethod
    def _in_other_words(session: Session, subscription: Subscription) -> bool:
        """Whether the client asks for the same by another text as well."""
        if not subscription.group:
            return subscription.filter in session.wishes
        return any(
            other.group == subscription.group and other.filter == subscription.filter
            for other in session.subscriptions.values()
        )

    def recheck(self, session: Session) -> None:
        """Bad input 19: take back what the rules no longer allow."""
        session.grades.clear()
        for subscription in list(session.subscriptions.values()):
            if not self.access.may_subscribe(session.user, session.client, subscription.filter.topic):
                self.leave(session, subscription)
        self.deliveries.recheck(session)
        self.recalls.recheck(session)


def _begins(text: str, prefix: str) -> bool:
    return text.startswith(prefix) and text[len(prefix) : len(prefix) + 1] in ("", "/")


def _options(properties: Properties) -> Options | None:
    """What the user properties of a SUBSCRIBE ask of history."""
    found: dict[str, str] = {}
    for name, value in properties.user:
        if name in NAMES:
            if name in found:
                raise Refusal(Reason.TOPIC_FILTER_INVALID, f"the user property {name} is there twice: say it once")
            if not value.strip():
                raise Refusal(Reason.TOPIC_FILTER_INVALID, f"the user property {name} is empty: leave it out")
            found[name] = value
    return Options(**found) if found else None


def _history(text: str) -> tuple[Options, str]:
    """'$history/options/filter': the options, and the filter."""
    _, _, rest = text.partition("/")
    options, slash, topic_filter = rest.partition("/")
    if not slash or not topic_filter:
        problem = "history is asked for by $history/options/filter, such as $history/since=-1h/a/b"
        raise Refusal(Reason.TOPIC_FILTER_INVALID, problem)
    try:
        return parse_options(options), topic_filter
    except SettingsError as error:
        raise Refusal(Reason.TOPIC_FILTER_INVALID, error.problem) from None
