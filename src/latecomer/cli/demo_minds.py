"""Changed minds in `latecomer demo`: a ring of brokers whose subscribers want something else, and which follows them.

A network of its own, which routes by rendezvous. Everybody subscribes, then everybody changes their mind. Where brokers
stand on the ring is planned from what they have counted, and changed while everybody goes on publishing.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion
from rich.box import SIMPLE_HEAD
from rich.table import Table

from latecomer.cli.client import KEEP_ALIVE_SECONDS
from latecomer.cli.demo_progress import Told
from latecomer.cli.demo_traffic import PATIENCE_S, Broken
from latecomer.cli.doors import found_doors
from latecomer.cli.overlay import make_overlay_problem
from latecomer.cli.overlay_work import Counted, Seen, demand_of, look, propose, stand_of
from latecomer.model.errors import LatecomerError
from latecomer.runtime.network_file import Network
from latecomer.runtime.overlay_views import OverlayView, PlaceView
from latecomer.runtime.supervisor import Supervisor

TOPICS = tuple(f"mind{number}/said" for number in range(16))
PACE_S = 0.05
COUNT_S = 3.0
PERIOD_S = 3600.0
FIRST, THEN = (0, 1, 2), (0, 3, 6)
"""Subscribers of a topic: so many brokers further than its number; before all have changed their minds, and after."""


class MindFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How events travelled before and after brokers changed their positions."""

    events: int
    lost: int
    repeated: int
    disordered: int
    moved: int
    """Brokers that changed their positions."""
    seconds: float
    """Until all used the new ones."""
    relays_before: float
    relays_after: float
    hops_before: float
    hops_after: float


@dataclass(slots=True)
class Minds:
    """The clients: one at each broker, who publishes and subscribes."""

    network: Network
    told: Told
    clients: list[Client] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    """By topic, how many were published and acknowledged."""
    got: list[dict[str, int]] = field(default_factory=list)
    """By client and topic, the newest number."""
    since: list[dict[str, int]] = field(default_factory=list)
    """By client and topic, the first number that must come."""
    events: int = 0
    lost: int = 0
    repeated: int = 0
    disordered: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def begin(self) -> None:
        for place, seat in enumerate(self.network.brokers):
            client = Client(CallbackAPIVersion.VERSION2, client_id=f"mind-{seat.id}")
            client.on_message = lambda c, u, message, place=place: self._heard(place, message)
            client.connect(seat.host, seat.port, KEEP_ALIVE_SECONDS)
            client.loop_start()
            self.clients.append(client)
            self.got.append({})
            self.since.append({})
        self.thread = threading.Thread(target=self._publish, daemon=True)

    def _publish(self) -> None:
        number = 0
        while not self.over.wait(PACE_S):
            number += 1
            under_way = []
            for at, topic in enumerate(TOPICS):
                client = self.clients[(5 * at + 3) % len(self.clients)]
                under_way.append((topic, client.publish(topic, b"%d" % number, qos=1)))
            for topic, told in under_way:
                told.wait_for_publish(PATIENCE_S)
                self.sent[topic] = number

    def _heard(self, place: int, message: MQTTMessage) -> None:
        topic, number = message.topic, int(message.payload)
        before = self.got[place].get(topic)
        self.events += 1
        if before is not None:
            self.lost += max(0, number - before - 1)
            self.repeated += number == before
            self.disordered += number < before
        self.got[place][topic] = max(number, before or 0)

    def want(self, further: tuple[int, ...], before: tuple[int, ...] = ()) -> None:
        """Everybody subscribes; and leaves what was wanted before."""
        count = len(self.clients)
        for at, topic in enumerate(TOPICS):
            new = {(at + step) % count for step in further}
            old = {(at + step) % count for step in before}
            for place in sorted(old - new):
                self.clients[place].unsubscribe(topic)
                self.got[place].pop(topic, None)
            for place in sorted(new - old):
                self.clients[place].subscribe(topic, 1)
        if self.thread is not None and not self.thread.is_alive():
            self.thread.start()

    def finish(self, further: tuple[int, ...]) -> None:
        """Publish no more, and wait until all have everything."""
        self.over.set()
        if self.thread is not None and self.thread.is_alive():
            self.thread.join()
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self._missing(further):
            time.sleep(0.05)
        self.lost += self._missing(further)

    def _missing(self, further: tuple[int, ...]) -> int:
        count = len(self.clients)
        places = [(topic, (at + step) % count) for at, topic in enumerate(TOPICS) for step in further]
        return sum(max(0, self.sent.get(topic, 0) - self.got[place].get(topic, 0)) for topic, place in places)

    def close(self) -> None:
        self.over.set()
        for client in self.clients:
            client.disconnect()
            client.loop_stop()


