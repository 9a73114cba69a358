"""An application with callbacks: it counts what hot sensors say, and publishes the count; its brokers may send it on.

    latecomer up --brokers 3 --store 'b3=sensors/#'
    python examples/app_threads.py b1=localhost:1883 b2=localhost:1884 b3=localhost:1885

In another terminal:

    latecomer sub counted --port 1885
    latecomer pub sensors/7/temp '{"value": 34.5}' --qos 2
    latecomer drain b1; latecomer drain b1 --abort
"""

from __future__ import annotations

import argparse
import threading

from latecomer.client import End, Heard, Patience, Profile, Welcome
from latecomer.client.threaded import Client
from latecomer.model.errors import LatecomerError


class Counter:
    """What has been heard; callbacks come from one thread."""

    def __init__(self, addresses: list[str], client_id: str, count: int) -> None:
        self.count, self.numbers = count, {"past": 0, "live": 0}
        self.over = threading.Event()
        self.why: LatecomerError | None = None
        profile = Profile(client_id=client_id, patience=Patience(pause_s=0.2))
        self.client = Client(
            addresses, profile, on_heard=self.heard, on_welcome=self.welcomed, on_over=self.gave_up
        )  # fmt: skip

    def run(self, next_broker: str) -> None:
        self.client.start()
        self.client.subscribe("sensors/+/temp", qos=2, since="-1h", where="value > 30")
        self.over.wait()
        if self.why is not None:
            raise self.why
        told = f"{self.numbers['past']} past, {self.numbers['live']} live"
        self.client.publish("counted", told).wait_for_publish()
        self.client.leave(next_broker)
        print(f"counted {told}", flush=True)

    def heard(self, heard: Heard) -> None:
        if isinstance(heard, End):
            print(f"history: {heard.summary()}", flush=True)
            return
        self.numbers["past" if heard.past else "live"] += 1
        if sum(self.numbers.values()) == self.count:
            self.over.set()

    def welcomed(self, welcome: Welcome) -> None:
        found = "its session is there" if welcome.session_present else "a new session"
        print(f"connected to {welcome.address}: {found}", flush=True)

    def gave_up(self, why: LatecomerError) -> None:
        self.why = why
        self.over.set()


def main() -> None:
    words = argparse.ArgumentParser(description="Count hot sensors: the last hour, then live.")
    words.add_argument("addresses", nargs="+", metavar="[BROKER=]HOST:PORT")
    words.add_argument("--id", default="counter", help="client id")
    words.add_argument("--count", type=int, default=10, help="stop after so many messages")
    words.add_argument("--next", default="", help="the broker to which it goes afterwards")
    given = words.parse_args()
    try:
        Counter(given.addresses, given.id, given.count).run(given.next)
    except LatecomerError as error:
        raise SystemExit(f"{error}") from None


if __name__ == "__main__":
    main()
