"""The options that say which brokers a verb asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA = Path("latecomer-data")

Network = Annotated[Path, typer.Option(metavar="DIR", help="The data folder of 'latecomer up', or of one broker.")]
Config = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="The settings of a broker instead; may be repeated.")
]
AdminUrl = Annotated[list[str] | None, typer.Option(metavar="URL", help="An admin interface instead; may be repeated.")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The admin token.", show_default="admin-token in DIR")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
