"""One client with a large session, in a process of its own: what it does must not delay those who are measured.

    python -m bench.handover.giant NAME PORT MESSAGES

Connects until it is admitted, takes all its messages, and prints how long that took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress

import msgspec

from bench.handover.client import Subscriber

LIMIT_S = 120.0


class Arrived(msgspec.Struct):
    connack_s: float = 0.0
    """From the first CONNECT to a CONNACK with success."""
    all_s: float = 0.0
    """From the first CONNECT to the last message."""
    refused: int = 0
    unanswered: int = 0
    got: int = 0
    repeated: int = 0


async def arrive(name: str, port: int, queued: int) -> Arrived:
    giant, out = Subscriber(name, "", 1), Arrived()
    began = time.perf_counter()
    with suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S):
            while True:
                answer = await giant.connect(port)
                if answer is not None and answer.reason == 0:
                    out.connack_s = time.perf_counter() - began
                    break
                out.refused += answer is not None
                out.unanswered += answer is None
                await asyncio.sleep(0.1)
            while len(giant.count) < queued:
                await asyncio.sleep(0.01)
    out.all_s = time.perf_counter() - began
    out.got = len(giant.count)
    out.repeated = giant.repeated
    giant.leave()
    return out


async def in_a_process(name: str, port: int, queued: int) -> Arrived:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.handover.giant", name, str(port), str(queued), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    return msgspec.json.decode(told, type=Arrived)


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(arrive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))).decode())
