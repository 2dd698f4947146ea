"""Texts as SQL writes them, and the patterns of LIKE in SHOW.

Owns: `name_text`, `fitting`. Must not know: tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from ..catalogs.texts import quoted_name


def name_text(*parts: str) -> str:
    """A name, with quotes where they are needed.

    >>> name_text("lake", "air", "my table")
    'lake.air.`my table`'
    """
    return ".".join(part if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", part) else quoted_name(part) for part in parts)


def fitting(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names that a pattern of SHOW chooses, as Spark reads it: `*` for any text, `|` between alternatives, in any case.

    >>> fitting(["flights", "Fleet", "ships"], "fl*"), fitting(["a", "b", "c"], "a|c")
    (['Fleet', 'flights'], ['a', 'c'])
    """
    if pattern is None:
        return sorted(names)
    known, found = list(names), set[str]()
    for part in pattern.strip().split("|"):
        with suppress(re.error):
            wanted = re.compile(part.replace("*", ".*"), re.IGNORECASE)
            found |= {name for name in known if wanted.fullmatch(name)}
    return sorted(found)
