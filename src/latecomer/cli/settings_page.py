"""`make docs`: the pages that are made from the code. `python -m latecomer.cli.settings_page DOCS` writes them."""

from __future__ import annotations

import sys
from pathlib import Path

from latecomer.runtime.settings_text import describe

PAGE = Path("reference", "settings.md")


def write_pages(docs: Path) -> None:
    """Write every page that is made from the code below this directory."""
    (docs / PAGE).write_text(describe(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
