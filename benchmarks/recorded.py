"""How every benchmark hands on its figures: option `--json FILE`, to which each of its tables is added as one line.

Owns: the option and the form of a line, `{"title": …, "rows": [{column: value}]}`. Must not know: what is measured, the page
that is made of the lines (see `page`). A run that is cut off leaves the tables that it had finished.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the figures to this file too, a table a line")


def record(file: Path | None, title: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add one table to the file; without a file, do nothing.

    Args:
        title: what the rows have in common: sizes, latencies.
        rows: the figures by column, units in the columns' names.
    """
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps({"title": title, "rows": list(rows)}) + "\n")


def markdown(rows: Rows) -> str:
    """Rows as a table of Markdown. A row may lack columns that others have.

    >>> print(markdown([{"who": "a", "s": 1.234}, {"who": "b", "files": 12345}]))
    | who | s | files |
    |---|---|---|
    | a | 1.23 |  |
    | b |  | 12,345 |
    """
    heads = list(dict.fromkeys(head for row in rows for head in row))
    lines = [heads, *([_cell(row.get(head)) for head in heads] for row in rows)]
    first, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([first, "|" + "---|" * len(heads), *rest])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(str(value).split()).replace("|", "\\|")
