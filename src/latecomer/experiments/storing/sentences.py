"""S10, the sentences of *storing* outside its figures: §III-A and §V."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from latecomer.experiments.claim import Axis, Claim
from latecomer.experiments.grid import Table
from latecomer.experiments.live import Sharing
from latecomer.experiments.parts import falling
from latecomer.experiments.storing.placement import Placement
from latecomer.experiments.verdict import Part, Verdict, ranged, verdict

SHARING = Sharing()


class Sentences(Claim):
    id: ClassVar[str] = "S10-storing"
    paper: ClassVar[str] = "storing"
    title: ClassVar[str] = "What is said outside the figures"
    sentence: ClassVar[str] = (
        "With SC rnd becomes shorter too (§V); several equal entries of an Advertisement Table balance the load of the "
        "requests that pass (§III-A)."
    )
    given: ClassVar[str] = (
        "rnd as in Fig. 4. The tree of Figs. 1 and 2, stores for topic a at brokers 2 and 5, a client at broker 4 that "
        "asks about 200 times; on the broker core. Ours: balanced is 40 to 60 % for the store that is asked less."
    )

    def axes(self, quick: bool) -> list[Axis]:
        return [Placement().axes(quick)[1], Axis("two equal stores", {0: SHARING})]

    def judge(self, table: Table, quick: bool) -> Verdict:
        by_capacity = self.axes(quick)[0]
        parts: list[Part] = [
            falling("rnd falls with SC", table, by_capacity, "hops_rnd"),
            ranged("requests spread over equal entries", [table.mean(SHARING, "fewer")], 40, 60),
        ]
        new = [msgspec.structs.replace(part, old=None) for part in parts]
        return verdict(self.id, self.sentence, new, WHY)


WHY = "A broker asks its equal entries in turn."
