"""What travels between a client and its broker: the control packets of MQTT 3.1.1 and MQTT 5.

One set of structs for both versions; what a version lacks keeps its default. `wire/mqtt` turns them into bytes, and
checks whatever one packet shows by itself; what needs memory of earlier packets is left to `core/session`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from latecomer.model.errors import ProtocolError

V311 = 4
V5 = 5
PACKET_MAX = 268_435_455 + 5
"""Bytes of the largest packet that a remaining length can describe."""


class Reason(IntEnum):
    """Reason codes of MQTT 5 (§2.4). Granted QoS 0, normal disconnection and success are all 0."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


class PacketError(ProtocolError):
    """A packet that must be answered with a reason code and the end of the connection."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class Properties(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Properties of MQTT 5 (§2.2.2); which packet may carry which is checked by the codec."""

    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_ids: tuple[int, ...] = ()
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_s: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_available: int | None = None
    subscription_ids_available: int | None = None
    shared_available: int | None = None


NONE = Properties()
"""No properties; the same object everywhere, so that the common case is one comparison of identities."""


class Will(msgspec.Struct, frozen=True):
    """What the broker publishes for a client that goes without saying goodbye."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NONE


class Connect(msgspec.Struct, frozen=True):
    client_id: str
    version: int = V5
    clean_start: bool = True
    keep_alive_s: int = 0
    will: Will | None = None
    user: str | None = None
    password: bytes | None = None
    properties: Properties = NONE


class Connack(msgspec.Struct, frozen=True):
    """`reason` is a reason code of MQTT 5; the codec translates it for 3.1.1 (table 3.1)."""

    session_present: bool = False
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


class Publish(msgspec.Struct, frozen=True):
    """`topic` is empty only where a topic alias stands for it."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NONE


class Puback(msgspec.Struct, frozen=True):
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


class Pubrec(msgspec.Struct, frozen=True):
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


class Pubrel(msgspec.Struct, frozen=True):
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


class Pubcomp(msgspec.Struct, frozen=True):
    packet_id: int
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


class Request(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE with its options, as the client wrote it."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True):
    packet_id: int
    requests: tuple[Request, ...]
    properties: Properties = NONE


class Suback(msgspec.Struct, frozen=True):
    """For 3.1.1 the codec writes every reason from 0x80 as 0x80."""

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NONE


class Unsubscribe(msgspec.Struct, frozen=True):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NONE


class Unsuback(msgspec.Struct, frozen=True):
    """3.1.1 has no reasons here."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NONE


class Pingreq(msgspec.Struct, frozen=True):
    pass


class Pingresp(msgspec.Struct, frozen=True):
    pass


class Disconnect(msgspec.Struct, frozen=True):
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


class Auth(msgspec.Struct, frozen=True):
    reason: int = Reason.SUCCESS
    properties: Properties = NONE


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
