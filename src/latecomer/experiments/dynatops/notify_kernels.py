"""What notifications cost with the subscriptions of one moment, compiled.

Any user may publish, whatever it wants: what depends on the publisher is averaged over all users. Both walks at once.
*paper*: by a key-based route to the rendezvous point, then down the tree. *core*: up the reverse of the route from the
rendezvous point, and at every broker on the way down where it is wanted; each edge once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latecomer.experiments.dynatops.changes_kernels import Tables
from latecomer.experiments.dynatops.overlay_kernels import F64, I64, Trees
from latecomer.planner.compiling import inner, kernel

(
    EVENTS,
    CLIMB,
    INTERNAL,
    EXTERNAL,
    BROKERS,
    DOWN_BROKERS,
    DELAY_BROKERS,
    USERS,
    DELAY_USERS,
    CORE_MESSAGES,
    CORE_DELAY_BROKERS,
    CORE_DELAY_USERS,
    CORE_CLIMB,
) = range(13)
SUMS = 13
"""Publications; hops to rendezvous points; messages to subscribing brokers and to relays; deliveries to brokers, their
delay from the rendezvous point (accD) and from the publisher; deliveries to users and their delay from the publisher;
and as the core walks: messages, delays, and those of the messages that leave the tree of the topic to climb."""


@inner
def _core_walk(
    trees: Trees,
    below: npt.NDArray[np.int32],
    row: int,
    edge: F64,
    who: I64,
    publishing: F64,
    wanting: F64,
    hosting: F64,
    brokers: float,
    customers: float,
) -> tuple[float, float, float]:
    """Messages that leave the tree of the topic to climb, and delays to brokers and to users: sums over what is below
    each edge, those farthest from the root first."""
    unit = edge.shape[0] == 1
    outside, to_brokers, to_users = 0.0, 0.0, 0.0
    for k in range(len(who) - 1, 0, -1):
        at = trees.order[row, k]
        above = trees.parent[row, at]
        length = 1.0 if unit else edge[who[above], who[at]]
        share = publishing[at]
        if below[at] == 0:
            outside += share
        to_brokers += length * (share * (brokers - wanting[at]) + (1.0 - share) * wanting[at])
        to_users += length * (share * (customers - hosting[at]) + (1.0 - share) * hosting[at])
        publishing[above] += publishing[at]
        wanting[above] += wanting[at]
        hosting[above] += hosting[at]
    return outside, to_brokers, to_users


@kernel
def notify(
    trees: Trees,
    tables: Tables,
    down: F64,
    up: F64,
    edge: F64,
    published: I64,
    users: F64,
    sums: F64,
    sent: F64,
) -> None:
    """Add what the publications of one step cost. `users` [B] is the share of the users at each broker."""
    count = len(tables.place)
    who = np.empty(count, np.int64)
    for broker in range(count):
        who[tables.place[broker]] = broker
    publishing = np.zeros(count)
    wanting = np.zeros(count)
    hosting = np.zeros(count)
    for topic in range(len(published)):
        events = float(published[topic])
        if events == 0.0:
            continue
        row = trees.row[topic]
        root = trees.root[row]
        climb, climb_delay, brokers, down_brokers, customers, down_customers = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        internal, external = 0.0, 0.0
        for at in range(count):
            broker = who[at]
            share = users[broker]
            publishing[at] = share
            climb += share * trees.up[row, at]
            climb_delay += share * up[row, at]
            number = float(tables.counts[broker, topic])
            hosting[at] = number
            wanting[at] = 0.0
            if number > 0.0:
                wanting[at] = 1.0
                brokers += 1.0
                down_brokers += down[row, at]
                customers += number
                down_customers += number * down[row, at]
            if at != root and tables.below[topic, at] > 0:
                if number > 0.0:
                    internal += 1.0
                else:
                    external += 1.0
                sent[who[trees.parent[row, at]]] += events
        outside, to_brokers, to_users = _core_walk(
            trees, tables.below[topic], row, edge, who, publishing, wanting, hosting, brokers, customers
        )
        sums[EVENTS] += events
        sums[CLIMB] += events * climb
        sums[INTERNAL] += events * internal
        sums[EXTERNAL] += events * external
        sums[BROKERS] += events * brokers
        sums[DOWN_BROKERS] += events * down_brokers
        sums[DELAY_BROKERS] += events * (brokers * climb_delay + down_brokers)
        sums[USERS] += events * customers
        sums[DELAY_USERS] += events * (customers * climb_delay + down_customers)
        sums[CORE_MESSAGES] += events * (internal + external + outside)
        sums[CORE_DELAY_BROKERS] += events * to_brokers
        sums[CORE_DELAY_USERS] += events * to_users
        sums[CORE_CLIMB] += events * outside


@kernel
def last_hops(tables: Tables, access: F64, published: I64) -> float:
    """Delay of the first and the last hop, between users and brokers, added up over all deliveries to users.

    `access` [Q, B] is the delay between a place and a broker.
    """
    first, subscriptions = 0.0, 0.0
    customers = np.zeros(len(published))
    for user in range(len(tables.home)):
        hop = access[tables.where[user], tables.home[user]]
        first += hop
        for slot in range(tables.slots.shape[1]):
            topic = tables.slots[user, slot]
            if topic < 0:
                continue
            new = True
            for before in range(slot):
                new = new and tables.slots[user, before] != topic
            if new:
                customers[topic] += 1.0
                subscriptions += published[topic] * hop
    first /= len(tables.home)
    for topic in range(len(published)):
        subscriptions += published[topic] * customers[topic] * first
    return subscriptions


Sums = npt.NDArray[np.float64]
