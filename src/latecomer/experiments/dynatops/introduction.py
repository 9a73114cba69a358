"""What the page of this paper says before its claims."""

from __future__ import annotations

from latecomer.experiments.dynatops.judging import READ

INTRODUCTION = (
    "**How it was counted.** Both workloads of the paper are played on one counted model (`experiments/dynatops`): "
    "users with subscriptions that change in the order of time, a matrix of how many users of each broker want each "
    "topic, and a tree per topic that follows from the ring and from who stands where. When an entry of the matrix "
    "leaves 0 or comes back to it, a broker joins a tree or leaves it, and the messages of that are counted. "
    "Notifications are counted with the subscriptions as they are at the end of a step, brokers are re-positioned "
    "every T_free with the planner's DYNATOPS-Greedy, and what a reconfiguration costs is told by eq. 11 and by "
    "counting the messages of the paper's protocol. Two walks are counted in the same run. *The paper's*: a "
    "publication goes to the rendezvous point by a key-based route and then down the tree; a join is a request to the "
    "rendezvous point and a tree message back. *Our brokers'*: the reverse of the way from the rendezvous point, down "
    "where it is wanted, and a join stops at the first broker that has the filter. Figures are judged on the paper's.\n"
    "\n"
    f"**How its sentences are read.** {READ} *Delay* is the mean from publishers to subscribers, hops from the "
    "publisher's broker on (§IV-B); any user may be a publisher. *Overhead* is all messages for a publication: the way "
    "to the rendezvous point, messages to brokers that subscribe, and messages to relays. Delay from the rendezvous "
    "point alone (§III-A) is shown beside.\n"
    "\n"
    "**Seeds.** 20 for every point that is judged in the Poisson model, 100 for configurations (D11), 5 in its sweeps, "
    "which take 50 of the 100 hours. All systems play the same users, changes and publications.\n"
    "\n"
    "**What to take from it.** Broker selection does most of what the paper reports, if users' interests really fall "
    "into modes; where they do not, it costs more than it saves. Re-positioning saves relays, but little of the delay, "
    "of which half is the climb to the rendezvous point. The paper's eq. 11 makes a reconfiguration dear next to what "
    "TCO is charged, so its −90 % does not follow from its own formulas. Facts about check-ins (D2) are on [a page of "
    "their own](dynatops-checkins.md).\n"
    "\n"
    "**A comparator of your own** is a file in `experiments/dynatops/comparators`: another overlay, another policy for "
    "homes, or a watcher that keeps its own overlay, as TCO's does."
)
