"""spopt's p-median for a problem on standard input, as its documentation writes it; JSON in and out.

Run by the Python that has spopt, so nothing of this project is imported.
"""

import json
import sys
import time
from importlib import import_module

import numpy as np


def main() -> None:
    """A gap of 0 is asked for, as the optimum is wanted, and one thread, as `exact` has one."""
    locate, pulp = import_module("spopt.locate"), import_module("pulp")
    asked = json.load(sys.stdin)
    distance, demand = np.array(asked["distance"], float), np.array(asked["demand"], float)
    began = time.perf_counter()
    model = locate.PMedian.from_cost_matrix(distance, demand, p_facilities=asked["p"])
    written = time.perf_counter()
    model = model.solve(pulp.HiGHS(msg=False, threads=1, gapRel=0.0, timeLimit=asked["seconds"]))
    solved = time.perf_counter()
    answer = {
        "status": pulp.LpStatus[model.problem.status],
        "write": written - began,
        "solve": solved - written,
        "places": [place for place, served in enumerate(model.fac2cli) if served],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
