"""How `--help` looks: verbs in groups, an example for each, and metavars that can be read."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

PANELS = {
    "Start here": ("demo", "traffic"),
    "Brokers and clients": (
        "broker",
        "up",
        "pub",
        "sub",
        "history",
        "stores",
        "store",
        "sessions",
        "drain",
        "join",
        "leave",
        "user",
    ),
    "Plans from the event log": ("analyze", "plan", "replan", "apply", "verify", "watch", "overlay", "homes"),
    "Check-ins and movement": ("checkins", "synth", "movement", "movement-model"),
    "Simulation and papers": ("story", "simulate", "soak", "reproduce"),
}
"""The groups of `latecomer --help`; a verb in none of them stands in front."""

EXAMPLES = {
    "broker": "latecomer broker --port 1883 --store 'sensors/#' --keep 7d",
    "demo": "latecomer demo --keep demo",
    "traffic": "latecomer traffic --network latecomer-data --requests 600",
    "pub": """latecomer pub cars/7 '{"brand": "IBM", "price": 1500}' --qos 1""",
    "sub": """latecomer sub 'cars/#' --where 'brand = "IBM" and price <= 1600' --since -15m""",
    "sessions": "latecomer sessions --network latecomer-data --client sensor-7",
    "sessions move": "latecomer sessions move sensor-7 b2 --network latecomer-data",
    "sessions release": "latecomer sessions release sensor-7 --network latecomer-data",
    "drain": "latecomer drain b2 --rate 20 --network latecomer-data",
    "join": "latecomer join b7 --beside b1 --beside b2 --network latecomer-data",
    "leave": "latecomer leave b7 --network latecomer-data",
    "sessions end": "latecomer sessions end sensor-7 --network latecomer-data",
    "history": "latecomer history 'sensors/+/temp' --since -1h --where 'value > 30' --format csv --out temp.csv",
    "stores": "latecomer stores --network latecomer-data",
    "store": "latecomer store verify latecomer-data/b2",
    "store verify": "latecomer store verify latecomer-data/b2",
    "store status": "latecomer store status latecomer-data/b2",
    "up": "latecomer up --brokers 4 --shape tree --store 'b2=sensors/#'",
    "user": "latecomer user add alice --file users.txt",
    "user add": "latecomer user add alice --file users.txt",
    "user remove": "latecomer user remove alice --file users.txt",
    "user list": "latecomer user list --file users.txt",
    "analyze": "latecomer analyze latecomer-data --depth 2 --out analysis",
    "plan": "latecomer plan --topology tree:15 --demand examples/demand.csv --stores 3 --capacity 2 --out plan.json",
    "replan": "latecomer replan --plan plan.json --demand examples/later.csv",
    "apply": "latecomer apply plan.json --network latecomer-data --yes",
    "verify": "latecomer verify plan.json --log latecomer-data",
    "watch": "latecomer watch latecomer-data --state watched --plan plan.json",
    "overlay": "latecomer overlay plan --demand examples/published.csv --subscriptions examples/subscriptions.csv",
    "overlay plan": "latecomer overlay plan --demand examples/published.csv --subscriptions examples/subscriptions.csv",
    "overlay show": "latecomer overlay show --network latecomer-data",
    "overlay apply": "latecomer overlay apply --network latecomer-data --yes",
    "overlay abort": "latecomer overlay abort --network latecomer-data",
    "homes": "latecomer homes --network latecomer-data",
    "homes advise": "latecomer homes advise --subscriptions examples/subscriptions.csv",
    "story": "latecomer story",
    "checkins": "latecomer checkins made/latest/checkins --friends made/latest/friends --out tables --plot figure.svg",
    "synth": "latecomer synth --users 1000 --months 6 --out made",
    "movement": "latecomer movement examples/stays.csv --client device --time from --place room --test-weeks 1",
    "movement-model": "latecomer movement-model --network latecomer-data",
    "movement-model load": "latecomer movement-model load clients.movement --network latecomer-data",
    "movement-model remove": "latecomer movement-model remove --network latecomer-data",
    "simulate": "latecomer simulate scenarios/flaky_ring.toml --story",
    "reproduce": "latecomer reproduce storing --quick",
    "soak": "latecomer soak --seeds 200",
}
"""By verb; printed below its options."""

MORE = dict.fromkeys(("pub", "sub", "history"), "\n\nContent filters: docs/reference/filters.md")
"""What else stands below the options."""
TYPES = {"int": "N", "int range": "N", "float": "X", "float range": "X", "str": "TEXT", "path": "PATH", "file": "FILE"}
"""What stands for a value whose option does not say it."""
PYDANTIC = (
    ("Value error, ", ""),
    ("Input should ", "must "),
    ("a valid integer, unable to parse string as an integer", "a whole number"),
    ("a valid number, unable to parse string as a number", "a number"),
)


def panel_of(verb: str) -> str | None:
    return next((name for name, verbs in PANELS.items() if verb in verbs), None)


def epilog_of(verb: str) -> str | None:
    example = EXAMPLES.get(verb)
    return None if example is None else f"Example: {example}" + MORE.get(verb, "")


class Command(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        return readable(super().get_params(ctx), ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`FILE...` and `[FILE]...`, where typer has `{FILE...}...` and `[[FILE]]`."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        return ["[OPTIONS]", *map(_usage, arguments)]


class Group(TyperGroup):
    """All verbs, or those of `user` and `store`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return readable(super().get_params(ctx), ctx)


def readable(params: list[Any], ctx: Any) -> list[Any]:
    """A flag takes no value, so none is shown; a number is N, not `<int range>`."""
    for param in params:
        if isinstance(param, TyperArgument):
            param.metavar = param.display_name_raw.upper() if param.metavar is None else _bare(param.metavar)
            param.display_type_rich = _no_type  # type: ignore[method-assign]
        elif getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.metavar is None:
            param.metavar = TYPES.get(param.display_type(ctx).strip("<>"))
    return params


def _bare(metavar: str) -> str:
    """`FILTER...`, `[DIR]` and `[PAPER|CLAIM]...` without what the usage line adds itself."""
    return metavar.removesuffix("...").removeprefix("[").removesuffix("]")


def _no_type(ctx: Any) -> None:
    """`<list[Path]>` tells a user nothing that the name does not."""


def _usage(argument: TyperArgument) -> str:
    shown = argument.display_name_raw if argument.required else f"[{argument.display_name_raw}]"
    return shown if argument.nargs == 1 else f"{shown}..."


def plain_error(message: str) -> str:
    """What typer and pydantic say of a wrong value, in our words: `--qos: must be less than or equal to 2.`"""
    message = re.sub(r"^Invalid value for '([^']+)'(?: / '[^']+')*: ", r"\1: ", message)
    for theirs, ours in PYDANTIC:
        message = message.replace(theirs, ours)
    return message if message.endswith((".", "?", "!")) else f"{message}."
