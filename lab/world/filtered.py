"""Reads under a filter: does the shipped choice of files bring back old rows of a table with a primary key?

Owns: `resurrected`. Must not know: schedules, faults, who wrote what. Source: format/primary-keys §5.
Invariants: The shipped code chooses the files, by statistics that say exactly which commits' rows a file holds. The rows of these
files are merged by the lab's own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.schema import parse_schema
from ...core.metadata.schemas.merge_rules import MergeRules, merge_rules
from ...table.scan import key_pruning
from .keyed import Marks, rows_of, winners


@dataclass(frozen=True)
class _WrittenBy:
    """The filter `writer = commit`, where a file's bounds are exact."""

    commit: str

    def may_match(self, entry: ManifestEntry) -> bool:
        return any(row.commit == self.commit for row in rows_of(entry.file.file_name))


@lru_cache(maxsize=100)
def _rules(schema_json: bytes) -> MergeRules:
    rules = merge_rules(parse_schema(schema_json, "schema"))
    assert rules is not None
    return rules


def resurrected(alive: Sequence[ManifestEntry], marks: Marks, schema_json: bytes, *, vectors: bool) -> tuple[str, ...]:
    """The rows that a read with a filter returns, although a read without it has newer ones of their keys, or deletes."""
    rules = _rules(schema_json)
    seen = key_pruning.visible(alive, rules)
    newest = {row.text for row in winners(seen, marks, vectors=vectors)[0]}
    found = []
    for commit in sorted({row.commit for entry in seen for row in rows_of(entry.file.file_name)}):
        pruner: Any = _WrittenBy(commit)
        left = key_pruning.left_by_bounds(seen, rules, None, pruner)
        rows = winners(left, marks, vectors=vectors)[0]
        found += [r.text for r in rows if r.commit == commit and not r.deletes and r.text not in newest]
    return tuple(found)
