"""Frames of a hand-over: any that `wire` lets through, and some that are nearly right."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import strategies as st

from latecomer.core.mobility.on_device import digest_of
from latecomer.core.mobility.outlines import Outline, Stretch
from latecomer.core.session.state import Parcel, SessionRow, Subscription
from latecomer.messages.hand_over import (
    Ask,
    AskRefused,
    Attached,
    Attempt,
    Detach,
    End,
    Fetch,
    Grant,
    Here,
    Leftovers,
    LeftoversWanted,
    Offer,
    Packets,
    Relay,
    Released,
    Remembered,
    Row,
    Rows,
    Seek,
    Seeker,
    ShadowLost,
    ShadowOffer,
    ShadowRows,
    ShadowWanted,
    Standing,
    Taken,
    Want,
    Whereabouts,
    WhereaboutsKept,
)
from latecomer.messages.mqtt import (
    V5,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrel,
    Request,
    Subscribe,
)
from latecomer.model.event import Event
from latecomer.model.filters import Filter
from latecomer.model.ids import NUMBER_MAX, EventId
from latecomer.wire.link import HEADER, decode_body, encode
from tests.strategies_mqtt import packets as PACKETS

_encode: Final = msgspec.msgpack.encode


def frames(
    brokers: st.SearchStrategy[str],
    clients: st.SearchStrategy[str],
    numbers: st.SearchStrategy[int],
    versions: st.SearchStrategy[str],
    sessions: st.SearchStrategy[bytes],
    subscriptions: st.SearchStrategy[bytes],
    rows: st.SearchStrategy[Row],
    packets: st.SearchStrategy[Packets],
    connects: st.SearchStrategy[Packets],
) -> dict[type[msgspec.Struct], st.SearchStrategy[Any]]:
    """A strategy for each frame, of these parts."""
    attempts = st.builds(Attempt, brokers, numbers, numbers)
    users = st.sampled_from(("", "u"))
    few = st.lists(brokers, max_size=2).map(tuple)
    seekers = st.lists(st.builds(Seeker, clients, users, numbers, st.booleans(), st.booleans()), max_size=3).map(tuple)
    grants = st.builds(Grant, st.lists(st.tuples(brokers, numbers, numbers), max_size=3).map(tuple), numbers)
    ways = (brokers, brokers)
    refusals = st.sampled_from(("", "younger", "user", "unknown", "ended", "back", "busy"))
    flags = st.booleans()
    marks = st.sampled_from(("", "b2.1/7"))
    digests = st.sampled_from(("", "", digest_of(()), "another"))
    stretches = st.lists(st.builds(Stretch, numbers, numbers, numbers, numbers), max_size=2).map(tuple)
    outlines = st.just(b"") | st.builds(Outline, brokers, numbers, stretches).map(lambda one: _encode([one]))
    return {
        Seek: st.builds(Seek, versions, brokers, seekers),
        Here: st.builds(Here, *ways, clients, brokers, numbers, refusals, flags, numbers, users, flags, flags),
        End: st.builds(End, *ways, clients, numbers, flags, numbers, flags),
        Ask: st.builds(
            Ask,
            *ways,
            attempts,
            clients,
            users,
            numbers,
            flags,
            flags,
            numbers,
            st.none() | connects,
            digests,
            flags,
            st.none() | attempts,
        ),
        Standing: st.builds(
            Standing,
            *ways,
            attempts,
            clients,
            sessions,
            st.lists(subscriptions, max_size=2).map(tuple),
            numbers,
            numbers,
            few,
            flags,
        ),
        Rows: st.builds(
            Rows,
            *ways,
            attempts,
            clients,
            numbers,
            st.lists(rows, max_size=3).map(tuple),
            st.none() | grants,
            outlines,
        ),
        Want: st.builds(Want, *ways, attempts, clients, numbers, numbers, st.lists(numbers, max_size=3).map(tuple)),
        AskRefused: st.builds(AskRefused, *ways, attempts, clients, refusals, st.just("") | brokers),
        Taken: st.builds(Taken, *ways, attempts, clients, flags),
        Released: st.builds(Released, *ways, attempts),
        Offer: st.builds(Offer, *ways, attempts, clients),
        Fetch: st.builds(Fetch, *ways, clients, users),
        Whereabouts: st.builds(
            Whereabouts,
            *ways,
            numbers,
            st.lists(st.tuples(clients, flags), max_size=3).map(tuple),
            flags,
            st.lists(st.tuples(clients, sessions), max_size=3).map(tuple),
            numbers,
        ),
        WhereaboutsKept: st.builds(WhereaboutsKept, *ways, numbers),
        Remembered: st.builds(Remembered, *ways, clients, brokers, users, sessions, flags),
        Leftovers: st.builds(Leftovers, *ways, clients, marks, st.lists(rows, max_size=3).map(tuple), flags, few),
        LeftoversWanted: st.builds(LeftoversWanted, *ways, clients, users, marks, numbers, flags),
        Attached: st.builds(Attached, *ways, attempts, clients),
        Relay: st.builds(Relay, *ways, attempts, numbers, packets, numbers),
        Detach: st.builds(Detach, *ways, attempts, st.text(max_size=8), flags),
        ShadowOffer: st.builds(
            ShadowOffer, *ways, attempts, clients, users, st.lists(subscriptions, max_size=2).map(tuple)
        ),
        ShadowWanted: st.builds(ShadowWanted, *ways, attempts, clients, numbers),
        ShadowRows: st.builds(
            ShadowRows, *ways, attempts, clients, numbers, st.lists(rows, max_size=3).map(tuple), flags
        ),
        ShadowLost: st.builds(ShadowLost, *ways, attempts, clients),
    }


_any_names: Final = st.text(min_size=1, max_size=8)
_any_numbers: Final = st.integers(0, NUMBER_MAX)
_any_rows: Final = st.builds(
    Row, st.text(max_size=8), st.integers(-(2**63), 2**63) | st.text(max_size=4), st.binary(max_size=16), _any_numbers
)


def _as_read(packets: Packets) -> Packets:
    """With reason codes by name, as a reader gives them."""
    relay = decode_body(encode(Relay("a", "b", Attempt("a", 1, 1), 1, packets, 1))[HEADER:])
    assert isinstance(relay, Relay)
    return relay.packets


_any_packets: Final = st.one_of(
    *(
        st.builds(Packets, st.just(version), st.lists(PACKETS[version], max_size=3).map(tuple)).map(_as_read)
        for version in (V311, V5)
    )
)
HAND_OVER: Final = frames(
    _any_names,
    st.text(min_size=1, max_size=12),
    _any_numbers,
    st.text(max_size=8),
    st.binary(max_size=24),
    st.binary(max_size=24),
    _any_rows,
    _any_packets,
    _any_packets,
)
"""Anything at all."""

_small: Final = st.integers(0, 4)
_events: Final = st.builds(
    Event,
    st.builds(EventId, st.sampled_from("abcd"), _small, _small),
    st.sampled_from(("t", "t/1", "+")),
    qos=st.sampled_from((1, 2)),
)
_parcels: Final = st.none() | st.builds(Parcel, _events, st.sampled_from((1, 2)))
_small_packets: Final = st.one_of(
    st.builds(Publish, st.sampled_from(("t", "t/1")), qos=st.just(1), packet_id=st.integers(1, 3)),
    st.builds(Puback, st.integers(1, 3)),
    st.builds(Pubrel, st.integers(1, 3)),
    st.builds(Subscribe, st.integers(1, 3), st.just((Request("t", 1),))),
    st.builds(Connack, st.booleans()),
    st.sampled_from((Disconnect(), Pingreq(), Pingresp(), Auth(), Connect("p"))),
)
_connects: Final = st.builds(
    Connect, st.sampled_from("pq"), st.just(V5), st.sampled_from((False, False, True)), st.sampled_from((0, 60))
)
HERE: Final = "@"
"""Stands for the name of the present tree."""
NEARLY_RIGHT: Final = frames(
    st.sampled_from("abcd"),
    st.sampled_from("pq"),
    _small,
    st.sampled_from((HERE, HERE, "another tree")),
    st.builds(SessionRow, st.sampled_from(("", "u")), st.just(5), st.sampled_from((0, 60)), _small).map(_encode)
    | st.binary(max_size=4),
    st.builds(Subscription, st.sampled_from(("t", "t/#")), st.sampled_from(("t", "t/#")).map(Filter), st.just(1)).map(
        _encode
    )
    | st.binary(max_size=4),
    st.builds(Row, st.just("queue"), _small, _parcels.map(_encode), _small)
    | st.builds(Row, st.sampled_from(("incoming", "held", "recall", "session")), _small, st.binary(max_size=4)),
    st.builds(Packets, st.sampled_from((V5, V5, V311)), st.lists(_small_packets, max_size=3).map(tuple)),
    st.builds(lambda connect: Packets(V5, (connect,)), _connects) | st.builds(Packets, st.just(V5), st.just(())),
)
"""Brokers, clients and attempts that there may be."""
