"""What an operator may set for the sessions of a broker."""

from __future__ import annotations

from typing import Protocol

import msgspec

NEVER_S = 0xFFFF_FFFF
"""[MQTT-3.1.2.11.2] a session expiry of this many seconds is none."""


class SessionLimits(msgspec.Struct, frozen=True):
    """Bounds of what one client may cost. Every one that MQTT can announce is announced in CONNACK."""

    packet_bytes: int = 1_048_576
    topic_levels: int = 128
    topic_bytes: int = 1024
    subscriptions_per_client: int = 1000
    groups_per_client: int = 100
    """Shared subscriptions among them."""
    group_name_bytes: int = 256
    """Of the name of a shared subscription."""
    recalls_per_client: int = 16
    """Histories that one client may have under way."""
    wildcards_per_filter: int = 8
    receive_maximum: int = 1024
    topic_alias_maximum: int = 64
    inflight: int = 1024
    """QoS 1 and 2 messages sent to a client that has not said what it can take."""
    queue_messages: int = 10_000
    queue_bytes: int = 64 * 1024 * 1024
    retained_messages: int = 1_000_000
    retained_bytes: int = 256 * 1024 * 1024
    retained_per_user: int = 10_000
    retained_bytes_per_user: int = 64 * 1024 * 1024
    sessions: int = 1_000_000
    sessions_per_user: int = 1_000_000
    session_expiry_max_s: int = NEVER_S
    keep_alive_max_s: int = 300
    keep_alive_longer_for_311: bool = True
    """MQTT 3.1.1 has no way to tell a client of a shorter keep-alive: accept what it asks for, or refuse it."""


class Access(Protocol):
    """Who may do what; an answer may change only together with a `RulesChanged`."""

    @property
    def open_to_all(self) -> bool:
        """Whether everybody may do everything, but for topics below `$`."""

    def client_problem(self, user: str, client: str) -> str | None:
        """Why this client id cannot be used by this user, if so (bad input 18)."""

    def may_publish(self, user: str, client: str, topic: str) -> bool: ...

    def may_subscribe(self, user: str, client: str, topic_filter: str) -> bool: ...

    def may_receive(self, user: str, client: str, topic: str) -> bool: ...

    def may_request(self, user: str, client: str, topic_filter: str) -> bool:
        """Whether the past of these topics may be asked for."""

    def may_receive_past(self, user: str, client: str, topic: str) -> bool: ...


class Anything:
    """Access for those who have no rules: everything but publishing below `$` (bad input 17)."""

    open_to_all = True

    def client_problem(self, user: str, client: str) -> str | None:
        return None

    def may_publish(self, user: str, client: str, topic: str) -> bool:
        return not topic.startswith("$")

    def may_subscribe(self, user: str, client: str, topic_filter: str) -> bool:
        return True

    def may_receive(self, user: str, client: str, topic: str) -> bool:
        return True

    def may_request(self, user: str, client: str, topic_filter: str) -> bool:
        return True

    def may_receive_past(self, user: str, client: str, topic: str) -> bool:
        return True
