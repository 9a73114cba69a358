"""Who subscribes to what, and at which broker. As a file, CSV with the columns `client,broker,topic`, or `broker,topic`
where clients do not matter. How that changes is CSV with `client,topic,change`, + or -, in order; which brokers are
near one another is CSV with `broker,cluster`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from latecomer.model.csv_rows import read_rows
from latecomer.model.errors import SettingsError
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.topology import quoted

KEY = "subscriptions"
CHANGES = ("client", "topic", "change")
CLUSTERS = ("broker", "cluster")
SIGNS = {"+": True, "-": False}
HEADINGS = (("client", "broker", "topic"), ("broker", "topic"))


class Subscription(msgspec.Struct, frozen=True):
    """`client` is empty where only brokers are known."""

    client: ClientId
    broker: BrokerId
    topic: str


class Change(msgspec.Struct, frozen=True):
    """A subscription that begins or ends."""

    client: ClientId
    topic: str
    began: bool


def by_broker(subscriptions: Sequence[Subscription]) -> dict[BrokerId, list[str]]:
    """Broker → topics that anybody there subscribes to, in the order in which they come."""
    found: dict[BrokerId, dict[str, None]] = {}
    for one in subscriptions:
        found.setdefault(one.broker, {})[one.topic] = None
    return {broker: list(topics) for broker, topics in found.items()}


def read_subscriptions(text: str, source: str) -> list[Subscription]:
    """The subscriptions in a file; an error names the line."""
    found = [Subscription(*([""] * (3 - len(values))), *values) for _, values in read_rows(text, source, HEADINGS)]
    if not found:
        raise SettingsError(KEY, "nobody subscribes to anything; name at least one subscription", source=source)
    return found


def check_homes(subscriptions: Sequence[Subscription], source: str) -> None:
    """Every subscription has a client, and every client one broker."""
    homes: dict[ClientId, BrokerId] = {}
    for one in subscriptions:
        if not one.client:
            told = f"says nothing of clients; the first line must be {','.join(HEADINGS[0])}"
            raise SettingsError(KEY, told, source=source)
        if (home := homes.setdefault(one.client, one.broker)) != one.broker:
            told = f"the client {quoted(one.client)} is at {quoted(home)} and at {quoted(one.broker)}; it has one home"
            raise SettingsError(KEY, told, source=source)


def read_changes(text: str, source: str, clients: Collection[ClientId]) -> list[Change]:
    """What these clients subscribe to and unsubscribe from, in order."""
    found = []
    for line, (client, topic, change) in read_rows(text, source, (CHANGES,)):
        if change not in SIGNS:
            told = f"{quoted(change)} is not a change; write + for a subscription and - for its end"
            raise SettingsError("changes", told, source=source, line=line)
        if client not in clients:
            told = f"the client {quoted(client)} has no home; give it a subscription first"
            raise SettingsError("changes", told, source=source, line=line)
        found.append(Change(client, topic, SIGNS[change]))
    return found


def read_clusters(text: str, source: str, brokers: Collection[BrokerId]) -> dict[BrokerId, str]:
    """Broker → cluster; every broker that has clients must be in one."""
    found: dict[BrokerId, str] = {}
    for line, (broker, cluster) in read_rows(text, source, (CLUSTERS,)):
        if found.setdefault(broker, cluster) != cluster:
            told = f"the broker {quoted(broker)} is in two clusters; leave out one"
            raise SettingsError("clusters", told, source=source, line=line)
    for broker in brokers:
        if broker not in found:
            told = f"the broker {quoted(broker)} has subscriptions but no cluster; add it"
            raise SettingsError("clusters", told, source=source)
    return found
