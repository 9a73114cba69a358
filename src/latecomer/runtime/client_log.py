"""What `log_level = "debug"` says about clients: one line for each record that concerns one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from latecomer.model.record import SESSION_ENDED, Kind, Record

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

CLIENT_KINDS = frozenset((Kind.CONNECTED, Kind.DISCONNECTED, Kind.SUBSCRIBED, Kind.UNSUBSCRIBED, Kind.MOVED))
"""Refusals are logged at the level `info`."""


def client_line(record: Record, driver: Driver) -> str:
    """The sentence about a record of one of these kinds."""
    client = f"client {record.client}"
    match record.kind:
        case Kind.CONNECTED:
            return f"{client} connected: {', '.join(_connection(record, driver))}"
        case Kind.SUBSCRIBED:
            return f"{client} subscribed to {record.filter}"
        case Kind.UNSUBSCRIBED:
            return f"{client} unsubscribed from {record.filter}"
        case Kind.MOVED:
            return f"{client}: session came from {record.peer}, {record.count} messages waiting, {record.detail}"
        case _ if record.detail.startswith(SESSION_ENDED):
            return f"{client}: {record.detail}"
        case _:
            return f"{client} disconnected: {record.detail}"


def _connection(record: Record, driver: Driver) -> list[str]:
    """Version, where it comes from, and as whom. A client that has left in the same moment has neither any more."""
    words = [record.detail.replace("mqtt 4", "MQTT 3.1.1").replace("mqtt 5", "MQTT 5")]
    session = driver.core.sessions.by_client.get(record.client)
    if session is not None:
        connection = driver.connections.get(session.connection)
        if connection is not None:
            words.append(f"{connection.transport_name} from {connection.address}")
        words.append(f"user {session.user}" if session.user else "anonymous")
    if record.count:
        words.append(f"{record.count} message{'' if record.count == 1 else 's'} waiting")
    return words
