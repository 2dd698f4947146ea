"""The mark of a table that is being dropped.

Owns: `marked_dropped`, `is_dropped`. Must not know: stores, what else is deleted. Source: decision 58.
Invariant: a marked schema file has other bytes than the table's own, so every open handle takes it for another table (H21), and
it still is a schema that every engine can read.
"""

from __future__ import annotations

import json
from typing import Any

from ...json_text import parse_json

DROPPED_OPTION = "lakelatch.dropped"
"""Option of schema 0: when a drop began, in milliseconds since 1970."""


def marked_dropped(data: bytes, time_ms: int) -> bytes:
    """The bytes of schema 0 with the mark. A file that is no JSON object is replaced by one that holds the mark alone.

    >>> is_dropped(marked_dropped(b'{"id": 0, "options": {"bucket": "2"}}', 7))
    True
    """
    try:
        raw: Any = parse_json(data)
        options = {**raw["options"], DROPPED_OPTION: str(time_ms)}
    except (ValueError, KeyError, TypeError):
        raw, options = {}, {DROPPED_OPTION: str(time_ms)}
    return json.dumps({**raw, "options": options}, indent=2, ensure_ascii=False).encode()


def is_dropped(data: bytes) -> bool:
    """Whether these are the bytes of a schema whose table is being dropped.

    >>> is_dropped(b'{"comment": "not lakelatch.dropped", "options": {}}')
    False
    """
    if DROPPED_OPTION.encode() not in data:
        return False
    try:
        return DROPPED_OPTION in parse_json(data)["options"]
    except (ValueError, KeyError, TypeError):
        return False
