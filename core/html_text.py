"""How objects look in a notebook.

Owns: HTML for texts and tables. Must not know: what is shown.
Invariant: every value is escaped, because names, comments and options come from files that others wrote (H16).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


class ShownAsText:
    """Objects that a notebook shows as their text, line by line, instead of their constructor."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Text(str, ShownAsText):
    __slots__ = ()


def facts(heading: str, values: Mapping[str, Any]) -> str:
    """Names and values, one pair on a line.

    >>> facts("a < b", {"rows": 3, "tag": None})
    '<p><b>a &lt; b</b></p><table><tr><th>rows</th><td>3</td></tr><tr><th>tag</th><td></td></tr></table>'
    """
    rows = "".join(f"<tr><th>{escape(name)}</th>{_cell(value)}</tr>" for name, value in values.items())
    return f"<p><b>{escape(heading)}</b></p><table>{rows}</table>"


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows below the names of their columns.

    >>> grid(["id"], [["<b>"]])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"
