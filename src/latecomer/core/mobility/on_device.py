"""Subscriptions that a client carries with it, as user properties of its CONNECT (*mobility* §3, subscriptions on the
device).

    subscription: 1 news/#
    subscription: 2,no-local,id=7 cars/+/position
    subscription: 1,content cars/# ? speed > 100

The new broker subscribes to them at once and asks the old one for everything else, with a digest of them. If the old
broker has others, it says so, and the hand-over goes the ordinary way: no correctness rests on what a client says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from latecomer.core.inputs import MqttConnected
from latecomer.core.session.state import Refusal, Session, Subscription
from latecomer.core.session.subscribing import Subscribing
from latecomer.messages.mqtt import V5, PacketError, Properties, Reason, Request

SUBSCRIPTION = "subscription"
"""The user property of a CONNECT that states one subscription."""
CONTENT = " ? "
"""Stands between topic filter and content filter, if the option `content` says that there is one."""
SUBSCRIPTION_ID_MAX = 268_435_455
FLAGS = ("no-local", "retain-as-published", "content")
HANDLING = ("retain-handling=0", "retain-handling=1", "retain-handling=2")
"""Allowed, and without effect: it is about retained messages at the time of a SUBSCRIBE."""
SYNTAX = (
    "QoS, options and filter, such as '1 news/#' or '2,no-local,id=7 news/#'; "
    "options are no-local, retain-as-published, retain-handling=0 to 2, id=NUMBER, content"
)


def read_subscriptions(fact: MqttConnected, subscribing: Subscribing) -> tuple[Subscription, ...]:
    """What a client says that its session is subscribed to. Raises `Refusal`."""
    packet, limits = fact.packet, subscribing.limits
    if packet.version != V5:
        return ()
    values = [value for name, value in packet.properties.user if name == SUBSCRIPTION]
    if not values:
        return ()
    if len(values) > limits.subscriptions_per_client:
        problem = f"a client has at most {limits.subscriptions_per_client} subscriptions"
        raise _refusal(f"{len(values)} of them", problem)
    session = Session(packet.client_id, fact.user)
    found: dict[str, Subscription] = {}
    for value in values:
        try:
            request, properties = _parse(value)
            subscription, _ = subscribing.read(session, request, properties)
        except (Refusal, PacketError, ValueError) as error:
            raise _refusal(repr(value[:80]), str(error)) from None
        found[subscription.text] = subscription
    if sum(bool(subscription.group) for subscription in found.values()) > limits.groups_per_client:
        problem = f"a client has at most {limits.groups_per_client} shared subscriptions"
        raise _refusal(f"{len(values)} of them", problem)
    return tuple(found.values())


def _refusal(what: str, problem: str) -> Refusal:
    return Refusal(Reason.IMPLEMENTATION_SPECIFIC_ERROR, f"user property {SUBSCRIPTION}, {what}: {problem}")


def _parse(value: str) -> tuple[Request, Properties]:
    """The same as parts of a SUBSCRIBE."""
    head, space, text = value.partition(" ")
    qos, *options = head.split(",")
    if qos not in ("0", "1", "2") or not space or not text or len(options) != len(dict.fromkeys(options)):
        raise ValueError(f"must be written as {SYNTAX}")
    ids: tuple[int, ...] = ()
    for option in options:
        name, _, digits = option.partition("=")
        if name == "id" and digits.isascii() and digits.isdigit() and 0 < int(digits[:10]) <= SUBSCRIPTION_ID_MAX:
            ids += (int(digits[:10]),)
        elif option not in FLAGS and option not in HANDLING:
            raise ValueError(f"{option[:40]!r} is no option; it must be written as {SYNTAX}")
    if len(ids) > 1:
        raise ValueError("a subscription has one id")
    user: tuple[tuple[str, str], ...] = ()
    if "content" in options:
        text, mark, content = text.partition(CONTENT)
        if not mark:
            raise ValueError(f"with the option content it must end in a content filter, such as 'cars/#{CONTENT}v > 3'")
        user = (("filter", content),)
    request = Request(text, int(qos), "no-local" in options, "retain-as-published" in options)
    return request, Properties(user=user, subscription_ids=ids)


def digest_of(subscriptions: Iterable[Subscription]) -> str:
    """The same for the same subscriptions, in whatever order."""
    encoded = sorted(map(msgspec.msgpack.encode, subscriptions))
    return hashlib.blake2b(msgspec.msgpack.encode(encoded), digest_size=16).hexdigest()
