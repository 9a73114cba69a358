"""paho's properties, messages and reason codes, to and from our words; aiomqtt passes on what paho makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from latecomer.client.course import Course, Profile
from latecomer.client.journey import Ended, Refused
from latecomer.client.words import Message, Pairs, Subscription, Welcome, reason_words, subscribe_words
from latecomer.messages.mqtt import Will


def no_properties(packet: int) -> Properties:
    """Of a packet of this type, to be filled."""
    return Properties(packet)  # type: ignore[no-untyped-call]


def user_properties(properties: Properties | None) -> tuple[tuple[str, str], ...]:
    found: Pairs = getattr(properties, "UserProperty", ())
    return tuple((name, value) for name, value in found)


def with_user(packet: int, pairs: Pairs, **more: Any) -> Properties:
    """Properties of a packet: user properties, and what else is given by paho's names; None and "" are left out."""
    properties = no_properties(packet)
    for name, value in more.items():
        if value not in (None, "", b""):
            setattr(properties, name, value)
    for pair in pairs:
        properties.UserProperty = pair  # paho appends
    return properties


# --- out ---


def connect_properties(course: Course) -> Properties:
    expiry = course.profile.session_s
    return with_user(PacketTypes.CONNECT, course.connect_words(), SessionExpiryInterval=expiry)


def disconnect_properties(pairs: Pairs) -> Properties | None:
    return with_user(PacketTypes.DISCONNECT, pairs) if pairs else None


def subscribe_properties(subscription: Subscription, *, past: bool) -> Properties:
    identifier = subscription.identifier or None
    return with_user(PacketTypes.SUBSCRIBE, subscribe_words(subscription, past=past), SubscriptionIdentifier=identifier)


def subscribe_options(subscription: Subscription) -> SubscribeOptions:
    return SubscribeOptions(
        qos=subscription.qos,
        noLocal=subscription.no_local,
        retainAsPublished=subscription.retain_as_published,
        retainHandling=subscription.retain_handling,
    )


def publish_properties(user: Pairs, content_type: str, response_topic: str, expiry_s: int | None) -> Properties | None:
    if not (user or content_type or response_topic or expiry_s is not None):
        return None
    return with_user(
        PacketTypes.PUBLISH,
        user,
        ContentType=content_type,
        ResponseTopic=response_topic,
        MessageExpiryInterval=expiry_s,
    )


def will_properties(will: Will) -> Properties:
    told = will.properties
    return with_user(
        PacketTypes.WILLMESSAGE, told.user, WillDelayInterval=told.will_delay_s, ContentType=told.content_type,
        MessageExpiryInterval=told.message_expiry_s, ResponseTopic=told.response_topic,
    )  # fmt: skip


# --- in ---


def message_of(topic: str, payload: bytes, qos: int, retain: bool, properties: Properties | None) -> Message:
    """As it came: the broker's words are still among the user properties."""
    return Message(
        topic=topic,
        payload=payload,
        qos=qos,
        retain=retain,
        user=user_properties(properties),
        content_type=getattr(properties, "ContentType", ""),
        response_topic=getattr(properties, "ResponseTopic", ""),
        correlation_data=getattr(properties, "CorrelationData", b""),
        expiry_s=getattr(properties, "MessageExpiryInterval", None),
    )


def welcome_of(course: Course, session_present: bool, properties: Properties | None) -> Welcome:
    at = str(course.journey.at)
    return Welcome(address=at, session_present=session_present, user=user_properties(properties))


def ended_by(code: ReasonCode, properties: Properties | None, *, welcomed: bool, lasted_s: float = 0.0) -> Ended:
    """The broker has said why: in CONNACK, or in DISCONNECT."""
    return Ended(
        welcomed=welcomed,
        reason=code.value,
        reference=getattr(properties, "ServerReference", ""),
        told=getattr(properties, "ReasonString", ""),
        lasted_s=lasted_s,
    )


def refusal_of(
    what: str, subscription: Subscription, codes: Sequence[ReasonCode], properties: Properties | None
) -> Refused | None:
    """Why a broker has not granted a subscription; None: it has."""
    code = codes[0] if codes else None
    if code is None or not code.is_failure:
        return None
    told = getattr(properties, "ReasonString", "")
    return Refused(f"{what} refused {subscription.topic!r}: {reason_words(code.value, told)}", code.value)


def publication_refusal(code: ReasonCode, properties: Properties | None) -> str:
    return reason_words(code.value, getattr(properties, "ReasonString", ""))


def credentials(profile: Profile) -> tuple[str, str | None] | None:
    """User and password, if there are any."""
    return (profile.user, profile.password or None) if profile.user else None
