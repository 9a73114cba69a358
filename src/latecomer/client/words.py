"""What a client says to brokers of Latecomer beyond MQTT, and what they add to messages: user properties, both ways.

Nothing here knows a client library, a socket or a clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from latecomer.messages.mqtt import Reason
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.filters import make_filter
from latecomer.model.history import NOT_SO_FAR
from latecomer.model.topics import check_filter
from latecomer.model.when import NAMES, Options, format_when, make_wish, parse_when

END_TOPIC = "$history/end"
NO_STORE = "no store keeps"
"""How every problem begins that is told when nobody has the topics, or nobody all of them."""
ADDED = ("published", "event")
"""User properties behind the publisher's own: a message of the past."""
LATE = "late"
"""Behind all others: the message waited in an older session of this client."""
SUBSCRIPTION_ID_MAX = 268_435_455

Pairs: TypeAlias = Sequence[tuple[str, str]]
When: TypeAlias = str | int | float | datetime | timedelta
"""An instant of the past: as a text of `model/when`, in seconds since 1970, as a moment, or as long ago."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_instant = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")


# --- out: SUBSCRIBE ---


def when(value: When) -> str:
    """An instant as brokers read it."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, timedelta):
        seconds = -(-value // timedelta(seconds=1))  # rounded up: rather a moment more than a moment less
        if seconds < 0:
            raise SettingsError("since", f"{value} lies in the future: say how long ago it was")
        return f"-{seconds}s"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise SettingsError("since", f"{value} has no time zone: say which one is meant")
        return format_when(max(0, (value - _EPOCH) // timedelta(microseconds=1)))
    return format_when(max(0, round(value * 1_000_000)))


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """What a client subscribes to, and what of the past it wants first."""

    topic: str
    qos: int = 1
    where: str = ""
    """Content filter, such as 'value > 30'; matched at brokers and stores."""
    since: str = ""
    until: str = ""
    last: int = 0
    """The newest so many events of the past; 0: all of them."""
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0

    @property
    def past(self) -> Options:
        return Options(self.since, self.until, str(self.last) if self.last else "")

    def check(self, now_us: int) -> None:
        """Raises a `SettingsError` if no broker can understand it."""
        for name, low, high in (("qos", 0, 2), ("retain_handling", 0, 2), ("identifier", 0, SUBSCRIPTION_ID_MAX)):
            if not low <= getattr(self, name) <= high:
                raise SettingsError(name, f"must be a number from {low} to {high}, not {getattr(self, name)}")
        check_filter(self.topic)
        make_filter(self.topic, self.where)
        if str(self.past):
            if self.topic.startswith("$share/"):
                raise SettingsError("topic", "a shared subscription has no history; leave out $share and the group")
            make_wish(self.past, now_us)


def make_subscription(topic: str, since: When, until: When, now_us: int, **more: Any) -> Subscription:
    """What an application asks for. Raises a `SettingsError` if no broker can understand it."""
    found = Subscription(topic=topic, since=when(since), until=when(until), **more)
    found.check(now_us)
    return found


def wishes(options: Options) -> list[tuple[str, str]]:
    """What is wanted of the past, as user properties of a SUBSCRIBE."""
    return [(name, text) for name in NAMES if (text := getattr(options, name))]


def subscribe_words(subscription: Subscription, *, past: bool = True) -> list[tuple[str, str]]:
    """User properties of the SUBSCRIBE; without `past`, those of what is live."""
    filtered = [("filter", subscription.where)] if subscription.where else []
    return [*(wishes(subscription.past) if past else ()), *filtered]


def device_word(subscription: Subscription) -> str:
    """How a client states in its CONNECT that its session has this subscription; empty: it cannot be written."""
    options = [str(subscription.qos)]
    options += ["no-local"] * subscription.no_local + ["retain-as-published"] * subscription.retain_as_published
    if subscription.identifier:
        options.append(f"id={subscription.identifier}")
    if not subscription.where:
        return f"{','.join(options)} {subscription.topic}"
    if " ? " in subscription.topic:
        return ""  # where the content filter begins would be read wrongly
    return f"{','.join([*options, 'content'])} {subscription.topic} ? {subscription.where}"


# --- in: the end of a history ---


class End(msgspec.Struct, frozen=True):
    """The word of the broker that the history is over."""

    filter: str = ""
    """The topic filter, as it was subscribed to."""
    events: int = 0
    from_time: str = msgspec.field(default="", name="from")
    complete: bool = True
    stores: tuple[str, ...] = ()
    hops: int = 0
    problem: str = ""

    def incomplete(self, asked: Options, now_us: int) -> str:
        """What is missing, as a sentence; empty: nothing."""
        if self.complete:
            return ""
        if self.problem == NOT_SO_FAR and self.from_time:
            who = "this store has" if len(self.stores) < 2 else "these stores have"
            since = f"events only since {seconds(self.from_time)}; {asked_from(asked, now_us)}"
            return f"the history is incomplete: {who} {since}"
        why = self.problem or "the broker does not say why"
        # Where no store has the topics, there is no time from which the history would be complete.
        known = self.from_time and not why.startswith(NO_STORE)
        return f"the history is incomplete: {why}" + (f"; complete from {self.from_time} on" if known else "")

    def summary(self) -> str:
        if not self.stores:
            return f"{counted(self.events)}; no store was asked"
        names = " and ".join(self.stores)
        return f"{counted(self.events)} from {names}, {self.hops} hop{'' if self.hops == 1 else 's'} away"


def read_end(payload: bytes) -> End:
    """What the marker says. Raises a `LatecomerError`."""
    try:
        return msgspec.json.decode(payload, type=End)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise LatecomerError(f"the broker ends the history with {payload[:80]!r}, which is no such word") from None


def asked_from(options: Options, now_us: int) -> str:
    """From when on somebody wanted to know."""
    if not options.since:
        return f"you asked for the last {options.last}" if options.last else "you asked for everything"
    since_us = parse_when(options.since, now_us)
    return f"you asked from {seconds(format_when(since_us))}" if since_us else "you asked for everything"


def seconds(instant: str) -> str:
    """An instant without fractions of a second."""
    return re.sub(r"\.[0-9]+Z$", "Z", instant)


def counted(events: int) -> str:
    return f"{events} event{'' if events == 1 else 's'}"


# --- in: messages ---


class Notes(msgspec.Struct, frozen=True):
    """What the broker has added to a message."""

    own: tuple[tuple[str, str], ...] = ()
    """The publisher's user properties."""
    published: str = ""
    event: str = ""
    late: bool = False

    @property
    def past(self) -> bool:
        """Replayed from a store."""
        return bool(self.event)


def read_notes(user: Pairs) -> Notes:
    """Tell what the broker added from what the publisher said. What is added stands last; a publisher that ends its own
    properties just so is believed, which harms nobody but its own subscribers."""
    pairs, late, published, event = tuple(user), False, "", ""
    if pairs and pairs[-1][0] == LATE and _instant.fullmatch(pairs[-1][1]):
        late, published, pairs = True, pairs[-1][1], pairs[:-1]
    if tuple(name for name, _ in pairs[-2:]) == ADDED and _instant.fullmatch(pairs[-2][1]):
        published, event, pairs = pairs[-2][1], pairs[-1][1], pairs[:-2]
    return Notes(pairs, published, event, late)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as an application gets it."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    user: tuple[tuple[str, str], ...] = ()
    """The publisher's user properties."""
    published_us: int | None = None
    """When it was published, in microseconds since 1970; None: it is live, and the broker does not say."""
    event: str = ""
    """Which event it is, the same at every broker; brokers say it of the past."""
    late: bool = False
    """It waited in an older session of this client."""
    content_type: str = ""
    response_topic: str = ""
    correlation_data: bytes = b""
    expiry_s: int | None = None

    @property
    def past(self) -> bool:
        """Replayed from a store; everything else is live."""
        return bool(self.event)

    @property
    def published(self) -> datetime | None:
        return None if self.published_us is None else _EPOCH + timedelta(microseconds=self.published_us)


Heard: TypeAlias = Message | End


def heard(message: Message) -> Heard:
    """A message whose `user` is as it came: with the broker's words read, or as the end of a history."""
    if message.topic == END_TOPIC:
        try:
            return read_end(message.payload)
        except LatecomerError as error:
            return End(complete=False, problem=str(error))
    notes = read_notes(message.user)
    if not notes.published:
        return message
    try:
        published_us = parse_when(notes.published, 0)
    except SettingsError:  # it looks like an instant and is none, as the 30th of February
        return message
    return msgspec.structs.replace(
        message, user=notes.own, published_us=published_us, event=notes.event, late=notes.late
    )


# --- in: CONNACK, and reasons ---


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker says when it accepts a client."""

    address: str
    session_present: bool = False
    user: tuple[tuple[str, str], ...] = ()

    def word(self, name: str) -> str:
        return next((value for key, value in self.user if key == name), "")

    @property
    def restored(self) -> bool:
        """The session is new, and has the subscriptions of an older one that is away or lost."""
        return self.word("session") == "restored"

    @property
    def owner_away(self) -> str:
        """The broker where an older session is, which cannot be reached; what waits there comes late."""
        return self.word("owner-away")

    @property
    def owner_lost(self) -> str:
        """The broker that has lost an older session."""
        return self.word("owner-lost")


def reason_words(code: int, told: str = "") -> str:
    """A reason code as words, with what the broker said besides."""
    try:
        words = Reason(code).name.replace("_", " ").lower()
    except ValueError:
        words = "a reason that MQTT does not know"
    return f"{words} (0x{code:02X}{f': {told}' if told else ''})"
