"""How a command prints its results.

Owns: JSON lines, tables (by Rich on a terminal, plain text elsewhere), notes on stderr, and errors. Must not know: what
is printed. Invariants: stdout carries the result and nothing else. With `--json`, stdout is JSON, one value per line.
Without Rich, the same tables are printed as plain text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ...core.errors import LakelatchError, OutcomeUnknown


class Output:
    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json

    @property
    def on_terminal(self) -> bool:
        return sys.stdout.isatty()

    def record(self, value: Mapping[str, Any]) -> None:
        print(json.dumps(value, ensure_ascii=False, default=str))

    def line(self, text: str) -> None:
        print(text)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        narrow: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None,
    ) -> None:
        """On a terminal that is too narrow, long cells are folded. If that is not enough, the same facts are printed in
        their short form (`narrow`), or else one below the other; none is left out.
        """
        if self.on_terminal and self._rich_table(columns, rows, narrow):
            return
        plain = PlainTable(columns, rows)
        for text in (plain.header, *plain.lines(rows)):
            print(text)

    def facts(self, facts: Mapping[str, Any]) -> None:
        width = max((len(name) for name in facts), default=0)
        for name, value in facts.items():
            print(f"{name:<{width}}  {cell(value)}".rstrip())

    def _rich_table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        narrow: tuple[Sequence[str], Sequence[Sequence[Any]]] | None,
    ) -> bool:
        try:
            from rich import box
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            return False
        console = Console()
        layout = _ROOMY
        if not layout.fits(columns, rows, console.width):
            columns, rows = narrow or (columns, rows)
            layout = _TIGHT
            if not layout.fits(columns, rows, console.width):
                for row in rows:
                    self.facts(dict(zip(columns, row, strict=True)))
                    print()
                return True
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=layout.padding, pad_edge=layout is _ROOMY)
        for i, name in enumerate(columns):
            side: Any = "right" if _is_numeric(rows, i) else "left"
            whole, least = layout.widths(name, rows, i)
            table.add_column(Text(name, no_wrap=True), justify=side, overflow="fold", no_wrap=whole, min_width=least)
        for row in rows:
            table.add_row(*(Text(cell(value), style="dim" if value is None else "") for value in row))
        console.print(table)
        return True


@dataclass(frozen=True)
class _Layout:
    """How a terminal's table uses its width.

    Attributes:
        short: cells up to this many characters are never folded, nor are numbers and headers.
        padding: blank cells around each cell (Rich's order: above, right, below, left).
        between: the width of a column's padding and border.
    """

    short: int
    padding: tuple[int, int, int, int]
    between: int

    def widths(self, name: str, rows: Sequence[Sequence[Any]], column: int) -> tuple[bool, int]:
        """Whether the cells of a column stay whole, and the least width of the column."""
        longest = max((len(cell(row[column])) for row in rows), default=0)
        whole = longest <= self.short or _is_numeric(rows, column)
        return whole, max(len(name), longest if whole else _FOLDED)

    def fits(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> bool:
        least = sum(self.widths(name, rows, i)[1] for i, name in enumerate(columns))
        return least + self.between * len(columns) + 1 <= width


_FOLDED = 12
"""Cells that are folded get at least this width."""
_ROOMY = _Layout(short=26, padding=(0, 1, 0, 1), between=3)
_TIGHT = _Layout(short=_FOLDED, padding=(0, 1, 0, 0), between=2)


class PlainTable:
    """Plain text rows with aligned columns. The first rows decide the widths; longer values in later rows may stick out.

    >>> table = PlainTable(["id", "name"], [[1, "a"], [10, None]])
    >>> table.header, table.lines([[1, "a"], [10, None]])
    ('id  name', [' 1  a', '10  null'])
    """

    def __init__(self, columns: Sequence[str], first_rows: Sequence[Sequence[Any]]) -> None:
        texts = [[cell(value) for value in row] for row in first_rows]
        self._widths = [max(len(name), *(len(row[i]) for row in texts), 0) for i, name in enumerate(columns)]
        self._right = [_is_numeric(first_rows, i) for i in range(len(columns))]
        self.header = self._line(columns)

    def lines(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        return [self._line([cell(value) for value in row]) for row in rows]

    def _line(self, texts: Sequence[str]) -> str:
        aligned = zip(texts, self._widths, self._right, strict=True)
        return "  ".join(t.rjust(width) if right else t.ljust(width) for t, width, right in aligned).rstrip()


def _is_numeric(rows: Sequence[Sequence[Any]], column: int) -> bool:
    values = [row[column] for row in rows if row[column] is not None]
    return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def cell(value: Any) -> str:
    """A value in a table, on one line.

    >>> cell(None), cell(True), cell({"a": 1}), cell("two\\nlines")
    ('null', 'true', '{"a": 1}', 'two\\\\nlines')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value).replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\x1b", "\\x1b")


def moment(time_ms: int | None) -> str:
    """Milliseconds since 1970 as ISO text in UTC.

    >>> moment(0)
    '1970-01-01T00:00:00.000Z'
    """
    if time_ms is None:
        return ""
    try:
        told = datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return told.replace("+00:00", "Z")


def print_error(error: LakelatchError, redact: Any, as_json: bool) -> None:
    """The message and the next step, each on one line; with `--json`, one object. `redact` removes secrets (H19)."""
    message, next_step = redact(" ".join(error.message.split())), redact(error.next_step)
    if as_json:
        told: dict[str, Any] = {"code": error.code, "message": message, "next_step": next_step}
        if isinstance(error, OutcomeUnknown):
            told["identity"] = error.identity
        print(json.dumps(told, ensure_ascii=False, default=str), file=sys.stderr)
        return
    print(f"error: {message}", file=sys.stderr)
    if next_step:
        print(f"next: {next_step}", file=sys.stderr)
