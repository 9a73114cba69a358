"""The options of `latecomer plan`, some of which `replan` has as well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

NETWORK_HELP = (
    "zoo.jsonl:Abilene, net.graphml, network.toml, or a rule as in a scenario: tree:15,3, ring:8, random:30,10,seed=4."
)
DEMAND_HELP = "Who asks for what and how often: JSON, or CSV topic,broker,rate."

NetworkWords = Annotated[str | None, typer.Option(metavar="NETWORK", help=NETWORK_HELP)]
DemandFile = Annotated[Path, typer.Option(metavar="FILE", help=DEMAND_HELP)]
SomeDemandFile = Annotated[Path | None, typer.Option(metavar="FILE", help=DEMAND_HELP)]
LiveNetwork = Annotated[
    str | None,
    typer.Option(metavar="URL|FILE", help="A network that runs: a broker's admin address, or the folder of 'up'."),
]
TokenFile = Annotated[Path | None, typer.Option(metavar="FILE", help="File with the admin token.")]
FromLog = Annotated[Path | None, typer.Option(metavar="LOGDIR", help="Measure the demand in this event log, on Spark.")]
Misplaced = Annotated[
    float, typer.Option(metavar="SHARE", help="Largest share of the demand that may be measured wrongly.")
]
Stores = Annotated[int | None, typer.Option(metavar="M", help="How many stores; else as few as hold everything.")]
Capacity = Annotated[
    str | None, typer.Option(metavar="L", help="Of each store: topics, as in 5, or bytes, as in 20GB.")
]
MinReplicas = Annotated[
    int | None, typer.Option(metavar="K", help="The fewest replicas of a topic; by weight, the lightest has so many.")
]
Replicas = Annotated[
    Literal["free", "weight"] | None,
    typer.Option(
        help="Replicas of each topic: 'free' lets the search choose, 'weight' follows the papers' rule. "
        "Free is the default with --stores and without --min-replicas."
    ),
]
AlgorithmName = Annotated[
    str,
    typer.Option(
        help="best; refine (quicker on large networks, on small ones often far from the best); "
        "wrr, seq, grd_opt, rnd (the papers')."
    ),
]
LimitsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML or JSON: sizes, rates, domains, pins; see docs/reference/plan-file.md."),
]
SurviveLoss = Annotated[
    bool, typer.Option("--survive-loss", help="The plan that is best after the loss of any one store.")
]
Out = Annotated[Path | None, typer.Option(metavar="PLAN.json", help="Write the plan there.")]
Json = Annotated[bool, typer.Option("--json", help="Print the plan as JSON, and nothing else.")]
Plot = Annotated[Path | None, typer.Option(metavar="PICTURE", help="Draw the network with it: .svg, .png or .pdf.")]
