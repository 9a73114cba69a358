"""What it costs that a session follows its client, on a network of real brokers on this machine.

    python -m bench.handover [--clients 200] [--rate 200] [--seconds 60] [--kill] [--before FOLDER/src]

Clients return to their broker or turn up at another one; how long each waits for the first message that it missed is
compared in the same run. `--only` picks parts: wander, moves, big, burst, clean.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from pathlib import Path
from typing import get_args

from bench.handover.costs import big, burst, moves, quantile
from bench.handover.network import running
from bench.handover.wander import Outcome, Terms, Wander
from latecomer.core.mobility.settings import AlgorithmName

PARTS = ("wander", "moves", "big", "burst", "clean")


def wander(told: argparse.Namespace) -> None:
    print(
        f"\n{told.clients} clients and {told.pahos} of paho, {told.rate:g} messages/s, {told.seconds:g} s, "
        f"{told.brokers} brokers in a ring\n\n"
        "| | kills | sent | lost | repeated, QoS 1 / 2 | out of order | sessions lost | refused |\n|---|" + "---:|" * 7
    )
    found: dict[str, Outcome] = {}
    runs = ((told.peace, "in peace", False), (told.kill, "with kill -9", True))
    for name, kill in [(name, kill) for wanted, name, kill in runs if wanted]:
        with running(told.brokers, keep=told.keep and f"{told.keep}/{name.replace(' ', '-')}") as supervisor:
            stay_s = (told.stay / 2, told.stay * 3 / 2)
            terms = Terms(told.clients, told.rate, told.seed, stay_s, told.kill_every, told.pahos)
            run = Wander(supervisor, terms).run(told.seconds, kill=kill)
            out = found[name] = asyncio.run(run)
        if told.keep:
            (Path(told.keep) / f"{name.replace(' ', '-')}.story").write_text("\n".join(out.story) + "\n")
        refused = (
            ", ".join(
                f"{count} × {f'0x{code:02X}' if code > 0 else 'no answer'}"
                for code, count in sorted(out.refused.items())
            )
            or "0"
        )
        print(
            f"| {name} | {out.kills} | {out.sent} | {out.lost} | {out.repeated[1]} / {out.repeated[2]} | "
            f"{out.disordered} | {out.sessions_lost} | {refused} |",
            flush=True,
        )
    print(
        "\n| CPU, cores | generator | brokers | load average | messages/s | returns | moves | of paho |\n|---|"
        + "---:|" * 7
    )
    for name, out in found.items():
        print(
            f"| {name} | {out.generator_cpu:.2f} | {out.brokers_cpu:.2f} | {out.load:.1f} | "
            f"{out.sent / out.seconds:.0f} | {out.returns} | {out.moves} | {sum(got.moves for got in out.pahos)} |"
        )
    print(
        "\n| first missed message, ms from CONNECT | number | p50 | p99 | ratio p50 | ratio p99 |\n|---|" + "---:|" * 5
    )
    for name, out in found.items():
        same = [quantile(out.returned, part) for part in (0.5, 0.99)]
        print(f"| {name}, same broker | {len(out.returned)} | {same[0]:.1f} | {same[1]:.1f} | 1 | 1 |")
        for what, values in (("another broker", out.moved), ("another broker, `previous-broker` said", out.told)):
            here = [quantile(values, part) for part in (0.5, 0.99)]
            ratios = " | ".join(f"{a / b:.2f}" for a, b in zip(here, same, strict=True))
            print(f"| {name}, {what} | {len(values)} | {here[0]:.1f} | {here[1]:.1f} | {ratios} |", flush=True)


def cost_of_moves(told: argparse.Namespace) -> None:
    print("\n| one client goes to a neighbour, messages meanwhile | frames on all links | bytes |\n|---|---:|---:|")
    for algorithm in get_args(AlgorithmName):
        with running(told.brokers, algorithm=algorithm) as supervisor:
            for queued in (0, 10, 100):
                found = asyncio.run(moves(supervisor, told.moves, queued, announced=algorithm == "prefetching"))
                print(f"| {algorithm}, {queued} | {found.frames:.1f} | {found.octets:.0f} |", flush=True)


def cost_of_a_large_one(told: argparse.Namespace) -> None:
    with running(told.brokers) as supervisor:
        out = asyncio.run(big(supervisor, told.queued))
    print(
        f"\n| session of {out.queued} messages (filled in {out.fill_s:.0f} s) | same broker | another |\n"
        "|---|---:|---:|"
    )
    same, moved = out.same, out.moved
    print(f"| s to the CONNACK | {same.connack_s:.2f} | {moved.connack_s:.2f} |")
    print(f"| s to the last message | {same.all_s:.1f} | {moved.all_s:.1f} |")
    print(f"| CONNECTs refused, unanswered | {same.refused}, {same.unanswered} | {moved.refused}, {moved.unanswered} |")
    print(f"| messages, of these repeated | {same.got}, {same.repeated} | {moved.got}, {moved.repeated} |")
    print("\n| others, ms from publisher to subscriber | number | p50 | p99 |\n|---|---:|---:|---:|")
    for name, values in (
        ("before", out.before),
        ("while one returns to its broker", out.returning),
        ("while one moves", out.during),
    ):
        print(f"| {name} | {len(values)} | {quantile(values, 0.5):.1f} | {quantile(values, 0.99):.1f} |", flush=True)


def cost_of_unknown_clients(told: argparse.Namespace) -> None:
    print(
        f"\n| {told.burst} CONNECTs in a burst | per second | ratio | refused | p50 ms | p99 ms | bytes per link |\n"
        "|---|" + "---:|" * 6
    )
    base = 0.0
    with running(told.brokers) as supervisor:
        links = len(supervisor.network.links)
        for name, clean in (("clean start, no session", True), ("unknown, with a session", False)):
            out = asyncio.run(burst(supervisor, told.burst, f"{'c' if clean else 'k'}-", clean=clean))
            rate = out.count / out.seconds
            base = base or rate
            assert out.traffic is not None
            print(
                f"| {name} | {rate:.0f} | {rate / base:.2f} | {out.refused} | {quantile(out.waits, 0.5):.1f} | "
                f"{quantile(out.waits, 0.99):.1f} | {out.traffic.octets / links:.0f} |",
                flush=True,
            )


def cost_of_nothing(told: argparse.Namespace) -> None:
    """Clean starts at a network of three, before and after, in turns."""
    rates: dict[str, list[float]] = {"before": [], "after": []}
    for number in range(told.rounds):
        for name in ("before", "after"):
            with running(3, told.before if name == "before" else "") as supervisor:
                asyncio.run(burst(supervisor, 500, "warm", clean=True, at_once=20, measure=False))
                out = asyncio.run(burst(supervisor, 2000, f"n{number}-", clean=True, at_once=20, measure=False))
            rates[name].append(out.count / out.seconds)
    ratios = [after / before for before, after in zip(rates["before"], rates["after"], strict=True)]
    print(
        "\n| clean starts per second, three brokers | before | after | ratio, median | rounds |\n"
        "|---|---:|---:|---:|---|"
    )
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    medians = [statistics.median(rates[name]) for name in rates]
    print(f"| | {medians[0]:.0f} | {medians[1]:.0f} | {statistics.median(ratios):.2f} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=6)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=200, help="messages per second, over all clients")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pahos", type=int, default=10, help="clients on paho-mqtt beside our own")
    parser.add_argument("--stay", type=float, default=8, help="seconds that a client stays connected, on average")
    parser.add_argument("--kill-every", type=float, default=8, help="seconds between kills, on average")
    parser.add_argument("--kill", action="store_true", help="a second run in which brokers are killed with -9")
    parser.add_argument("--peace", action=argparse.BooleanOptionalAction, default=True, help="the run without kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default="", help="a folder for logs and data of the wandering, and what went wrong")
    parser.add_argument("--moves", type=int, default=50, help="hand-overs that are counted one by one")
    parser.add_argument("--queued", type=int, default=100_000, help="messages of the large session")
    parser.add_argument("--burst", type=int, default=10_000)
    parser.add_argument("--before", default="", help="the source folder of an earlier revision, for clean starts")
    parser.add_argument("--rounds", type=int, default=5, help="of the comparison with the earlier revision")
    parser.add_argument("--only", default=",".join(PARTS))
    told = parser.parse_args()
    wanted = told.only.split(",")
    parts = {
        "wander": wander,
        "moves": cost_of_moves,
        "big": cost_of_a_large_one,
        "burst": cost_of_unknown_clients,
        "clean": cost_of_nothing,
    }
    for name, part in parts.items():
        if name in wanted and (name != "clean" or told.before):
            part(told)


if __name__ == "__main__":
    main()
