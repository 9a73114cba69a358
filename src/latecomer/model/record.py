"""Record: one line of a broker's event log, the artefact that joins the network to Spark.

The core notes records; drivers write them down as Parquet segments (`latecomer.eventlog`), transcripts print them,
checkers read them. Payloads are never in it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from latecomer.model.ids import BrokerId, ClientId, Instant

SESSION_ENDED = "session ended: "
"""How the detail of a `DISCONNECTED` begins when it was the session that ended, not a connection."""


class Kind(StrEnum):
    """What happened. One word per thing, in the past tense."""

    STARTED = "started"
    SUBSCRIBED = "subscribed"
    UNSUBSCRIBED = "unsubscribed"
    ADVERTISED = "advertised"
    UNADVERTISED = "unadvertised"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    PUBLISHED = "published"
    REFUSED = "refused"
    DELIVERED = "delivered"
    DROPPED = "dropped"
    PARKED = "parked"
    HANDED_ON = "handed-on"
    """A message of a shared subscription goes to another broker: the member that it was for is gone."""
    LINKED = "linked"
    UNLINKED = "unlinked"
    REJECTED = "rejected"
    TREE_ADOPTED = "tree-adopted"
    TREE_READY = "tree-ready"
    FORGOTTEN = "forgotten"
    KEEPING = "keeping"
    """A broker's store has begun to answer for a topic class."""
    NOT_KEEPING = "not-keeping"
    TABLED = "tabled"
    """A neighbour's word about a topic class, and what the Advertisement Table made of it."""
    REQUESTED = "requested"
    """A client asked for history."""
    SERVED = "served"
    """A store answered a request to the end."""
    RECALLED = "recalled"
    """A client got the history it asked for: from which store, how far away, how many events."""
    REPLAYED = "replayed"
    """An event of the past was handed to a client."""
    MOVED = "moved"
    """A session came from another broker (`peer`), with so many deliveries that its client has not settled."""
    RESTORED = "restored"
    """A new session began with so many subscriptions of one that cannot be had from its broker (`peer`)."""
    PROPOSED = "proposed"
    """This broker wants so many brokers to stand elsewhere on the ring."""
    WITHDRAWN = "withdrawn"
    """Nothing comes of what this broker proposed."""
    POSITIONED = "positioned"
    """Positions of so many brokers, made by one of them (`peer`), are in force at this one."""
    ADVISED = "advised"
    """A client would be better at another broker (`peer`)."""
    SENT_ON = "sent-on"
    """A client was sent to another broker (`peer`), which suits it better."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fact. Fields that do not apply keep their default, so that every kind has the same columns.

    `cause` names the stimulus (broker, boot, step) whose handling produced the record: records of one step share it.
    `event` is the identity of the publication concerned, the same at every broker. `hops` counts links from the
    event's origin along the tree; -1 means it does not apply.

    `count`: one line may stand for so many publications or deliveries of one topic, of which the first was at `at_us`
    and the others at most some milliseconds later; 0 means one.
    """

    at_us: Instant
    broker: BrokerId
    kind: Kind
    cause: str = ""
    client: ClientId = ""
    topic: str = ""
    filter: str = ""
    event: str = ""
    peer: BrokerId = ""
    hops: int = -1
    count: int = 0
    detail: str = ""
