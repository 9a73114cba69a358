"""The text of planning §5 as slow and literal Python: what the planner's compiled loops are compared with.

Nothing here is shared with the planner but plain lists: distances from Floyd and Warshall, ways by following
neighbours one step at a time, gains as the difference of two sums. Brokers and topics are numbers from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

Graph = Sequence[tuple[int, int, int]]
"""Undirected: (broker, broker, length)."""
Table = list[list[int]]
FAR = 10**15


def distances(count: int, graph: Graph) -> tuple[Table, Table]:
    """Shortest lengths, and the fewest links of a path of that length (Floyd and Warshall on pairs)."""
    best = [[(FAR, FAR)] * count for _ in range(count)]
    for i in range(count):
        best[i][i] = (0, 0)
    for a, b, length in graph:
        best[a][b] = best[b][a] = min(best[a][b], (length, 1))
    for via in range(count):
        for i in range(count):
            for j in range(count):
                through = (best[i][via][0] + best[via][j][0], best[i][via][1] + best[via][j][1])
                best[i][j] = min(best[i][j], through)
    return [[pair[0] for pair in row] for row in best], [[pair[1] for pair in row] for row in best]


def way(length: Table, links: Table, graph: Graph, start: int, end: int) -> list[int]:
    """From start to end, both included: always the lowest neighbour that is on a shortest path with fewest links."""
    path = [start]
    while path[-1] != end:
        here = path[-1]
        following = []
        for a, b, step in graph:
            for this, other in ((a, b), (b, a)):
                on_shortest = this == here and step + length[other][end] == length[here][end]
                if on_shortest and links[other][end] + 1 == links[here][end]:
                    following.append(other)
        path.append(min(following))
    return path


def ways_to(count: int, graph: Graph, origin: int) -> list[list[int]]:
    """Per broker its way to the origin."""
    length, links = distances(count, graph)
    return [way(length, links, graph, start, origin) for start in range(count)]


# --- §5.1: traffic towards an origin, and the greedy algorithm ---


def traffic_on_paths(ways: list[list[int]], to_origin: list[int], rates: Sequence[int], stores: Sequence[int]) -> int:
    """Every request travels towards the origin until it meets a store, or the origin itself."""
    total = 0
    for asking, path in enumerate(ways):
        for here in path:
            if here in stores or here == path[-1]:
                total += rates[asking] * (to_origin[asking] - to_origin[here])
                break
    return total


def traffic_to_nearest(length: Table, origin: int, rates: Sequence[int], stores: Sequence[int]) -> int:
    """Every request goes to the nearest of the stores and the origin."""
    return sum(rate * min(length[asking][at] for at in [origin, *stores]) for asking, rate in enumerate(rates))


def greedy(
    count: int, origin: int, k: int, allowed: Sequence[bool], traffic: Callable[[Sequence[int]], int]
) -> list[int]:
    """One store at a time: who, in conjunction with those already picked, takes most traffic off the network."""
    picked: list[int] = []
    for _ in range(k):
        before = traffic(picked)
        gains = {
            i: before - traffic([*picked, i]) for i in range(count) if allowed[i] and i != origin and i not in picked
        }
        highest = max(gains.values(), default=0)
        if highest <= 0:
            break
        picked.append(min(i for i, gain in gains.items() if gain == highest))
    return picked


def first_gain(ways: list[list[int]], to_origin: list[int], rates: Sequence[int], i: int) -> int:
    """The formula of §5.1 as it is printed: d[i, j] · Σ r[l] over all l with i on the path from l to j."""
    return to_origin[i] * sum(rate for asking, rate in enumerate(rates) if i in ways[asking])


# --- §5.2 and §5.3: votes, stores, assignment ---


def votes(
    count: int,
    graph: Graph,
    rates: Sequence[Sequence[int]],
    replicas: Sequence[int],
    *,
    entry: Sequence[int] | None = None,
    allowed: Sequence[bool] | None = None,
    access: str = "path",
) -> Table:
    """s[t] for all topics: the picks of one greedy run per origin, added up."""
    length, _ = distances(count, graph)
    weight = [1] * count if entry is None else entry
    open_to = [True] * count if allowed is None else allowed
    found = [[0] * count for _ in rates]
    for origin in range(count):
        ways = ways_to(count, graph, origin)
        for topic, row in enumerate(rates):
            if access == "nearest":
                traffic = partial(traffic_to_nearest, length, origin, row)
            else:
                traffic = partial(traffic_on_paths, ways, length[origin], row)
            for pick in greedy(count, origin, replicas[topic], open_to, traffic):
                found[topic][pick] += weight[origin]
    return found


def stores(rates: Sequence[Sequence[int]], voted: Table, m: int) -> list[int]:
    """S: the M that have most in the weighted sum, the lowest number of equals."""
    count = len(voted[0])
    summed = [sum(sum(row) * vote[i] for row, vote in zip(rates, voted, strict=True)) for i in range(count)]
    found: list[int] = []
    while len(found) < m:
        left = [i for i in range(count) if i not in found]
        found.append(max(left, key=lambda i: (summed[i], -i)))
    return found


def falling(rates: Sequence[Sequence[int]]) -> list[int]:
    return sorted(range(len(rates)), key=lambda topic: (-sum(rates[topic]), topic))


def assign(
    rates: Sequence[Sequence[int]],
    voted: Table,
    chosen: Sequence[int],
    replicas: Sequence[int],
    capacity: int,
    per_round: Sequence[int],
) -> list[list[int]] | None:
    """Step 4 in rounds of at most `per_round[t]` stores for topic t; None when somebody is stuck."""
    kept: list[list[int]] = [[] for _ in rates]
    while any(len(kept[topic]) < replicas[topic] for topic in range(len(rates))):
        progress = False
        for topic in falling(rates):
            for _ in range(min(per_round[topic], replicas[topic] - len(kept[topic]))):
                free = [s for s in chosen if s not in kept[topic] and sum(s in other for other in kept) < capacity]
                own = [s for s in free if voted[topic][s] > 0]
                if own:
                    kept[topic].append(max(own, key=lambda s: (voted[topic][s], -s)))
                elif free:
                    kept[topic].append(free[0])
                else:
                    return None
                progress = True
        if not progress:
            return None
    return kept


def relative_weights(rates: Sequence[Sequence[int]]) -> list[int]:
    """ξ of §5.5."""
    totals = [sum(row) for row in rates]
    lightest = min([total for total in totals if total], default=1)
    return [max(1, (total + lightest - 1) // lightest) for total in totals]


# --- §5.4: cost ---


def cost(length: Table, rates: Sequence[Sequence[int]], kept: Sequence[Sequence[int]]) -> int:
    """C = Σ_t Σ_l r[t, l] · d(l, nearest replica of t)."""
    total = 0
    for topic, row in enumerate(rates):
        for asking, rate in enumerate(row):
            if rate:
                total += rate * min(length[asking][place] for place in kept[topic])
    return total


def served_by(length: Table, places: Sequence[int], asking: int) -> int:
    return min(places, key=lambda place: (length[asking][place], place))
