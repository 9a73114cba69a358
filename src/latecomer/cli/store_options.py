"""What `latecomer broker` and `latecomer up` both ask about stores."""

from __future__ import annotations

from typing import Annotated

import typer

Keep = Annotated[str | None, typer.Option(metavar="TIME", help="How long a store keeps an event, as '7d'.")]
Capacity = Annotated[str | None, typer.Option(metavar="SIZE", help="How large a store becomes, as '20GB'.")]


def store_amounts(keep: str | None, capacity: str | None) -> dict[str, str]:
    """What was said of a store's size, by the key of its section."""
    return {key: said for key, said in (("keep", keep), ("capacity", capacity)) if said is not None}
