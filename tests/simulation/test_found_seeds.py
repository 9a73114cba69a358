"""Seeds that failed once, each under the name of what it found. They are lived again in full."""

from __future__ import annotations

import pytest

from latecomer.sim.soak import judge

FOUND = {
    "a broker that restarted at once stamped retained messages ahead of its clock": (
        "mqtt",
        (88806312, 659199964, 659200079, 659200106, 659200200, 2181036510),
    ),
    "the checker demanded order of what was handed on by a member that left its group": ("mqtt", (850715376,)),
    "the checker took a message that came live for another event of the same publication": (
        "history",
        (88803268, 88804632),
    ),
    "the checker demanded the nearest store after a move that came while it answered": ("history", (88803256,)),
    "the checker asked a store that was dead": ("history", (175225819,)),
    "the checker demanded events that burnt with the only disk that had them": ("history", (3420780927, 420212600)),
    "the checker demanded an event that its broker had lost in a crash and the store had taken back": (
        "history",
        (88806596,),
    ),
}


@pytest.mark.parametrize(
    ("clients", "seed"),
    [pytest.param(clients, seed, id=f"{story}-{seed}") for story, (clients, seeds) in FOUND.items() for seed in seeds],
)
def test_a_seed_that_failed_once_keeps_every_promise(clients: str, seed: int) -> None:
    verdict = judge(seed, clients)
    assert not verdict.violations, (verdict.violations[0], verdict.replay)
