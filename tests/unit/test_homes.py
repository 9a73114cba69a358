"""Clients that would be better at another broker: who they are, who may be sent, and what is told about clients."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from latecomer.core.homes.judging import Load, better_home, loads_of, similarity_at
from latecomer.core.homes.nearest import nearest
from latecomer.core.homes.profiles import CHANGES_MAX, Known, number_of
from latecomer.core.homes.settings import HomesSettings
from latecomer.core.inputs import AddressesKnown, LinkReceived
from latecomer.core.settings import BrokerSettings
from latecomer.messages.homes import PROFILE_MAX, Profile, ProfileWanted
from latecomer.messages.link import LinkState, Neighbour
from latecomer.messages.mqtt import Disconnect, Properties, Reason, Will
from latecomer.model.errors import SettingsError
from latecomer.model.filters import Filter
from latecomer.model.ids import NUMBER_MAX
from latecomer.model.record import Kind
from latecomer.runtime.settings import loads
from tests.unit.hand import frames, records
from tests.unit.mqtt_hand import SECOND_US, MqttHand, Net, Wire, pair

UPDATE_US = SECOND_US
SETTLE_US = 100_000
FOLLOWS = (("follows-references", "yes"),)
HOMES = HomesSettings(
    "move", UPDATE_US, SETTLE_US, rest_us=30 * SECOND_US, share_max=1.0, away_us=10 * SECOND_US, load_weight=0.0
)


def two(**changes: Any) -> tuple[Net, MqttHand, MqttHand]:
    """Two brokers that tell where clients find them."""
    net, a, b = pair(settings=BrokerSettings(homes=replace(HOMES, **changes)))
    for hand in (a, b):
        hand.tell(AddressesKnown((("tcp", f"{hand.id}.example:1883"),)))
    net.quiet(SETTLE_US)
    return net, a, b


def come(
    net: Net, hand: MqttHand, name: str, *filters: str, words: tuple[tuple[str, str], ...] = FOLLOWS, **options: Any
) -> Wire:
    """A client connects, and subscribes."""
    wire = hand.dial(name)
    options.setdefault("session_expiry_s", 3600)
    wire.connect(clean_start=False, listener="tcp", words=words, **options)
    net.quiet(SETTLE_US)
    wire.take()
    if filters:
        wire.subscribe(*filters)
    wire.take()
    return wire


def stay(net: Net, hand: MqttHand, name: str, *filters: str) -> Wire:
    """A client that does not follow references."""
    return come(net, hand, name, *filters, words=())


def told(wire: Wire) -> str | None:
    """Where a client was sent; None: nowhere."""
    found = [packet for packet in wire.take() if isinstance(packet, Disconnect)]
    if not found:
        return None
    assert found[0].reason == Reason.USE_ANOTHER_SERVER
    return found[0].properties.server_reference


# -- the rule ----------------------------------------------------------------------------------------------------------


def known(*numbers: int, subscriptions: int = 10, below: int = NUMBER_MAX) -> Known:
    return Known(1, 1, 5, subscriptions, below, dict.fromkeys(numbers))


def test_load_is_a_share_of_the_subscriptions() -> None:
    loads = loads_of("a", (3, 10), {"b": known(subscriptions=30)})
    assert loads == {"a": Load(3, 10, 0.25, 0.5), "b": Load(5, 30, 0.75, 1.5)}
    assert loads_of("a", (3, 0), {}) == {"a": Load(3, 0)}


def test_similarity_looks_at_the_filters_of_which_something_is_known() -> None:
    assert similarity_at(known(1, 2), (1, 2, 3, 4)) == 0.5
    assert similarity_at(known(1, below=3), (1, 2, 3, 4)) == 0.5
    assert similarity_at(known(1, below=3), (3, 4)) is None


def test_a_broker_with_twice_the_mean_load_loses_a_fifth() -> None:
    there = {"b": known(1, subscriptions=20), "c": known(subscriptions=0)}
    loads = loads_of("a", (1, 10), there)
    assert loads["b"].times_mean == 2.0
    best = better_home("a", 0.0, (1,), there, loads, None, 0.2)
    assert best is not None
    assert (best.to, best.there, round(best.gain, 6)) == ("b", 1.0, 0.8)
    best = better_home("a", 1.0, (1,), there, loads, None, 0.1)
    assert best is None  # c bears nothing, and has nothing


def test_the_first_by_name_of_equal_brokers() -> None:
    there = {"c": known(1), "b": known(1)}
    best = better_home("a", 0.0, (1,), there, loads_of("a", (1, 1), there), 0.0, 0.2)
    assert best is not None
    assert best.to == "b"


def test_the_nearest_by_cost() -> None:
    def state(broker: str, *links: tuple[str, int]) -> LinkState:
        return LinkState(broker, 1, 1, tuple(Neighbour(name, 1, cost) for name, cost in links))

    states = {
        "a": state("a", ("b", 5), ("c", 1)),
        "b": state("b", ("a", 5), ("c", 1)),
        "c": state("c", ("a", 1), ("b", 1), ("d", 9)),
        "d": LinkState("d", 2, 1, ()),
    }
    assert nearest(states, "a", 1) == ["c"]
    assert nearest(states, "a", 9) == ["c", "b"], "of d another life is meant"


def test_numbers_of_filters_are_the_same_everywhere() -> None:
    assert number_of(Filter("a/#")) == number_of(Filter("a/#")) <= NUMBER_MAX
    assert number_of(Filter("a/#")) != number_of(Filter("a/+"))


# -- who is sent -------------------------------------------------------------------------------------------------------


def test_a_client_is_sent_to_who_wants_the_same() -> None:
    net, a, b = two()
    stay(net, b, "there", "x/1", "x/2")
    wire = come(net, a, "s", "x/1", "x/2", "x/3")
    net.quiet(2 * UPDATE_US - 3 * SETTLE_US)
    assert told(wire) is None, "it has just connected"
    net.quiet(2 * UPDATE_US)
    assert told(wire) == "b.example:1883"
    assert "s" in b.broker.sessions.by_client, "its session went ahead"
    assert "s" not in a.broker.sessions.by_client
    again = b.dial("s")
    again.connect(clean_start=False, session_expiry_s=3600, listener="tcp", words=FOLLOWS)
    net.quiet(6 * UPDATE_US)
    assert told(again) is None, "it stays there"
    assert (a.broker.homes.sent, b.broker.homes.sent, a.broker.homes.returned) == (1, 0, 0)


def test_its_own_subscriptions_keep_nobody_where_it_is() -> None:
    """But those of others here do."""
    net, a, b = two()
    stay(net, b, "there", "x")
    alone, besides = come(net, a, "alone", "x"), come(net, a, "besides", "y")
    stay(net, a, "other", "y")
    net.quiet(5 * UPDATE_US)
    assert told(alone) == "b.example:1883"
    assert told(besides) is None


def test_two_that_want_the_same_meet_and_do_not_swap() -> None:
    net, a, b = two()
    one, other = come(net, a, "s", "x"), come(net, b, "t", "x")
    net.quiet(6 * UPDATE_US)
    assert a.broker.homes.sent + b.broker.homes.sent == 1
    assert [told(one), told(other)].count(None) == 1


def test_who_comes_back_is_left_alone() -> None:
    net, a, b = two()
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "x")
    net.quiet(4 * UPDATE_US)
    assert told(wire) == "b.example:1883"
    back = come(net, a, "s")
    net.quiet(10 * UPDATE_US)
    assert told(back) is None
    assert a.broker.homes.returned == 1
    net.quiet(25 * UPDATE_US)
    assert told(back) == "b.example:1883"


def test_a_client_is_looked_at_when_its_subscriptions_have_settled() -> None:
    net, a, b = two(update_us=2 * SECOND_US)
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "y")
    net.quiet(6 * SECOND_US)
    while not 500_000 < a.now % (4 * SECOND_US) < SECOND_US:  # clients go to larger names now
        net.quiet(100_000)
    wire.subscribe("x")
    wire.unsubscribe("y")
    wire.take()
    net.quiet(SETTLE_US - 20_000)
    assert told(wire) is None
    net.quiet(40_000)
    assert told(wire) == "b.example:1883"


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, True),
        ({"words": ()}, False),
        ({"session_expiry_s": 0}, False),
        ({"session_expiry_s": 9}, False),
        ({"session_expiry_s": 10}, True),
        ({"will": Will("w", b"")}, False),
        ({"will": Will("w", b"", properties=Properties(will_delay_s=9))}, False),
        ({"will": Will("w", b"", properties=Properties(will_delay_s=10))}, True),
        ({"words": (*FOLLOWS, ("hand-over", "home-broker"))}, False),
    ],
)
def test_who_may_be_sent(options: dict[str, Any], sent: bool) -> None:
    net, a, b = two()
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "x", **options)
    net.quiet(5 * UPDATE_US)
    assert told(wire) == ("b.example:1883" if sent else None)
    assert [proposed.better.to for proposed in a.broker.homes.proposals.values()] == ([] if sent else ["b"])
    if not sent:
        assert a.broker.homes.problem_of(a.session("s"), "b")


def test_nobody_is_sent_to_whom_messages_are_under_way() -> None:
    net, a, b = two()
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "x")
    come(net, a, "p").publish("x", qos=1)
    (publish,) = wire.got()
    net.quiet(5 * UPDATE_US)
    assert wire.take() == []
    assert a.broker.homes.problem_of(a.session("s"), "b") == "messages are under way to it"
    wire.ack(publish)
    net.quiet(2 * UPDATE_US)
    assert told(wire) == "b.example:1883"


def test_a_quiet_moment_is_waited_for() -> None:
    net, a, b = two(update_us=4 * SECOND_US)
    stay(net, b, "there", "x")
    wire, writer = come(net, a, "s", "x"), come(net, a, "p")
    net.quiet(8 * SECOND_US)
    while a.now % (8 * SECOND_US) > SETTLE_US:  # clients go to larger names now
        net.quiet(10_000)
    writer.publish("x", qos=1)
    (publish,) = wire.got()
    net.quiet(SECOND_US)
    assert wire.take() == []
    wire.ack(publish)
    net.quiet(300_000)
    assert told(wire) == "b.example:1883"


def test_only_some_are_sent_in_an_update_those_first_that_gain_most() -> None:
    net, a, b = two(share_max=0.01)
    stay(net, b, "there", "x", "z")
    half, whole = come(net, a, "a", "x", "y"), come(net, a, "b", "z")
    for _ in range(40):
        net.quiet(100_000)
        if whole.closed or half.closed:
            break
    assert (half.closed, told(whole)) == (None, "b.example:1883")
    net.quiet(2 * UPDATE_US)
    assert told(half) == "b.example:1883"


def test_a_broker_that_takes_no_clients_gets_none() -> None:
    net, a, b = two()
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "x")
    b.tell(AddressesKnown((("tcp", "b.example:1883"),), open=False))
    net.quiet(5 * UPDATE_US)
    assert told(wire) is None


def test_advice_moves_nobody_and_is_noted_once() -> None:
    net, a, b = two(mode="advise")
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "x")
    noted = []
    for _ in range(600):
        while net.carry():
            pass
        for hand in (a, b):
            noted += records(hand.wait(10_000), Kind.ADVISED)
    assert [(record.client, record.peer) for record in noted] == [("s", "b"), ("there", "a")]
    assert told(wire) is None
    assert a.broker.homes.similarity_mean == 0.0


def test_clients_are_sent_within_the_cluster_only() -> None:
    net, a, b = two(cluster=("c",))
    stay(net, b, "there", "x")
    wire = come(net, a, "s", "x")
    net.quiet(5 * UPDATE_US)
    assert (told(wire), a.broker.homes.profiles.known) == (None, {})


# -- words -------------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_or_answered_when_it_is_off() -> None:
    net, a, b = two(mode="off")
    come(net, a, "s", "x")
    sent = []
    for _ in range(300):
        while net.carry():
            pass
        for hand in (a, b):
            sent += frames(hand.wait(10_000), "b" if hand is a else "a")
    assert not [frame for frame in sent if isinstance(frame, (ProfileWanted, Profile))]
    assert a.broker.homes.dues() == (None, None, None)
    effects = a.tell(LinkReceived("b", [ProfileWanted("b", "a", 0, 0)]))
    assert not [frame for frame in frames(effects, "b") if isinstance(frame, Profile)]


def test_what_has_changed_is_told() -> None:
    net, a, b = two(mode="advise")
    wire = come(net, a, "s", *(f"x/{number}" for number in range(10)))
    net.quiet(3 * UPDATE_US)
    words: list[Profile] = []
    for round in range(CHANGES_MAX + 3):
        wire.unsubscribe(f"x/{round}")
        wire.subscribe(f"y/{round}")
        wire.take()
        for _ in range(100):
            while any(hand.sent for hand in (a, b)):
                words += [frame for send in a.sent for frame in send.frames if isinstance(frame, Profile)]
                net.carry()
            for hand in (a, b):
                hand.wait(10_000)
        known, own = b.broker.homes.profiles.known["a"], a.broker.homes.profiles
        assert known.numbers == own.told
        assert known.number == own.number
    assert all(word.base and len(word.added) < 10 for word in words)
    b.broker.homes.profiles.known["a"].number = 1
    net.quiet(2 * UPDATE_US)
    assert b.broker.homes.profiles.known["a"].numbers == a.broker.homes.profiles.told


def test_a_broker_with_too_many_filters_tells_of_a_sample() -> None:
    net, a, b = two(mode="advise", filters_max=4)
    come(net, a, "s", *(f"x/{number}" for number in range(10)))
    net.quiet(3 * UPDATE_US)
    known, numbers = b.broker.homes.profiles.known["a"], sorted(number_of(Filter(f"x/{n}")) for n in range(10))
    assert (list(known.numbers), known.below, known.subscriptions) == (numbers[:4], numbers[4], 10)


def test_nobody_is_told_what_it_has_not_asked_for() -> None:
    net, a, b = two(mode="advise")
    profiles = a.broker.homes.profiles
    word = Profile("b", "a", 99, 7, 0, 1, 1, NUMBER_MAX, (1, 2))
    profiles.on_profile("b", word)
    assert profiles.known["b"].boot == 1
    net.quiet(2 * UPDATE_US)
    before = profiles.known["b"]
    profiles.asked["b"] = None
    profiles.on_profile("b", replace(word, base=5))
    assert profiles.known["b"] is before, "a difference from another word"
    before.numbers.update(dict.fromkeys(range(PROFILE_MAX)))
    profiles.on_profile("b", replace(word, boot=before.boot, base=before.number, added=(NUMBER_MAX,)))
    assert profiles.known == {}, "nobody has so many"
    del b


def test_a_broker_that_asks_often_is_answered_now_and_then() -> None:
    net, a, b = two(mode="advise")
    net.quiet(2 * UPDATE_US)
    effects = [a.tell(LinkReceived("b", [ProfileWanted("b", "a", 0, 0)])) for _ in range(20)]
    answers = [frame for each in effects for frame in frames(each, "b") if isinstance(frame, Profile)]
    assert len(answers) <= 1
    del b


def test_who_is_silent_is_forgotten() -> None:
    net, a, b = two(mode="advise")
    stay(net, b, "there", "x")
    net.quiet(2 * UPDATE_US)
    assert list(a.broker.homes.profiles.known) == ["b"]
    b.broker.homes.profiles.speaks = False
    net.quiet(6 * UPDATE_US)
    assert a.broker.homes.profiles.known == {}


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("update_us", 0),
        ("gain", -0.1),
        ("gain", float("nan")),
        ("share_max", 0.0),
        ("share_max", 1.5),
        ("load_weight", -1.0),
        ("filters_max", PROFILE_MAX + 1),
        ("cluster", ("b", "b")),
        ("cluster", ("",)),
    ],
)
def test_what_cannot_work_is_refused(key: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        replace(HomesSettings(), **{key: value}).check()
    assert caught.value.key == f"homes.{key}"
    HomesSettings().check()


def test_the_settings_file_says_the_same() -> None:
    lines = 'mode = "move"', "update_s = 1", "settle_s = 0.1", "rest_s = 30", "share_max = 1", "away_s = 10"
    text = "\n".join(("[homes]", *lines, "load_weight = 0"))
    assert loads(text).core_settings().homes == HOMES
    assert loads("").core_settings().homes == HomesSettings()
    with pytest.raises(SettingsError, match=r"homes\.cluster"):
        loads('[homes]\ncluster = ["b", "b"]')
    with pytest.raises(SettingsError, match=r"core\.homes.*is set as homes"):
        loads("[core.homes]\ngain = 1")
