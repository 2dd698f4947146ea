"""The JSON in files and properties of a table.

Owns: which text is accepted as JSON. Must not know: what a document means.
"""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON document in UTF-8.

    Raises:
        ValueError: it is not JSON, it has a number that is not finite (which Python's module accepts, but the JSON standard
            does not), or it is nested too deeply.

    >>> parse_json(b'{"id": 7}')
    {'id': 7}
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
