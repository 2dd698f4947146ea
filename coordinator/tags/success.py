"""The success file of a tag (option `tag.create-success-file`), which other jobs wait for.

Owns: `mark_created`. Must not know: how a tag is made. Source: format/snapshot §5.
Invariant: the file is written after the tag's.
"""

from __future__ import annotations

import json

from ...backends.store import ObjectNotFound
from ...core.json_text import parse_json
from ..history.timeline import Timeline
from .deletion import success_file

_CREATED, _MODIFIED = "creationTime", "modificationTime"


def mark_created(timeline: Timeline, name: str, now_ms: int) -> None:
    """Write a tag's success file; one that is there keeps its time of creation."""
    key = success_file(timeline, name)
    try:
        created = parse_json(timeline.store.get(key))[_CREATED]
    except (ObjectNotFound, ValueError, KeyError, TypeError):
        created = now_ms
    timeline.store.put(key, json.dumps({_CREATED: created, _MODIFIED: now_ms}, indent=2).encode())
