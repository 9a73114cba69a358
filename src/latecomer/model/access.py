"""Access rules: who may publish, subscribe and read the past, and where.

Theory of operation. A rule allows or denies one action on all topics that match its topic filter, to one user, to
anonymous clients or to everybody. A topic is open if some rule allows it and none denies it: *a denial always wins*, so
the order of the lines does not matter. A topic *filter* may be subscribed to if it lies within the open topics: one
rule that allows covers all of it, and no rule that denies overlaps any of it. Cover and overlap are exact
(`model.topics`), so no wildcard asks for more than its topics could one by one. Every delivery is asked about again
(`may_receive`), because rules may have changed since the subscription was made.

`%u` and `%c` in a rule stand for the name of the user and the client id. They are put in as plain text; a name that
would not stay plain text there is refused at the door (`pattern_problem`), and until then may do nothing.

    # who may do what; nothing is open that no line allows
    allow  alice      publish    sensors/+/temperature
    allow  *          subscribe  sensors/#
    allow  *          all        home/%u/#
    deny   anonymous  subscribe  sensors/cellar/#
    allow  archivist  history    sensors/#
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from latecomer.model.errors import FilterError, SettingsError
from latecomer.model.ids import ClientId
from latecomer.model.topics import check_filter, topic_covers, topic_matches, topic_overlaps
from latecomer.model.topology import quoted

RULES_MAX = 10_000
REMEMBERED_MAX = 10_000
"""Clients whose rights are kept ready."""

EVERYBODY = "*"
ANONYMOUS = "anonymous"
RESERVED = (EVERYBODY, ANONYMOUS)
"""Words of the rules, and therefore nobody's names."""

_PREFIXES = ("$share", "$history")
"""Ways of asking, not topics: the rights are those of the filter behind them."""


class Action(Enum):
    """What a client does. To subscribe includes the past: what may be heard may be heard later."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    HISTORY = "history"


_MEANS = {
    "publish": (Action.PUBLISH,),
    "subscribe": (Action.SUBSCRIBE, Action.HISTORY),
    "history": (Action.HISTORY,),
    "all": (Action.PUBLISH, Action.SUBSCRIBE, Action.HISTORY),
}


class Rule(msgspec.Struct, frozen=True):
    """One line. `who` is a user name, or one of the reserved words."""

    allows: bool
    who: str
    does: str
    topic: str
    """A topic filter with `%u`, `%c` and `%%` still in it."""

    def concerns(self, user: str | None) -> bool:
        return self.who == EVERYBODY or (self.who == ANONYMOUS if user is None else self.who == user)

    def uses(self, sign: str) -> bool:
        return sign in self.topic.replace("%%", "")


@dataclass(slots=True)
class Rights:
    """What one client may do, with its names put in."""

    allowed: dict[Action, list[str]] = field(default_factory=lambda: {action: [] for action in Action})
    denied: dict[Action, list[str]] = field(default_factory=lambda: {action: [] for action in Action})

    def may_publish(self, topic: str) -> bool:
        """Topics that begin with `$` are the broker's own, whatever a rule says."""
        return topic[:1] != "$" and self._open(Action.PUBLISH, topic)

    def may_subscribe(self, topic_filter: str) -> bool:
        """The topic filter alone, without `$share/…/` and without a content filter."""
        return self._within(Action.SUBSCRIBE, topic_filter)

    def may_receive(self, topic: str) -> bool:
        return self._open(Action.SUBSCRIBE, topic)

    def may_request(self, topic_filter: str) -> bool:
        """Ask for the past of all topics that match."""
        return self._within(Action.HISTORY, topic_filter)

    def may_receive_past(self, topic: str) -> bool:
        return self._open(Action.HISTORY, topic)

    def _open(self, action: Action, topic: str) -> bool:
        return any(topic_matches(wide, topic) for wide in self.allowed[action]) and not any(
            topic_matches(wide, topic) for wide in self.denied[action]
        )

    def _within(self, action: Action, topic_filter: str) -> bool:
        return any(topic_covers(wide, topic_filter) for wide in self.allowed[action]) and not any(
            topic_overlaps(wide, topic_filter) for wide in self.denied[action]
        )


