"""JSON as files and properties of a table hold it.

Owns: what counts as JSON. Must not know: what a document means.
"""

from __future__ import annotations

import json
import math
from typing import Any


def parse_json(text: bytes | str) -> Any:
    """The value of a document in UTF-8.

    Raises:
        ValueError: it is none, it says a number that is not finite (which the JSON standard does not know, though Python's
            module does), or it is nested deeper than any real one.

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
        raise ValueError(f"{text} is no number of JSON")
    return number


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
