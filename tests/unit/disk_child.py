"""A process that writes numbered rows and says which of them are safe, until somebody kills it."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from latecomer.core.effects import Drop, Put, Trim
from latecomer.runtime.disk import Disk, Durability

TYPES = {"numbers": int, "last": int, "window": str}
WINDOW = 50


def writes_of(number: int) -> list[Put | Drop | Trim]:
    """A row that stays, one that is overwritten, and a window that moves on."""
    return [
        Put("numbers", "", number, number),
        Put("last", "", "last", number),
        Put("window", "w", number, f"row {number}"),
        Trim("window", "w", number - WINDOW),
    ]


def main(folder: Path, durability: Durability) -> None:
    disk = Disk.open(folder, TYPES, durability)
    number = len(disk.take().get("numbers", {}).get("", {}))

    def say(number: int, error: Exception | None) -> None:
        assert error is None
        os.write(1, b"%d\n" % number)

    while True:
        if disk.waiting < 200:
            disk.submit(writes_of(number), partial(say, number))
            number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Durability(sys.argv[2]))
