"""The JSON in files and properties of a table.

Owns: which text is accepted as JSON. Must not know: what a document means.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON document in UTF-8.

    Raises:
        ValueError: it is not JSON, it has a number that is not finite (which Python's module accepts, but the JSON standard
            does not), or it is nested too deeply.

    >>> parse_json(b'{"id": 7}')
    {'id': 7}
    """
    return _bounded(lambda: _DECODER.decode(text if isinstance(text, str) else text.decode()))


def loads(text: bytes | str, **how: Any) -> Any:
    """The same as Python's `json.loads`, for rows and arguments: what is nested too deeply is a ValueError, too."""
    return _bounded(lambda: json.loads(text, **how))


def _bounded(parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
