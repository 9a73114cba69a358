"""What brokers that route by rendezvous tell one another, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from latecomer.messages.ring import Flush, Flushed, FlushWanted, Round, Wants, WantsChange
from latecomer.model.filters import Filter

VERSION_SHOWN = 8


def _listed(filters: Iterable[Filter]) -> str:
    return ", ".join(map(str, filters)) or "nothing"


def _change(m: WantsChange) -> str:
    told = [f"also {_listed(m.added)}"] if m.added else []
    told += [f"no longer {_listed(m.dropped)}"] if m.dropped else []
    return f"wants-change of {m.broker}: {' and '.join(told) or 'the same'} ({m.number})"


def _flush(m: Flush) -> str:
    return f"flush {m.number} from {m.from_broker} to {m.to} in the trees of {', '.join(m.roots)}"


RING: dict[type, Callable[[Any], str]] = {
    Round: lambda m: f"round {m.number} of tree {m.version[:VERSION_SHOWN]}",
    Wants: lambda m: f"wants of {m.broker}: {_listed(m.filters)} ({m.number})",
    WantsChange: _change,
    FlushWanted: lambda m: (
        f"flush-wanted {m.number} of {m.to} for {m.from_broker}, in the trees of {', '.join(m.roots)}"
    ),
    Flush: _flush,
    Flushed: lambda m: f"flushed {m.number} of {m.to} at {m.from_broker}",
}
ROUTINE = (Round, FlushWanted, Flush, Flushed)
"""Messages that tell no story."""
