"""Rows of small CSV files, checked: an error names the file and the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from latecomer.model.errors import SettingsError
from latecomer.model.topology import quoted


def read_rows(text: str, source: str, headings: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, list[str]]]:
    """The rows below one of these headings, each with its line; no cell is empty."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    heading: tuple[str, ...] = ()
    try:
        for cells in reader:
            if not cells:
                continue
            values = [cell.strip() for cell in cells]
            if not heading:
                heading = tuple(value.lower() for value in values)
                if heading not in headings:
                    choices = " or ".join(",".join(one) for one in headings)
                    raise SettingsError("", f"the first line must be {choices}, not {quoted(','.join(cells))}")
            elif len(values) != len(heading):
                raise SettingsError("", f"{len(values)} columns instead of {','.join(heading)}")
            elif not all(values):
                raise SettingsError("", f"the {heading[values.index('')]} is empty")
            else:
                yield reader.line_num, values
    except csv.Error as error:
        raise SettingsError("", f"not a CSV file: {error}", source=source) from None
    except SettingsError as error:
        if error.source is not None:
            raise
        raise error.at(error.key, source=source, line=reader.line_num) from None
