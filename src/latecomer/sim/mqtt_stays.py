"""Stays of MQTT clients, from CONNECT to whatever ended them: which sessions must be found again, which wills must be
published, once, and which must not.

Times are those at which a broker noted what it did, so they hold however long it was stopped. A broker notes only what
is safe on its disk; a crash ends every stay that it finds there when it starts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from latecomer.core.session.limits import NEVER_S
from latecomer.messages.mqtt import V5, Reason
from latecomer.model.ids import ClientId, Instant
from latecomer.model.record import SESSION_ENDED, Kind, Record
from latecomer.sim.mqtt_pipes import Pipe

SECOND_US = 1_000_000


@dataclass(slots=True)
class Stay:
    """One connection that a broker noted."""

    pipe: Pipe
    present: bool | None
    """Whether a session must have been found; None: it ended that very moment."""
    ended_at: Instant | None = None
    crashed: bool = False
    next_at: Instant | None = None
    next_clean_start: bool = False
    judged: bool = False

    @property
    def expiry_us(self) -> int:
        connect = self.pipe.connect
        if connect.version != V5:
            return 0 if connect.clean_start else NEVER_S * SECOND_US
        return (connect.properties.session_expiry_s or 0) * SECOND_US

    @property
    def clean(self) -> bool:
        """It ended with a DISCONNECT that the broker took in."""
        return not self.crashed and not self.pipe.problem and self.pipe.goodbye is not None

    @property
    def ends_session(self) -> bool:
        """Whether the session ended with the connection."""
        goodbye = self.pipe.goodbye
        return not self.expiry_us or (self.clean and goodbye is not None and goodbye.properties.session_expiry_s == 0)


@dataclass(slots=True)
class Stays:
    """All stays, by client."""

    violate: Callable[[str, str], None]
    told: dict[ClientId, list[Pipe]] = field(default_factory=dict)
    """Connections that brokers serve and have not noted; filled by `Pipes`."""
    by_client: dict[ClientId, list[Stay]] = field(default_factory=dict)
    by_number: dict[int, Stay] = field(default_factory=dict)
    wills: Counter[str] = field(default_factory=Counter)
    refused: dict[str, None] = field(default_factory=dict)

    def noted(self, record: Record) -> None:
        if record.kind is Kind.CONNECTED:
            self._connected(record)
        elif record.kind is Kind.DISCONNECTED and not record.detail.startswith(SESSION_ENDED):
            self.by_client[record.client][-1].ended_at = record.at_us
        elif record.kind is Kind.STARTED:
            for stays in self.by_client.values():
                if stays[-1].pipe.broker == record.broker and stays[-1].ended_at is None:
                    stays[-1].ended_at, stays[-1].crashed = record.at_us, True
        elif record.kind is Kind.PUBLISHED and record.topic.startswith("will/"):
            self.wills[record.topic] += 1
            if self.wills[record.topic] > self._wills_most(int(record.topic.rpartition("/")[2])):
                self.violate("will", f"{record.topic} was published {self.wills[record.topic]} times")
        elif record.kind is Kind.REFUSED and record.topic.startswith("will/"):
            self.refused[record.topic] = None

    def _connected(self, record: Record) -> None:
        pipe = self.told[record.client].pop(0)
        stays = self.by_client.setdefault(record.client, [])
        present: bool | None = False
        if stays:
            before = stays[-1]
            before.next_at, before.next_clean_start = record.at_us, pipe.connect.clean_start
            if not pipe.connect.clean_start and not before.ends_session:
                assert before.ended_at is not None
                away_us = record.at_us - before.ended_at
                present = None if away_us == before.expiry_us else away_us < before.expiry_us
        stay = Stay(pipe, present)
        stays.append(stay)
        self.by_number[pipe.number] = stay

    def welcomed(self, pipe: Pipe, present: bool) -> None:
        """A client read in its CONNACK whether the broker has its session."""
        must = self.by_number[pipe.number].present
        if must is not None and present != must:
            what = "lost the session of" if must else "found a session that was over for"
            self.violate("session", f"{pipe.broker} {what} {pipe.client}")

    def _wills_most(self, number: int) -> int:
        """How often the will of a connection may be published."""
        return 1

    def check_wills(self) -> None:
        """The network is quiet: every will that was due has been published, no other was."""
        for stays in self.by_client.values():
            for stay in stays:
                will = stay.pipe.connect.will
                if will is None or stay.judged or will.topic in self.refused:
                    continue
                stay.judged = stay.next_at is not None
                must = self._must(stay, will.properties.will_delay_s or 0)
                if must is not None and (count := self._count(will.topic, must)) != must:
                    self.violate("will", f"{will.topic} was published {count} times, should {must}")

    def _count(self, topic: str, must: int) -> int:
        """How often a will was published that must have been published so often."""
        return self.wills[topic]

    def _must(self, stay: Stay, delay_s: int) -> int | None:
        """How often a will must have been published; None: either is right."""
        if stay.ended_at is None:
            return 0
        if stay.clean:
            goodbye = stay.pipe.goodbye
            assert goodbye is not None
            if goodbye.reason == Reason.SUCCESS:
                return 0  # [MQTT-3.14.4-3]
        if stay.ends_session or not delay_s or stay.next_clean_start:
            return 1
        if stay.next_at is None:
            return None  # it may still wait
        away_us, wait_us = stay.next_at - stay.ended_at, min(delay_s * SECOND_US, stay.expiry_us)
        return None if away_us == wait_us else int(away_us > wait_us)
