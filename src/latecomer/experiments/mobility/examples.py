"""M15: Table 1 and the example of an advertisement, with the filters that brokers use."""

from __future__ import annotations

from typing import ClassVar

from latecomer.experiments.claim import Claim
from latecomer.experiments.grid import Table
from latecomer.experiments.mobility.judging import new
from latecomer.experiments.verdict import Verdict, exactly, verdict
from latecomer.model.filters import Filter, filter_covers, filter_matches, filter_overlaps, parse_filter

IBM = parse_filter('shop ? product = "computer" and brand = "IBM" and price <= 1600')
CHEAPER = parse_filter('shop ? product = "computer" and brand = "IBM" and price <= 1500')
ANY_BRAND = parse_filter('shop ? product = "computer" and price <= 1600')
DELL = parse_filter('shop ? product = "computer" and brand = "Dell" and price <= 1500')
ADVERTISED = parse_filter('shop ? brand = "IBM" and price > 500')


def relation(one: Filter, other: Filter) -> str:
    covers, covered = filter_covers(one, other), filter_covers(other, one)
    return {
        (True, True): "both cover",
        (True, False): "the first covers",
        (False, True): "the second covers",
        (False, False): "neither covers",
    }[covers, covered]


class Examples(Claim):
    id: ClassVar[str] = "M15"
    paper: ClassVar[str] = "mobility"
    title: ClassVar[str] = "Table 1 and the advertisement of §2"
    sentence: ClassVar[str] = (
        "Table 1: a computer of IBM up to 1600 covers one up to 1500, is covered by any computer up to 1600, and "
        "neither covers a Dell up to 1500 nor is covered by it. §2: a publisher of products of IBM above 500 "
        "advertises (brand = IBM, price > 500), and subscriptions intersect it if an event can match both."
    )
    given: ClassVar[str] = (
        "The signs of the inequalities and the numbers of the subscriptions in Table 1 are lost in the text; we read "
        "upper limits. As stories in which brokers do it: [covering](../../tests/scenarios/covering.txt), "
        "[advertisements](../../tests/scenarios/advertisements.txt), [in a "
        "hierarchy](../../tests/scenarios/advertisements_in_a_hierarchy.txt)."
    )

    def judge(self, table: Table, quick: bool) -> Verdict:
        published: dict[str, str | int] = {"product": "computer", "brand": "IBM", "price": 550}
        parts = [
            exactly("row 1:", "the first covers", relation(IBM, CHEAPER)),
            exactly("row 2:", "the second covers", relation(IBM, ANY_BRAND)),
            exactly("row 3:", "neither covers", relation(IBM, DELL)),
            exactly("what is published is advertised:", True, filter_matches(ADVERTISED, "shop", published)),
            exactly("a subscription to IBM up to 1600 intersects:", True, filter_overlaps(ADVERTISED, IBM)),
            exactly("one to Dell does not:", False, filter_overlaps(ADVERTISED, DELL)),
        ]
        return verdict(self.id, self.sentence, [new(part) for part in parts])
