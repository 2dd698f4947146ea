"""The JSON in files and properties of a table.

Owns: which text is accepted as JSON. Must not know: what a document means.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

_MOST_DEEP = 900
_TOO_DEEP = object()


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON document in UTF-8. Raises ValueError for what is not JSON, is nested too deeply, or has a
    number that is not finite (which Python's module would accept).

    >>> parse_json(b'{"id": 7}')
    {'id': 7}
    """
    return _bounded(text, lambda: _DECODER.decode(text if isinstance(text, str) else text.decode()))


def loads(text: bytes | str, **how: Any) -> Any:
    """The same as Python's `json.loads`, for rows and arguments: what is nested too deeply is a ValueError, too."""
    return _bounded(text, lambda: json.loads(text, **how))


def _bounded(text: bytes | str, parse: Callable[[], Any]) -> Any:
    """What is nested too deeply is refused whether or not this Python's parser can read it: what works with it could not."""
    try:
        found = parse()
    except RecursionError:
        found = _TOO_DEEP
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if found is _TOO_DEEP or (sum(map(text.count, opening)) > _MOST_DEEP and _is_deep(found)):  # type: ignore[arg-type]
        raise ValueError("it is nested too deeply")
    return found


def _is_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level and depth <= _MOST_DEEP:
        level = [
            part
            for one in level
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, (dict, list))
        ]
        depth += 1
    return bool(level)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
