"""What a client has subscribed to, as far as it must remember it itself: to say it again when a session is gone, and to
state it in its next CONNECT."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from latecomer.client.words import Subscription, Welcome, device_word
from latecomer.model.errors import SettingsError

REMEMBERED_MAX = 10_000
"""Topic filters; more are refused, since they could not be said again."""


class Due(msgspec.Struct, frozen=True):
    """What is to be said behind a CONNACK."""

    subscribe: tuple[Subscription, ...] = ()
    unsubscribe: tuple[str, ...] = ()


@dataclass(slots=True)
class _Kept:
    subscription: Subscription
    granted: bool = False
    """The session at the broker has it."""
    past: bool = False
    """The history that was asked for is not over."""


@dataclass(slots=True)
class Wanted:
    """By topic filter: of two subscriptions to the same one the later counts, as at the broker."""

    kept: dict[str, _Kept] = field(default_factory=dict)
    leaving: dict[str, None] = field(default_factory=dict)
    """Topic filters that the session may still have."""

    def want(self, subscription: Subscription) -> None:
        topic = subscription.topic
        if topic not in self.kept and len(self.kept) >= REMEMBERED_MAX:
            raise SettingsError("topic", f"this client has {REMEMBERED_MAX:,} subscriptions already; end some first")
        self.leaving.pop(topic, None)
        self.kept[topic] = _Kept(subscription, past=bool(str(subscription.past)))

    def unwant(self, topic: str) -> None:
        self.kept.pop(topic, None)
        self.leaving[topic] = None

    def granted(self, subscription: Subscription) -> None:
        if (kept := self.kept.get(subscription.topic)) is not None and kept.subscription == subscription:
            kept.granted = True

    def refused(self, subscription: Subscription) -> None:
        """It is not asked for again."""
        if (kept := self.kept.get(subscription.topic)) is not None and kept.subscription == subscription:
            del self.kept[subscription.topic]

    def left(self, topic: str) -> None:
        self.leaving.pop(topic, None)

    def past_over(self, topic: str) -> None:
        if (kept := self.kept.get(topic)) is not None:
            kept.past = False

    def asks_for_past(self, subscription: Subscription) -> bool:
        """Whether its history has still to be asked for."""
        kept = self.kept.get(subscription.topic)
        return kept is None or kept.past

    def welcomed(self, welcome: Welcome) -> Due:
        """What to say now. A session that is there has what was granted; one that is restored has it, too, but knows
        nothing of a history that was being replayed."""
        if not welcome.session_present:
            for kept in self.kept.values():
                kept.granted = welcome.restored and kept.granted and not kept.past
            if not welcome.restored:
                self.leaving.clear()
        due = tuple(kept.subscription for kept in self.kept.values() if not kept.granted)
        return Due(due, tuple(self.leaving))

    def device_words(self) -> list[str]:
        """What the session is subscribed to, for a CONNECT; nothing, if that cannot be said for certain."""
        words = [device_word(kept.subscription) for kept in self.kept.values() if kept.granted]
        return [] if self.leaving or "" in words else words
