"""Properties of MQTT 5: the table, checked against another library's, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import paho.mqtt.properties as paho
import pytest
from paho.mqtt.packettypes import PacketTypes

from latecomer.messages.mqtt import NONE, V5, PacketError, Properties, Publish, Reason
from latecomer.wire import mqtt_properties as table
from latecomer.wire.mqtt import decode, encode
from latecomer.wire.mqtt_fields import length
from latecomer.wire.mqtt_properties import PROPERTIES, PROPERTIES_MAX, USER_MAX, decode_properties, encode_properties

CARRIERS = sorted({packet for property in PROPERTIES for packet in property.packets})
EXAMPLES: dict[table.Type, Any] = {
    table.BYTE: 1,
    table.TWO: 513,
    table.FOUR: 70_000,
    table.LENGTH: 300,
    table.BINARY: b"\0\xff",
    table.TEXT: "ä/b",
    table.WORDS: "wörds",
    table.PAIR: ("name", "ß"),
}
PAHO_TYPES = {
    "Byte": table.BYTE,
    "Two Byte Integer": table.TWO,
    "Four Byte Integer": table.FOUR,
    "Variable Byte Integer": table.LENGTH,
    "Binary Data": table.BINARY,
    "UTF-8 Encoded String": table.TEXT,
    "UTF-8 String Pair": table.PAIR,
}


def test_words_for_people_cannot_spoil_a_packet() -> None:
    """[MQTT-1.5.4-1, MQTT-1.5.4-2] What a text must not contain is replaced in a reason, not sent and not the end."""
    reason = Properties(reason_string="a\0b\ud800c")
    data = encode_properties(reason)
    found, _ = decode_properties(data, 0, table.DISCONNECT)
    assert found.reason_string == "a\ufffdb?c"
    for other in (Properties(server_reference="\ud800"), Properties(user=(("\ud800", ""),))):
        with pytest.raises(PacketError):
            encode_properties(other)


def refusal(body: bytes, packet: int) -> Reason:
    with pytest.raises(PacketError) as caught:
        decode_properties(length(len(body)) + body, 0, packet)
    assert str(caught.value)
    return caught.value.reason


def one(property: table.Property, value: Any) -> bytes:
    return bytes((property.id,)) + property.type.write(value)


def foreign(packet: int) -> Any:
    """Properties as paho has them, which come without types."""
    make: Any = paho.Properties
    return make(packet)


def properties(values: dict[str, Any]) -> Properties:
    return Properties(**values)


def by_name(name: str) -> table.Property:
    return next(property for property in PROPERTIES if property.name == name)


# --- the table ------------------------------------------------------------------------------------


def test_the_table_has_every_field_in_its_order() -> None:
    """Writing goes through both at once."""
    assert tuple(property.name for property in PROPERTIES) == Properties.__struct_fields__
    plural = {name for name, value in msgspec.structs.asdict(NONE).items() if value == ()}
    assert plural == {property.name for property in PROPERTIES if property.repeatable}


def test_the_table_is_that_of_paho() -> None:
    """Table 2-4, as another library has understood it."""
    theirs = foreign(PacketTypes.CONNECT)
    names = {number: theirs.types[kind] for number, (kind, _) in theirs.properties.items()}
    ours = {property.id: property.type for property in PROPERTIES}
    assert {number: table.TEXT if kind is table.WORDS else kind for number, kind in ours.items()} == {
        number: PAHO_TYPES[kind] for number, kind in names.items()
    }
    will = {PacketTypes.WILLMESSAGE: table.WILL}
    for property in PROPERTIES:
        carriers = {will.get(packet, packet) for packet in theirs.properties[property.id][1]}
        assert set(property.packets) == carriers, property.name


@pytest.mark.parametrize("property", PROPERTIES, ids=lambda property: property.name)
def test_paho_writes_and_reads_the_same(property: table.Property) -> None:
    number = property.packets[0]
    other = foreign(PacketTypes.WILLMESSAGE if number == table.WILL else number)
    name = next(name for name, value in other.names.items() if value == property.id).replace(" ", "")
    value = EXAMPLES[property.type]
    setattr(other, name, value)
    values = {property.name: (value,) if property.repeatable else value}
    if property.name == "authentication_data":  # which does not come alone
        other.AuthenticationMethod = values["authentication_method"] = "m"
    data = encode_properties(properties(values))
    assert data == other.pack()
    assert decode_properties(data, 0, number) == (properties(values), len(data))


@pytest.mark.parametrize("packet", CARRIERS, ids=lambda packet: table.NAMES[packet])
def test_only_what_belongs_into_a_packet_is_read(packet: int) -> None:
    """§2.2.2.2: an identifier that is not valid for its packet is malformed."""
    ids = {property.id: property for property in PROPERTIES}
    for number in range(256):
        property = ids.get(number)
        if property is not None and packet in property.packets:
            value = EXAMPLES[property.type]
            if property.name == "authentication_data":
                body = one(property, value) + one(by_name("authentication_method"), "m")
            else:
                body = one(property, value)
            found, _ = decode_properties(length(len(body)) + body, 0, packet)
            assert getattr(found, property.name) == ((value,) if property.repeatable else value)
        else:
            assert refusal(bytes((number,)) + bytes(10), packet) == Reason.MALFORMED_PACKET


@pytest.mark.parametrize("packet", CARRIERS, ids=lambda packet: table.NAMES[packet])
def test_twice(packet: int) -> None:
    """A protocol error (§3.1.2.11.2 and its like), but for user properties, and a PUBLISH for many subscriptions."""
    for property in PROPERTIES:
        if packet in property.packets:
            value = EXAMPLES[property.type]
            body = one(property, value) * 2
            if packet in property.repeatable:
                found, _ = decode_properties(length(len(body)) + body, 0, packet)
                assert getattr(found, property.name) == (value, value)
            else:
                assert refusal(body, packet) == Reason.PROTOCOL_ERROR


def test_user_properties_keep_their_order() -> None:
    """[MQTT-3.3.2-18]: also the same name twice."""
    pairs = (("b", "1"), ("a", "2"), ("b", "1"), ("", ""))
    packet = Publish("t", b"", properties=Properties(user=pairs))
    assert decode(0x30, encode(packet, V5)[2:], V5) == packet


def test_no_properties_are_one_object() -> None:
    assert decode_properties(b"\0", 0, table.CONNECT) == (NONE, 1)
    assert decode_properties(b"\0", 0, table.CONNECT)[0] is NONE
    assert encode_properties(NONE) == encode_properties(Properties()) == b"\0"


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("receive_maximum", 0, Reason.PROTOCOL_ERROR),  # §3.1.2.11.3
        ("maximum_packet_size", 0, Reason.PROTOCOL_ERROR),  # §3.1.2.11.4
        ("request_problem_information", 2, Reason.PROTOCOL_ERROR),  # §3.1.2.11.7
        ("request_response_information", 2, Reason.PROTOCOL_ERROR),  # §3.1.2.11.6
        ("payload_format", 2, Reason.PROTOCOL_ERROR),  # §3.3.2.3.2
        ("topic_alias", 0, Reason.TOPIC_ALIAS_INVALID),  # [MQTT-3.3.2-8]
        ("response_topic", "a/+", Reason.PROTOCOL_ERROR),  # [MQTT-3.3.2-14]
        ("response_topic", "#", Reason.PROTOCOL_ERROR),
        ("response_topic", "", Reason.PROTOCOL_ERROR),  # [MQTT-4.7.3-1]
        ("subscription_ids", 0, Reason.PROTOCOL_ERROR),  # §3.8.2.1.2
        ("maximum_qos", 2, Reason.PROTOCOL_ERROR),  # §3.2.2.3.4
        ("retain_available", 2, Reason.PROTOCOL_ERROR),  # §3.2.2.3.5
        ("wildcard_available", 255, Reason.PROTOCOL_ERROR),  # §3.2.2.3.11
        ("subscription_ids_available", 2, Reason.PROTOCOL_ERROR),  # §3.2.2.3.12
        ("shared_available", 2, Reason.PROTOCOL_ERROR),  # §3.2.2.3.13
        ("authentication_data", b"x", Reason.PROTOCOL_ERROR),  # §3.1.2.11.10: no method
    ],
)
def test_values_that_are_not_allowed(name: str, value: Any, reason: Reason) -> None:
    property = by_name(name)
    for packet in property.packets:
        assert refusal(one(property, value), packet) == reason


def test_a_later_subscription_identifier_of_0() -> None:
    property = by_name("subscription_ids")
    assert refusal(one(property, 1) + one(property, 0), table.PUBLISH) == Reason.PROTOCOL_ERROR


def test_zero_is_allowed_where_it_means_something() -> None:
    for name in ("session_expiry_s", "message_expiry_s", "will_delay_s", "topic_alias_maximum", "server_keep_alive_s"):
        body = one(by_name(name), 0)
        found, _ = decode_properties(length(len(body)) + body, 0, by_name(name).packets[0])
        assert found == properties({name: 0})


@pytest.mark.parametrize("property", PROPERTIES, ids=lambda property: property.name)
def test_a_property_that_is_cut(property: table.Property) -> None:
    """It must not go on with the bytes behind the properties, which belong to somebody else."""
    whole = one(property, EXAMPLES[property.type])
    for end in range(1, len(whole)):
        with pytest.raises(PacketError) as caught:
            decode_properties(length(end) + whole, 0, property.packets[0])
        assert caught.value.reason == Reason.MALFORMED_PACKET


# --- limits ---------------------------------------------------------------------------------------


def test_at_most_100_user_properties() -> None:
    """A flood of small ones must not cost more than its bytes."""
    pair = one(by_name("user"), ("a", "b"))
    body = pair * USER_MAX
    found, _ = decode_properties(length(len(body)) + body, 0, table.PUBLISH)
    assert len(found.user) == USER_MAX == 100
    assert refusal(body + pair, table.PUBLISH) == Reason.PACKET_TOO_LARGE


def test_subscription_identifiers_are_counted_by_their_bytes_alone() -> None:
    """One client may have a thousand subscriptions that match."""
    body = one(by_name("subscription_ids"), 7) * 1000
    found, _ = decode_properties(length(len(body)) + body, 0, table.PUBLISH)
    assert found.subscription_ids == (7,) * 1000


def test_at_most_64_kib_of_properties() -> None:
    user = by_name("user")
    spare = PROPERTIES_MAX - 2 * 5
    body = one(user, ("", "x" * (spare - 60_000))) + one(user, ("", "y" * 60_000))
    assert len(body) == PROPERTIES_MAX
    decode_properties(length(len(body)) + body, 0, table.PUBLISH)
    longer = body[: 1 + 2] + (spare - 60_000 + 1).to_bytes(2, "big") + b"x" + body[1 + 2 + 2 :]
    assert refusal(longer, table.PUBLISH) == Reason.PACKET_TOO_LARGE
