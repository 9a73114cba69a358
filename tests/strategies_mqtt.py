"""Packets of MQTT of every kind, as a lawful peer may send them, for both versions."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from latecomer.messages.mqtt import (
    NONE,
    V5,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Request,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from latecomer.wire import mqtt_properties as table

text: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
names: Final = st.text(st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=12)
filters: Final = st.one_of(text.filter(bool), st.sampled_from(["a/+/#", "$share/g/a", "/", "a b", "\ufeff"]))
identifiers: Final = st.integers(1, 65_535)
flags: Final = st.booleans()
qualities: Final = st.integers(0, 2)
payloads: Final = st.one_of(st.binary(max_size=40), st.binary(min_size=100, max_size=300))
fours: Final = st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1))

_VALUES: Final[dict[table.Type, st.SearchStrategy[Any]]] = {
    table.BYTE: st.integers(0, 1),
    table.TWO: st.integers(1, 65_535),
    table.FOUR: st.integers(1, 2**32 - 1),
    table.TEXT: text,
    table.WORDS: text,
    table.BINARY: st.binary(max_size=12),
}
_PLURAL: Final[dict[str, st.SearchStrategy[Any]]] = {
    "subscription_ids": st.one_of(st.integers(1, 300), st.integers(1, 2**28 - 1)),
    "user": st.tuples(text, text),
}


def _field(property: table.Property, packet: int) -> st.SearchStrategy[Any]:
    if property.name in _PLURAL:
        most = 3 if packet in property.repeatable else 1
        return st.lists(_PLURAL[property.name], min_size=1, max_size=most).map(tuple)
    return names if property.name == "response_topic" else _VALUES[property.type]


@st.composite
def properties(draw: st.DrawFn, packet: int) -> Properties:
    """A few of those that the packet may carry; mostly none."""
    if draw(st.integers(0, 2)) == 0:
        return NONE
    may = [property for property in table.PROPERTIES if packet in property.packets]
    chosen = draw(st.lists(st.sampled_from(may), max_size=4, unique_by=lambda property: property.id))
    values = {property.name: draw(_field(property, packet)) for property in chosen}
    if "authentication_data" in values:
        values.setdefault("authentication_method", "x")
    return Properties(**values)


def _properties(packet: int, version: int) -> st.SearchStrategy[Properties]:
    return properties(packet) if version == V5 else st.just(NONE)


# --- packets --------------------------------------------------------------------------------------


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    client_id = draw(text)
    user = draw(st.none() | text)
    # 3.1.1 has no password without a user name, and no session without a client identifier.
    password = draw(st.none() | st.binary(max_size=9)) if version == V5 or user is not None else None
    clean = draw(flags) or (version == V311 and not client_id)
    will = draw(
        st.none() | st.builds(Will, names, st.binary(max_size=20), qualities, flags, _properties(table.WILL, version))
    )
    return Connect(
        client_id,
        version,
        clean,
        draw(st.integers(0, 65_535)),
        will,
        user,
        password,
        draw(_properties(table.CONNECT, version)),
    )


@st.composite
def connacks(draw: st.DrawFn, version: int) -> Connack:
    codes = [0x00, 0x80, 0x84, 0x85, 0x86, 0x87, 0x88, 0x97, 0x9C, 0x9F]
    reason = draw(st.sampled_from(codes if version == V5 else [0x00, 0x84, 0x85, 0x86, 0x87, 0x88]))
    return Connack(draw(flags) and not reason, reason, draw(_properties(table.CONNACK, version)))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> Publish:
    qos = draw(qualities)
    extra = draw(_properties(table.PUBLISH, version))
    topic = "" if extra.topic_alias is not None and draw(flags) else draw(names)
    dup = qos > 0 and draw(flags)
    return Publish(topic, draw(payloads), qos, draw(flags), dup, draw(identifiers) if qos else 0, extra)


def _answers(kind: Any, packet: int, version: int, codes: list[int]) -> st.SearchStrategy[Packet]:
    reasons = st.sampled_from(codes if version == V5 else [0])
    return st.builds(kind, identifiers, reasons, _properties(packet, version))


@st.composite
def requests(draw: st.DrawFn, version: int) -> Request:
    filter = draw(filters)
    if version != V5:
        return Request(filter, draw(qualities))
    no_local = draw(flags) and not filter.startswith("$share/")
    return Request(filter, draw(qualities), no_local, draw(flags), draw(st.integers(0, 2)))


@st.composite
def auths(draw: st.DrawFn) -> Auth:
    extra = draw(properties(table.AUTH).filter(lambda extra: extra.authentication_method is not None))
    return draw(st.sampled_from([Auth(), Auth(0x18, extra), Auth(0x19, extra), Auth(0x00, extra)]))


def strategies(version: int) -> dict[type, st.SearchStrategy[Packet]]:
    """By kind; what a version does not have is missing."""
    full = version == V5
    publication, release = [0x00, 0x10, 0x80, 0x97], [0x00, 0x92]
    granted = st.sampled_from([0x00, 0x01, 0x02, 0x80, 0x87, 0x8F, 0xA2] if full else [0x00, 0x01, 0x02, 0x80])
    taken_back = st.lists(st.sampled_from([0x00, 0x11, 0x8F]), min_size=1, max_size=3) if full else st.just([])
    found: dict[type, st.SearchStrategy[Packet]] = {
        Connect: connects(version),
        Connack: connacks(version),
        Publish: publishes(version),
        Puback: _answers(Puback, table.PUBACK, version, publication),
        Pubrec: _answers(Pubrec, table.PUBREC, version, publication),
        Pubrel: _answers(Pubrel, table.PUBREL, version, release),
        Pubcomp: _answers(Pubcomp, table.PUBCOMP, version, release),
        Subscribe: st.builds(
            Subscribe,
            identifiers,
            st.lists(requests(version), min_size=1, max_size=3).map(tuple),
            _properties(table.SUBSCRIBE, version),
        ),
        Suback: st.builds(
            Suback,
            identifiers,
            st.lists(granted, min_size=1, max_size=3).map(tuple),
            _properties(table.SUBACK, version),
        ),
        Unsubscribe: st.builds(
            Unsubscribe,
            identifiers,
            st.lists(filters, min_size=1, max_size=3).map(tuple),
            _properties(table.UNSUBSCRIBE, version),
        ),
        Unsuback: st.builds(
            Unsuback,
            identifiers,
            taken_back.map(tuple),
            _properties(table.UNSUBACK, version),
        ),
        Pingreq: st.just(Pingreq()),
        Pingresp: st.just(Pingresp()),
        Disconnect: st.builds(
            Disconnect,
            st.sampled_from([0x00, 0x04, 0x82, 0x8E, 0xA2] if full else [0x00]),
            _properties(table.DISCONNECT, version),
        ),
    }
    if full:
        found[Auth] = auths()
    return found


STRATEGIES: Final = {version: strategies(version) for version in (V311, V5)}
packets: Final = {version: st.one_of(*kinds.values()) for version, kinds in STRATEGIES.items()}
