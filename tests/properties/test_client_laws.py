"""What clients say, brokers read; what brokers may say, clients survive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latecomer.client.addresses import Address, parse_references
from latecomer.client.journey import Ended, Journey, Patience
from latecomer.client.words import Message, Subscription, device_word, heard, read_notes
from latecomer.core.mobility.on_device import _parse
from latecomer.model.errors import LatecomerError
from latecomer.model.when import format_when, parse_when

TEXT = st.text(max_size=20)
PAIRS = st.lists(st.tuples(TEXT | st.sampled_from(["published", "event", "late"]), TEXT), max_size=4).map(tuple)
INSTANTS = st.integers(0, 253_402_300_799_999_999)
TOPICS = st.sampled_from(["a/#", "cars/+", "$share/g/a", "a b", "a,b"])
ENDS = st.builds(
    Ended,
    welcomed=st.booleans(),
    reason=st.sampled_from([None, 0x00, 0x88, 0x89, 0x9C, 0x9D]) | st.integers(0, 255),
    reference=st.text(max_size=60) | st.sampled_from(["a:1", "b:2 a:1", "c", "[::1]:7"]),
    lasted_s=st.sampled_from([0.0, 100.0]),
)


@given(PAIRS, INSTANTS, st.text(min_size=1, max_size=10), st.booleans(), st.booleans())
def test_what_a_broker_adds_is_told_from_what_the_publisher_said(
    own: tuple[tuple[str, str], ...], at_us: int, event: str, past: bool, late: bool
) -> None:
    """As core/session/delivery adds it, whatever the publisher said before."""
    if not past and not late:
        return  # then a publisher may pretend
    told = [("published", format_when(at_us)), ("event", event)] if past else []
    told += [("late", format_when(at_us))] if late else []
    came = heard(Message(topic="a", user=(*own, *told)))
    assert isinstance(came, Message)
    assert (came.late, came.published_us) == (late, at_us)
    if past:
        assert (came.user, came.past, came.event) == (own, True, event)


@given(PAIRS)
def test_nothing_that_a_publisher_says_is_lost(user: tuple[tuple[str, str], ...]) -> None:
    notes = read_notes(user)
    assert user[: len(notes.own)] == notes.own
    if not notes.published:
        assert notes.own == user
    else:
        assert parse_when(notes.published, 0) >= 0


@given(TOPICS, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 99), st.sampled_from(["", "v > 3"]))
def test_the_broker_reads_subscriptions_on_the_device(
    topic: str, qos: int, no_local: bool, published: bool, number: int, where: str
) -> None:
    wanted = Subscription(
        topic=topic, qos=qos, no_local=no_local, retain_as_published=published, identifier=number, where=where
    )
    request, properties = _parse(device_word(wanted))
    assert (request.filter, request.qos, request.no_local) == (topic, qos, no_local)
    assert request.retain_as_published == published
    assert properties.subscription_ids == ((number,) if number else ())
    assert properties.user == ((("filter", where),) if where else ())


@given(st.text(max_size=200), st.integers(1, 65_535))
def test_any_reference_gives_places_that_can_be_tried(text: str, port: int) -> None:
    for place in parse_references(text, port):
        assert 0 < place.port < 65_536
        place.host.encode("idna")  # what a resolver does first
        assert parse_references(str(place), 1) == [place]


@given(st.lists(ENDS, max_size=60))
def test_every_journey_ends_or_goes_on_to_a_place(ends: list[Ended]) -> None:
    walk = Journey((Address("a", 1), Address("b", 2)), Patience(attempts_max=20, references_max=4))
    row = 0
    for end in ends:
        row = 0 if end.welcomed and end.lasted_s else row
        try:
            leg = walk.ended(end)
        except LatecomerError:
            return
        row += 1
        assert row < 20
        assert leg.address == walk.at
        assert 0 <= leg.pause_s <= 15