def change_minds(network: Network, folder: Path, told: Told) -> MindFigures:
    """The whole act, on a network that routes by rendezvous."""
    supervisor = Supervisor(network, folder)
    minds = Minds(network, told)
    try:
        told(f"starting a ring of {len(network.brokers)} brokers", 0, 0)
        supervisor.start()
        doors = found_doors(folder, [], [], None)
        _until_ring(folder)
        minds.begin()
        minds.want(FIRST)
        told("everybody changes their mind", 0, 0)
        time.sleep(1)
        minds.want(THEN, FIRST)
        time.sleep(0.5)
        told("counting relays", 0, 0)
        before = _count(look(doors))
        seen = look(doors)
        told("planning positions", 0, 0)
        places = plan_places(seen)
        stand = {place.broker: place.position for place in seen.one.places}
        told("brokers change their positions", 0, 0)
        seconds = propose(seen, places, PATIENCE_S, lambda what: None)
        told("counting relays", 0, 0)
        after = _count(look(doors))
        minds.finish(THEN)
    finally:
        minds.close()
        supervisor.stop()
    return MindFigures(
        events=minds.events,
        lost=minds.lost,
        repeated=minds.repeated,
        disordered=minds.disordered,
        moved=sum(places[broker] != position for broker, position in stand.items()),
        seconds=seconds,
        relays_before=before.relays_each or 0.0,
        relays_after=after.relays_each or 0.0,
        hops_before=before.hops_each or 0.0,
        hops_after=after.hops_each or 0.0,
    )


def plan_places(seen: Seen) -> dict[str, int]:
    """Positions with fewer relays, by what brokers have counted."""
    import numpy as np

    from latecomer.planner.overlay.explain import plan_overlay

    stand = stand_of(seen)
    problem = make_overlay_problem(stand, *demand_of(seen, stand), PERIOD_S)
    start, by_chance = np.array(stand.numbers()), np.array(stand.consistent_hashing())
    _, end = plan_overlay(problem, start, by_chance, algorithm="best", told=lambda what: None)
    return stand.rearranged(end.tolist()).positions


def warm_up() -> None:
    """Compile what planning positions needs, by a ring that is too small to matter."""
    places = tuple(PlaceView(f"b{number}", number << 28, 1, (), False) for number in range(1, 5))
    nothing = ("", 1, dict[str, int](), True, True, "", 1, "none", places, False, (), "", "", 1.0)
    views = {p.broker: OverlayView(p.broker, *nothing, {7: 1, 500: 2}, (7, 300), 0, 0, 0, 0) for p in places}
    plan_places(Seen(views))


def _count(seen: Seen) -> Counted:
    before = seen.counted()
    time.sleep(COUNT_S)
    return look(list(seen.doors.values())).counted().since(before)


def _until_ring(folder: Path) -> None:
    """Brokers listen before all links are up."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            views = look(found_doors(folder, [], [], None)).views.values()
        except LatecomerError:
            views = {}.values()
        if views and all(view.ring and view.ready for view in views) and len({v.version for v in views}) == 1:
            return
        time.sleep(0.1)
    raise Broken(
        f"the brokers of the ring did not find one another within {PATIENCE_S:g} s; see broker.log in {folder}"
    )


def table_of(figures: MindFigures) -> Table:
    table = Table(box=SIMPLE_HEAD, title="Changed minds", title_justify="left")
    for heading in ("", "before", "after"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("relays of an event, mean", f"{figures.relays_before:.2f}", f"{figures.relays_after:.2f}")
    table.add_row("hops to a subscriber, mean", f"{figures.hops_before:.2f}", f"{figures.hops_after:.2f}")
    table.add_row("events", "", f"{figures.events:,}")
    for name in ("lost", "repeated"):
        table.add_row(name, "", f"{getattr(figures, name):,}")
    return table


def check(figures: MindFigures) -> None:
    """A promise that was not kept ends the demo."""
    for name in ("lost", "repeated", "disordered"):
        if count := getattr(figures, name):
            told = "out of order" if name == "disordered" else name
            raise Broken(f"{count} events were {told} while brokers changed their positions")
    if figures.relays_after >= figures.relays_before:
        raise Broken("the new positions did not save relays")
