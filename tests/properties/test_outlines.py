"""Whatever waits for a client: what the new broker builds from its recent log is what it would have been sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from latecomer.core.mobility import rows
from latecomer.core.mobility.on_device import digest_of
from latecomer.core.mobility.outlines import DELIVERIES_MAX, Outline, Outliner, Stretch, fill
from latecomer.core.mobility.recent import RecentLog
from latecomer.core.mobility.rows import Pager, RowsError, decode
from latecomer.core.session.state import Grade, Session, Subscription
from latecomer.model.event import Event, Extras
from latecomer.model.filters import Filter, make_filter
from latecomer.model.ids import NUMBER_MAX, EventId
from tests.unit.mqtt_hand import START_US, MqttHand

NOW: Final = START_US + 1_000_000
APART_US: Final = 777_000_000
"""How far the other broker's clock is from this one's."""
FILTERS: Final = ("a/#", "a/+", "a/b", "a/c", "#")

filters = st.sampled_from([Filter(text) for text in FILTERS] + [make_filter(text, "v > 0") for text in FILTERS])
subscriptions = st.builds(
    lambda filter, qos, local, retain, id: Subscription(str(filter), filter, qos, "", local, retain, id),
    filters,
    st.sampled_from((0, 1, 2, 2)),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 1, 2, 3)),
)
sets = st.lists(subscriptions, min_size=1, max_size=6, unique_by=lambda subscription: subscription.text)
drafts = st.builds(
    Event,
    st.builds(EventId, st.sampled_from(("o", "p")), st.just(1), st.just(0)),
    st.sampled_from(("a/b", "a/c", "a")),
    st.sampled_from(("phone", "somebody")),
    payload=st.sampled_from((b"", b'{"v": 1}', b'{"v": 9}')),
    qos=st.sampled_from((1, 2)),
    retain=st.booleans(),
    expires_us=st.sampled_from((0, 0, 0, NOW - 5, NOW + 7_000_000)),
    extras=st.sampled_from((None, Extras(content_type="text", user=(("v", "7"),)))),
    shares=st.sampled_from(((), (), (), (("team", "a/#", "a"),))),
)
ways = st.sampled_from(("live", "live", "live", "live", "retained", "shared", "past"))


def queue_up(session: Session, events: Sequence[tuple[Event, str]]) -> MqttHand:
    """Have events wait for a client as a broker does it."""
    hand = MqttHand()
    deliveries = hand.broker.sessions.deliveries
    for event, way in events:
        grade = Grade(2, (5,), True)
        if way == "live":
            deliveries.take(session, event, 0)
        elif way == "retained":
            deliveries.give(session, event, grade, True, 0)
        elif way == "past":
            deliveries.replay(session, event, grade)
        else:
            member = Subscription("$share/team/a/#", Filter("a/#"), 1, "team")
            deliveries.give_shared(session, event, member, 0, outlives=True)
    return hand


def session_of(subscribed: Sequence[Subscription]) -> Session:
    session = Session("phone", "", expiry_s=60)
    for subscription in subscribed:
        session.enter(subscription)
    return session


@given(
    sets,
    st.lists(st.tuples(drafts, ways, st.sampled_from((True, True, False))), min_size=2, max_size=12),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from((1, 3, 256)),
)
@settings(max_examples=300)
def test_what_is_built_is_what_would_have_travelled(
    subscribed: list[Subscription],
    drawn: list[tuple[Event, str, bool]],
    changed: bool,
    changed_back: bool,
    random: object,
    page_rows: int,
) -> None:
    """Also if the client changed its subscriptions when something waited already, or rules change them on the way."""
    events = [replace(draft, id=replace(draft.id, seq=at)) for at, (draft, _, _) in enumerate(drawn, 1)]
    old = session_of(subscribed)
    half = len(events) // 2
    queue_up(old, list(zip(events, (way for _, way, _ in drawn), strict=True))[:half])
    if changed:
        for subscription in subscribed[::2]:
            old.enter(replace(subscription, qos=1, id=8))
    queue_up(old, list(zip(events, (way for _, way, _ in drawn), strict=True))[half:])
    shuffled = list(old.subscriptions.values())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    new, log = session_of(shuffled), RecentLog(1000, 10**9)
    for event, (_, _, had) in zip(events, drawn, strict=True):
        if had:  # as it came to that broker, by its clock
            log.add(replace(event, expires_us=event.expires_us + APART_US if event.expires_us else 0))
    whole = {row.key: decode(row, NOW + APART_US) for row in Pager(old).page(NOW, 1)}

    usual, rows.PAGE_ROWS = rows.PAGE_ROWS, page_rows
    try:
        outliner = Outliner(old, dict(old.subscriptions))
        pager, page = Pager(old, outliner), 0
        found: dict[int | str, object] = {}
        while not pager.empty:
            page += 1
            found |= {row.key: decode(row, NOW + APART_US) for row in pager.page(NOW, page)}
            if outline := outliner.encoded():
                assert pager.unanswered
                built, lacking = fill(outline, log, new, NOW + APART_US)
                assert not built.keys() & found.keys()
                found.update((number, parcel) for number, parcel in built.items())
                pager.answered(page, lacking)
            if page == 1 and changed_back:
                for subscription in subscribed:
                    old.enter(subscription)
    finally:
        rows.PAGE_ROWS = usual
    assert not pager.unanswered
    assert found == whole


@given(st.lists(st.integers(1, 30), unique=True), st.lists(st.integers(0, 40)), st.integers(0, 4))
def test_only_what_was_outlined_is_sent_again(numbers: list[int], lacking: list[int], upto: int) -> None:
    """Whatever the other broker says that it lacks; each once."""
    outliner = Outliner(Session("c", ""), {})
    outliner.unanswered = {number: at % 4 + 1 for at, number in enumerate(numbers)}
    outlined = dict(outliner.unanswered)
    again = outliner.answered(upto, lacking)
    assert again == [n for n in dict.fromkeys(lacking) if outlined.get(n, 9) <= upto]
    assert outliner.unanswered == {n: page for n, page in outlined.items() if page > upto}
    assert outliner.answered(upto, lacking) == []


def test_what_the_log_knows_otherwise_is_not_built() -> None:
    """A broker that was given the same event for a group as well does not take its copy for the other one."""
    log, session = RecentLog(10, 1000), session_of([Subscription("a/#", Filter("a/#"), 1)])
    event = Event(EventId("o", 1, 1), "a/b", shares=(("team", "a/#", "a"),))
    log.add(event)
    log.add(replace(event, id=EventId("o", 1, 2), shares=(), groups_only=True))
    log.add(replace(event, id=EventId("o", 1, 3), shares=(), reliable=False))
    outliner = Outliner(session, dict(session.subscriptions))
    outliner.begin(1)
    outliner.entries += [(number, EventId("o", 1, number), 0) for number in (1, 2, 3)]
    assert fill(outliner.encoded(), log, session, NOW) == ({}, [1, 2, 3])


def test_successive_deliveries_are_one_stretch() -> None:
    outliner = Outliner(Session("c", ""), {})
    outliner.begin(1)
    outliner.entries += [(number, EventId("origin", 3, number + 7), 0) for number in range(1, 200)]
    assert len(outliner.encoded()) < 25


@pytest.mark.parametrize("outline", [b"", b"\xc1", b"\x91\x92\x01\x02", b"\xff" * 9])
def test_an_outline_that_is_none_is_refused(outline: bytes) -> None:
    with pytest.raises(RowsError):
        fill(outline, RecentLog(1, 1), Session("c", ""), NOW)


def test_an_outline_without_end_is_refused() -> None:
    endless = rows._encode([Outline("o", 1, (Stretch(1, 1, DELIVERIES_MAX), Stretch(1, 1, 1)))])
    with pytest.raises(RowsError, match="more than"):
        fill(endless, RecentLog(1, 1), Session("c", ""), NOW)


@pytest.mark.parametrize("number", [0, NUMBER_MAX])
def test_an_outline_of_deliveries_without_numbers_is_refused(number: int) -> None:
    with pytest.raises(RowsError, match="no numbers"):
        fill(rows._encode([Outline("o", 1, (Stretch(number, 1, 1),))]), RecentLog(1, 1), Session("c", ""), NOW)


@given(sets, sets, st.randoms(use_true_random=False))
def test_digests_are_equal_exactly_if_subscriptions_are(
    some: list[Subscription], others: list[Subscription], random: object
) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert digest_of(shuffled) == digest_of(some)
    by_text = {subscription.text: subscription for subscription in others}
    same = {subscription.text: subscription for subscription in some} == by_text
    assert (digest_of(some) == digest_of(others)) is same
