"""An application for asyncio: the past of some sensors, then live, wherever its brokers send it.

    latecomer up --brokers 3 --store 'b3=sensors/#'
    python examples/app_asyncio.py b1=localhost:1883 b2=localhost:1884 b3=localhost:1885

In another terminal:

    latecomer pub sensors/7/temp '{"value": 34.5}' --qos 2
    latecomer sessions move app b2
"""

from __future__ import annotations

import argparse
import asyncio

from latecomer.client import End, Patience, Profile
from latecomer.client.aio import Client
from latecomer.model.errors import LatecomerError


async def watch(addresses: list[str], client_id: str, count: int) -> None:
    profile = Profile(client_id=client_id, patience=Patience(pause_s=0.2))
    async with Client(addresses, profile) as client:
        await client.subscribe("sensors/+/temp", qos=2, since="-1h", where="value > 30")
        async for heard in client.messages:
            if isinstance(heard, End):
                print(f"history: {'complete' if heard.complete else heard.problem}; {heard.summary()}", flush=True)
                continue
            told = "past" if heard.past else "late" if heard.late else "live"
            print(f"{told} {heard.topic} {heard.payload.decode()} at {client.at}", flush=True)
            count -= 1
            if not count:
                return


def main() -> None:
    words = argparse.ArgumentParser(description="Print hot sensors: the last hour, then live.")
    words.add_argument("addresses", nargs="+", metavar="[BROKER=]HOST:PORT")
    words.add_argument("--id", default="app", help="client id")
    words.add_argument("--count", type=int, default=0, help="stop after so many messages; 0: never")
    given = words.parse_args()
    try:
        asyncio.run(watch(given.addresses, given.id, given.count))
    except LatecomerError as error:
        raise SystemExit(f"{error}") from None


if __name__ == "__main__":
    main()