class Rules:
    """All rules of a broker. A user of None is an anonymous client."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._remembered: dict[tuple[str | None, ClientId], Rights] = {}

    def pattern_problem(self, user: str | None, client: ClientId) -> str | None:
        """Why this client cannot be let in (reason 0x85): a rule about it would not mean what it says."""
        for rule in self.rules:
            if not rule.concerns(user):
                continue
            if user is not None and rule.uses("%u") and (problem := _not_plain(user)):
                return f"the user name {problem}, and access rules use it"
            if rule.uses("%c") and (problem := _not_plain(client)):
                return f"the client id {problem}, and access rules use it"
        return None

    def rights(self, user: str | None, client: ClientId) -> Rights:
        """What this client may do; a session may keep it for as long as these are the rules."""
        known = self._remembered.get((user, client))
        if known is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            known = self._remembered[user, client] = self._rights(user, client)
        return known

    def _rights(self, user: str | None, client: ClientId) -> Rights:
        rights = Rights()
        if self.pattern_problem(user, client) is not None:
            return rights
        for rule in self.rules:
            # `%u` of nobody is no name at all, rather than an empty one.
            if rule.concerns(user) and not (user is None and rule.uses("%u")):
                pattern = _fill(rule.topic, user or "", client)
                for action in _MEANS[rule.does]:
                    (rights.allowed if rule.allows else rights.denied)[action].append(pattern)
        return rights

    def may_publish(self, user: str | None, client: ClientId, topic: str) -> bool:
        return self.rights(user, client).may_publish(topic)

    def may_subscribe(self, user: str | None, client: ClientId, topic_filter: str) -> bool:
        return self.rights(user, client).may_subscribe(topic_filter)

    def may_receive(self, user: str | None, client: ClientId, topic: str) -> bool:
        return self.rights(user, client).may_receive(topic)

    def may_request(self, user: str | None, client: ClientId, topic_filter: str) -> bool:
        return self.rights(user, client).may_request(topic_filter)

    def may_receive_past(self, user: str | None, client: ClientId, topic: str) -> bool:
        return self.rights(user, client).may_receive_past(topic)


OPEN = Rules((Rule(True, EVERYBODY, "all", "#"), Rule(True, EVERYBODY, "subscribe", "$SYS/#")))
"""Without a rules file: everything, for everybody who was let in."""


def parse_rules(text: str, source: str) -> Rules:
    """The rules in a text, or a `SettingsError` that names the line: a line that is not understood is never skipped."""
    rules = []
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            rules.append(_rule(words))
        except SettingsError as error:
            raise SettingsError("", error.problem, source=source, line=number) from None
        if len(rules) > RULES_MAX:
            raise SettingsError("", f"more than {RULES_MAX} rules", source=source, line=number)
    return Rules(tuple(rules))


def _rule(words: list[str]) -> Rule:
    if len(words) != 4:
        raise SettingsError("", "a rule is four words: allow or deny, who, what, topic filter")
    verb, who, does, topic = words
    if verb not in ("allow", "deny"):
        raise SettingsError("", f"a rule begins with allow or deny, not {quoted(verb)}")
    if does not in _MEANS:
        raise SettingsError("", f"there is no action {quoted(does)}; known are {', '.join(_MEANS)}")
    if topic.split("/")[0] in _PREFIXES:
        raise SettingsError("", f"leave out {topic.split('/')[0]}/…: a rule is about the topic filter behind it")
    if topic.replace("%%", "").replace("%u", "").replace("%c", "").count("%"):
        raise SettingsError("", "'%' is followed by u (user), c (client id) or another '%'")
    try:
        check_filter(_fill(topic, "u", "c"))
    except FilterError as error:
        raise SettingsError("", error.problem) from None
    if verb == "allow" and topic[:1] == "$" and Action.PUBLISH in _MEANS[does]:
        raise SettingsError("", "nobody publishes to topics that begin with '$'; allow subscribe instead")
    return Rule(verb == "allow", who, does, topic)


def _fill(topic: str, user: str, client: ClientId) -> str:
    """Put the names in; what is put in is not looked at again."""
    parts = topic.split("%")
    filled = [parts[0]]
    position = 1
    while position < len(parts):
        part = parts[position]
        if part:
            filled += [user if part[0] == "u" else client, part[1:]]
        else:  # between two '%' there is nothing: the sign itself, and then plain text
            position += 1
            filled += ["%", parts[position]]
        position += 1
    return "".join(filled)


def _not_plain(name: str) -> str | None:
    if not name:
        return "is empty"
    for sign in ("+", "#", "/", "\0"):
        if sign in name:
            return f"has {sign!r} in it"
    return "begins with '$'" if name[0] == "$" else None
