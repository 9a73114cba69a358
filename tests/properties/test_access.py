"""No way around the rules: whatever a filter brings, each of its topics was open."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from latecomer.model.access import Rule, Rules
from latecomer.model.topics import topic_matches

LEVELS = ["a", "b", "", "bob", "$SYS"]
names = st.sampled_from(["bob", "alice", "a", "a/b", "+", "#", "$SYS", "%u"])
users = st.none() | names
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)


Situation = tuple[Rules, str | None, str, str, str]
"""Rules, a user, a client id, a filter that is asked for, and a topic that matters to all of them."""


@st.composite
def around(draw: st.DrawFn, topic: str, *signs: str) -> str:
    """A filter that has much to do with a topic: some levels are free, others replaced, and the end may be open."""
    levels = [draw(st.sampled_from([level, level, "+", "a", *signs])) for level in topic.split("/")]
    if draw(st.booleans()):
        levels[draw(st.integers(0, len(levels))) :] = ["#"]
    return "/".join(levels) or "#"


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    topic = draw(topics)
    who = st.sampled_from(["*", "*", "*", "anonymous", "bob", "alice"])
    does = st.sampled_from(["publish", "subscribe", "history", "all"])
    rule = st.builds(Rule, st.booleans(), who, does, around(topic, "%u", "%c", "a%c"))
    found = draw(st.lists(rule, max_size=4))
    if draw(st.booleans()):
        found.append(Rule(True, "*", "all", "#"))
    client = draw(st.just("c") | names)
    return Rules(tuple(found)), draw(users), client, draw(around(topic)), topic


def by_hand(rules: Rules, user: str | None, client: str, does: tuple[str, ...], topic: str) -> bool:
    """Open if some line allows it and none denies it; names replaced level by level."""
    open_to = False
    for each in rules.rules:
        if each.does not in does or not (each.who in ("*", user) or (each.who == "anonymous" and user is None)):
            continue
        if user is None and "%u" in each.topic:
            continue
        levels = [level.replace("%c", client) if "%c" in level else level for level in each.topic.split("/")]
        pattern = "/".join((user or "") if level == "%u" else level for level in levels)
        if topic_matches(pattern, topic):
            if not each.allows:
                return False
            open_to = True
    return open_to


@st.composite
def inside(draw: st.DrawFn, pattern: str) -> str:
    """A topic that matches a filter."""
    levels = [draw(st.sampled_from(["a", "b"])) if level == "+" else level for level in pattern.split("/")]
    if levels[-1] == "#":
        levels[-1:] = draw(st.lists(st.sampled_from(["a", "b", ""]), min_size=len(levels) == 1, max_size=2))
    return "/".join(levels)


@settings(max_examples=400)
@given(st.data())
def test_what_a_subscription_brings_was_open(data: st.DataObject) -> None:
    asked = data.draw(around(data.draw(topics)))
    topic = data.draw(inside(asked))
    assume(topic and topic_matches(asked, topic))
    wide, narrow = data.draw(st.just("#") | around(topic) | around(asked)), data.draw(around(topic))
    does = data.draw(st.sampled_from(["subscribe", "history", "all"]))
    denial = [Rule(False, data.draw(st.sampled_from(["*", "bob", "alice"])), does, narrow)]
    rules = Rules((Rule(True, "*", "all", wide), *(denial if data.draw(st.booleans()) else [])))
    if rules.may_subscribe("bob", "c", asked):
        assert rules.may_receive("bob", "c", topic)
    if rules.may_request("bob", "c", asked):
        assert rules.may_receive_past("bob", "c", topic)


@given(situations())
def test_a_topic_is_open_exactly_if_a_line_allows_it_and_none_denies_it(
    situation: Situation,
) -> None:
    rules, user, client, _, topic = situation
    if rules.pattern_problem(user, client) is not None:
        assert not rules.may_publish(user, client, topic)
        assert not rules.may_receive(user, client, topic)
        assert not rules.may_receive_past(user, client, topic)
        return
    assert rules.may_receive(user, client, topic) == by_hand(rules, user, client, ("subscribe", "all"), topic)
    assert rules.may_receive_past(user, client, topic) == by_hand(
        rules, user, client, ("subscribe", "history", "all"), topic
    )
    published = by_hand(rules, user, client, ("publish", "all"), topic) and topic[0] != "$"
    assert rules.may_publish(user, client, topic) == published


@given(situations())
def test_a_filter_without_wildcards_is_its_topic(situation: Situation) -> None:
    rules, user, client, _, topic = situation
    assert rules.may_subscribe(user, client, topic) == rules.may_receive(user, client, topic)


@given(situations())
def test_the_order_of_lines_does_not_matter(situation: Situation) -> None:
    rules, user, client, asked, _ = situation
    turned = Rules(tuple(reversed(rules.rules)))
    assert rules.may_subscribe(user, client, asked) == turned.may_subscribe(user, client, asked)


@given(situations())
def test_a_further_denial_opens_nothing(situation: Situation) -> None:
    rules, user, client, asked, topic = situation
    stricter = Rules((*rules.rules, Rule(False, "*", "all", asked)))
    assert not stricter.may_receive(user, client, topic) or rules.may_receive(user, client, topic)
    assert not stricter.may_subscribe(user, client, asked)
