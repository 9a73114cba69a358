"""What wandering clients say in their CONNECT about how their sessions move: subscriptions that they bring along, and
the algorithm that they want."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from latecomer.core.mobility.settings import HandOverSettings
from latecomer.sim.mqtt_clients import MqttClient, Wish

BRINGS = 0.8
"""How likely a client brings its subscriptions, where clients do."""
WRONG = 0.15
"""How likely it brings others than it has."""
ASKS = 0.15
"""How likely it asks for an algorithm."""


class Device:
    """Draws from a source of its own, so that the rest of a life stays as it was."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed} logging")
        self.brings = self.random.random() < 0.6
        """Whether clients of this life bring subscriptions."""
        self.logs = self.random.random() < 0.5
        """Whether its brokers have recent logs."""

    def draw(self, settings: HandOverSettings) -> HandOverSettings:
        """The brokers' settings."""
        if not self.logs:
            return settings
        return replace(settings, algorithm="logging", recent_events=self.random.choice((2, 10, 1_000, 1_000)))

    def words(self, client: MqttClient) -> tuple[tuple[str, str], ...]:
        """User properties of a client's CONNECT."""
        random, words = self.random, []
        if self.logs and random.random() < ASKS:
            words.append(("hand-over", random.choice(("standard", "logging"))))
        if self.brings and random.random() < BRINGS:
            texts = [_text(wish) for wish in client.wishes.values() if wish.granted and not wish.leaving]
            random.shuffle(texts)
            if random.random() < WRONG:
                texts = random.choice((texts[1:], [*texts, "1 elsewhere/#"], ["2 #"]))
            words += [("subscription", text) for text in texts]
        return tuple(words)


def _text(wish: Wish) -> str:
    """A subscription as a client writes it into a CONNECT."""
    options = [str(wish.qos)]
    options += ["no-local"] * wish.no_local + ["retain-as-published"] * wish.retain_as_published
    options += [f"id={wish.id}"] if wish.id else []
    where = wish.filter.where
    if where is None:
        return f"{','.join(options)} {wish.text}"
    return f"{','.join(options)},content {wish.text} ? {where}"
