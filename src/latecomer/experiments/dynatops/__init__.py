"""*Dynatops*: subscriptions that change, brokers that take other places; the figures of the third paper.

Who is what:

- `workload`, `overlay`, `homes`, `reposition`, `reconfiguring`, `model` (with their kernels): the counted model that
  both workloads share; `model.play` is the way in.
- `protocol`: the paper's reconfiguration protocol, message by message (D14).
- `comparators`: one file for each system that the paper compares with.
- `poisson` is the Poisson workload, `playing` a point of its figures; `rates`, `patterns`, `freedom`, `sizes`,
  `sentences` and `examples` judge D8, D9, D10, D11, D13, D1 and D14.
- `location` is the other workload, with what judges it: D3 to D7, D10 (location), D12.
"""

from __future__ import annotations

from latecomer.experiments.claim import Claim
from latecomer.experiments.dynatops.examples import Exchange, Ring
from latecomer.experiments.dynatops.freedom import Freedom
from latecomer.experiments.dynatops.location.claims import CLAIMS as LOCATION
from latecomer.experiments.dynatops.patterns import Patterns
from latecomer.experiments.dynatops.rates import Rates
from latecomer.experiments.dynatops.sentences import Sentences
from latecomer.experiments.dynatops.sizes import Sizes

POISSON: tuple[Claim, ...] = (Ring(), Rates(), Patterns(), Freedom(), Sizes(), Sentences(), Exchange())


def _number(claim: Claim) -> int:
    """In the order of the ledger."""
    return int(claim.row[1:])


CLAIMS: tuple[Claim, ...] = tuple(sorted((*POISSON, *LOCATION), key=_number))
