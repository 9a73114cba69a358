"""The terms of a connection: what the client asked for, what this broker grants, and how the CONNACK says it."""

from __future__ import annotations

from latecomer.core.session.limits import NEVER_S, SessionLimits
from latecomer.messages.mqtt import V5, Connack, Connect, Packet, Properties, Reason
from latecomer.model.ids import ClientId

HAND_OVER = "hand-over"
"""The user property of a CONNECT that names an algorithm."""
FOLLOWS = ("follows-references", "yes")
"""The user property of a CONNECT of a client that goes where a Server Reference points."""
OWNER_AWAY = "owner-away"
"""The user property of a CONNECT that says what is to be done if the session's broker is away; of a CONNACK, which
broker is."""


def terms_of(packet: Connect, limits: SessionLimits) -> tuple[int, int]:
    """For how many seconds the session waits for its client, and how often the client must be heard from."""
    wanted_s = packet.properties.session_expiry_s or 0
    if packet.version != V5:
        wanted_s = 0 if packet.clean_start else NEVER_S
    keep_alive_s = packet.keep_alive_s
    if packet.version == V5 and not 0 < keep_alive_s <= limits.keep_alive_max_s:
        keep_alive_s = limits.keep_alive_max_s  # [MQTT-3.2.2-21]
    return min(wanted_s, limits.session_expiry_max_s), keep_alive_s


def connack_to(
    packet: Connect,
    client: ClientId,
    present: bool,
    limits: SessionLimits,
    durability: str,
    words: tuple[tuple[str, str], ...] = (),
) -> Connack:
    """The answer to a CONNECT that is accepted; `words` are more user properties."""
    if packet.version != V5:
        return Connack(present)
    expiry_s, keep_alive_s = terms_of(packet, limits)
    asked_s = packet.properties.session_expiry_s or 0
    properties = Properties(
        session_expiry_s=expiry_s if expiry_s != asked_s else None,
        assigned_client_id=None if packet.client_id else client,
        server_keep_alive_s=keep_alive_s if keep_alive_s != packet.keep_alive_s else None,
        receive_maximum=limits.receive_maximum,
        topic_alias_maximum=limits.topic_alias_maximum,
        maximum_packet_size=limits.packet_bytes,
        user=(("durability", durability), *words),
    )
    return Connack(present, Reason.SUCCESS, properties)


def hand_over_of(packet: Connect) -> str:
    """The algorithm by which the client wants its session to move; empty: it asked for none."""
    return next((value for name, value in packet.properties.user if name == HAND_OVER), "")


def owner_away_of(packet: Connect) -> str:
    """What the client wants if its session is at a broker that is away; empty: what the broker says."""
    said = next((value for name, value in packet.properties.user if name == OWNER_AWAY), "")
    return said if said in ("hold", "go-on") else ""


def follows(packet: Connect) -> bool:
    """Whether the client says that it goes where a Server Reference points."""
    return packet.version == V5 and FOLLOWS in packet.properties.user


def unexpected(packet: Packet) -> str:
    """What is wrong with a packet that clients do not send."""
    name = type(packet).__name__.upper()
    return "a second CONNECT on one connection" if type(packet) is Connect else f"{name} is for servers to send"
