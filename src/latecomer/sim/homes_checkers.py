"""What must hold when brokers send clients on, watched from outside: no will is published because of it, no session is
lost by it, nobody is sent who does not follow, and words stay within their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latecomer.core.broker import Broker
from latecomer.messages.homes import Profile
from latecomer.messages.link import LinkMessage
from latecomer.model.ids import BrokerId, ClientId, Instant
from latecomer.model.record import Kind, Record
from latecomer.sim.wander_checkers import WanderLedger
from latecomer.sim.wander_pipes import WanderPipe

LATE_US = 50_000
"""How long a step of a broker, or its disk, may take."""


@dataclass(slots=True)
class Sending:
    """A client that its broker has sent on."""

    pipe: WanderPipe
    at: Instant


@dataclass(slots=True)
class HomesLedger(WanderLedger):
    """Witness of clients that are sent on, and observer of their world."""

    sendings: dict[ClientId, Sending] = field(default_factory=dict)
    """The last one of each client that was not welcomed since."""
    by_number: dict[int, Sending] = field(default_factory=dict)
    """By connection."""
    resting: dict[tuple[BrokerId, ClientId], Instant] = field(default_factory=dict)
    """Until when brokers must leave clients alone: they have sent them, or got their sessions from elsewhere."""
    sent_on: int = 0
    advised: int = 0

    @property
    def away_us(self) -> Instant:
        return self.world.settings.homes.away_us

    def noted(self, record: Record) -> None:
        WanderLedger.noted(self, record)
        if record.kind is Kind.SENT_ON:
            self.sent_on += 1
            self._sent_on(record)
            self._rests(record)
        elif record.kind is Kind.MOVED:
            self._rests(record)
        elif record.kind is Kind.STARTED:
            for broker, client in [known for known in self.resting if known[0] == record.broker]:
                del self.resting[broker, client]
        elif record.kind is Kind.ADVISED:
            self.advised += 1
        elif record.kind is Kind.PUBLISHED and record.topic.startswith("will/"):
            self._will(record)

    def _sent_on(self, record: Record) -> None:
        """Noted before the connection ends: it is the last stay of the client at this broker."""
        stays = self.stays.by_client.get(record.client, ())
        stay = next((stay for stay in reversed(stays) if _host(stay.pipe) == record.broker), None)
        if stay is None or not isinstance(stay.pipe, WanderPipe):
            return
        sending = Sending(stay.pipe, record.at_us)
        self.sendings[record.client] = self.by_number[stay.pipe.number] = sending

    def _rests(self, record: Record) -> None:
        broker, client = record.broker, record.client
        if record.kind is Kind.SENT_ON and record.at_us < self.resting.get((broker, client), 0):
            self.violate("homes", f"{broker} sent {client} on, which it has to leave alone")
        self.resting[broker, client] = record.at_us + self.world.settings.homes.rest_us

    def _will(self, record: Record) -> None:
        _, client, number = record.topic.split("/")
        sending = self.by_number.get(int(number))
        if sending is None or record.at_us >= sending.at + self.away_us - LATE_US or self._excused(sending, client):
            return
        self.violate("homes", f"{record.broker} published {record.topic}, whose client it had sent on")

    def _excused(self, sending: Sending, client: ClientId) -> bool:
        """The client has begun anew since, or may have either of two sessions, or its connection was over before its
        broker knew."""
        begun = self.stays.pipes.starts_clean(client, (sending.pipe.reached_at or 0) + 1, self.world.now)
        return begun or client in self.stays.split or sending.pipe.doubtful or self._stale(sending)

    def _stale(self, sending: Sending) -> bool:
        return self.stays.pipes.stale(sending.pipe, self.world.now)

    def began(self, pipe: WanderPipe, present: bool) -> None:
        sending = self.sendings.pop(pipe.client, None)
        soon = sending is not None and self.world.now < sending.at + self.away_us - LATE_US
        if sending is not None and soon and not present and not pipe.connect.clean_start:
            last = self.stays.by_client[pipe.client][-1]
            if last.pipe is sending.pipe and not last.ends_session and not self._excused(sending, pipe.client):
                self.violate("homes", f"{pipe.broker} knows no session of {pipe.client}, which was sent on")
        WanderLedger.began(self, pipe, present)

    def sent(self, now: Instant, sender: BrokerId, receiver: BrokerId, frames: Sequence[LinkMessage]) -> None:
        WanderLedger.sent(self, now, sender, receiver, frames)
        most = self.world.settings.homes.filters_max
        for frame in frames:
            if isinstance(frame, Profile) and len(frame.added) > most:
                self.violate("homes", f"{frame.from_broker} tells of {len(frame.added)} filters, and may of {most}")

    def check_bounds(self, cores: Sequence[Broker]) -> None:
        """What brokers remember of one another stays within limits, and is right if it is the newest."""
        own = {core.id: core.homes.profiles for core in cores}
        for core in cores:
            homes = core.homes
            if len(homes.profiles.known) > max(homes.settings.nearest, len(homes.settings.cluster)):
                self.violate("homes", f"{core.id} knows words of {len(homes.profiles.known)} brokers")
            for broker, known in homes.profiles.known.items():
                there = own.get(broker)
                if there is None or (known.boot, known.number) != (there.orders.boot, there.number):
                    continue
                if known.numbers != there.told:
                    self.violate("homes", f"{core.id} has another word {known.number} of {broker} than {broker} itself")


def _host(pipe: object) -> BrokerId:
    return pipe.host if isinstance(pipe, WanderPipe) else ""
