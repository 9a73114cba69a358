"""What the page of this paper says before its claims."""

from __future__ import annotations

from latecomer.experiments.mobility.judging import READ

INTRODUCTION = (
    "**How it was counted.** The figures come from a counted model of the paper's network: a tree of degree 4 with "
    "85 brokers, 64 of them leaves in a city of 32 km. Chance decides about publications, interests and movements; "
    "all algorithms are then played on the same of these. Every publication is routed by the paper's hierarchy (up "
    "to the root always, down where it is wanted, each link once), and every move is accounted for, message by "
    "message and hop by hop, by one walk that asks the algorithm three questions (`experiments/mobility/move.py`): "
    "where does the session go when the client leaves, what happens when it comes, and is the new broker's log asked "
    "first. Sending stored events takes time: links have a speed that the transfers on them share. Publications are "
    "not delayed by transfers.\n"
    "\n"
    f"**How its sentences are read.** {READ} *Overhead* is unicast next to multicast, both in hops between brokers. "
    "Unicast is everything that a move causes: requests, subscriptions sent, subscribing and unsubscribing, stored "
    "events, and what home-brokers send on. Multicast is publications. Covering and advertisements are off but for "
    "M8.\n"
    "\n"
    "**What to take from it.** In every scenario the curves stand in the paper's order. Its averages come out as "
    "printed if the hop from the broker to the client is counted as well, which the paper does not say; each section "
    "shows both, and the verdict is that of hops between brokers. Its peaks do not, for a reason that lies in its "
    "own Table 3 (M2, M12).\n"
    "\n"
    "**Algorithms of your own** are a file each in `experiments/mobility/algorithms`, and a line in its registry. "
    "How prefetching does on real movements is told [elsewhere](mobility-movement.md)."
)
