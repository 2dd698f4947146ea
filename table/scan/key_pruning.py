"""Prune the files of a table with a primary key, without bringing back an old version of a row.

Owns: `visible`, `is_visible`, `left_by_bounds`, `left_by_indexes`. Must not know: how rows are merged, splits.
Source: format/primary-keys §2, §5.

Invariants: A file is ruled out alone only by a condition on key columns, which all versions of a row share, or if its rows are
read as they are. Other conditions rule out whole sections, and only where a merged row is one of the stored rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.schemas.merge_rules import POSTPONED, MergeRules
from ..merging.sections import groups_of
from .file_pruning import FilePruner
from .index_pruning import IndexPruner


def is_visible(entry: ManifestEntry, rules: MergeRules) -> bool:
    """Whether batch reads see a file: none of the postponed bucket, and none of level 0 where the options hide it."""
    return entry.bucket != POSTPONED and not (rules.hides_level_0 and entry.file.level == 0)


def visible(entries: Sequence[ManifestEntry], rules: MergeRules) -> list[ManifestEntry]:
    return [e for e in entries if is_visible(e, rules)]


def left_by_bounds(
    entries: Sequence[ManifestEntry], rules: MergeRules, of_keys: FilePruner | None, pruner: FilePruner
) -> list[ManifestEntry]:
    """The files that column statistics do not rule out. `of_keys` tests the part of the predicate on key columns, if any."""
    if of_keys is not None:
        entries = [e for e in entries if of_keys.may_match(e)]
    return _left(entries, rules, pruner.may_match)


def left_by_indexes(entries: list[ManifestEntry], rules: MergeRules, pruner: IndexPruner | None) -> list[ManifestEntry]:
    """The files that the indexes in the manifest do not rule out. They are asked only about files that are not merged."""
    if pruner is None or all(entry.file.embedded_file_index is None for entry in entries):
        return entries
    return [
        e for group, is_raw in _groups(entries, rules) for e in group if not is_raw or pruner.may_match(group[0].file)
    ]


def _left(
    entries: Sequence[ManifestEntry], rules: MergeRules, matches: Callable[[ManifestEntry], bool]
) -> list[ManifestEntry]:
    return [
        e
        for group, is_raw in _groups(entries, rules)
        if (not is_raw and not rules.keeps_whole_rows) or any(map(matches, group))
        for e in group
    ]


def _groups(entries: Sequence[ManifestEntry], rules: MergeRules) -> Iterator[tuple[list[ManifestEntry], bool]]:
    """The entries of each group of files (see `groups_of`), and whether the group is read without a merge."""
    buckets: dict[tuple[bytes, int], dict[str, ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), {})[entry.file.file_name] = entry
    for by_name in buckets.values():
        for group in groups_of([e.file for e in by_name.values()], rules):
            yield [by_name[f.file_name] for f in group.files], group.is_raw
