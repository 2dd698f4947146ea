"""Find the files of one bucket whose keys overlap, which must be merged, and those that can be read as they are.

Owns: `groups_of`, `sections_of`, `key_sections`, `sorted_runs`, `are_in_order`. Must not know: how rows are merged, predicates.
Source: format/primary-keys §2.

Invariants: Every file is in exactly one group. Two files of different groups have no key in common, unless the files of higher
levels are free of older versions by other means (deletion vectors, or engine `first-row`).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush, heapreplace
from itertools import pairwise
from typing import NamedTuple

from ...core.metadata.data_file import EMPTY_ROW, DataFile
from ...core.metadata.schemas.merge_rules import MergeRules
from ...core.metadata.sorted_runs.key_order import ComparableKey, comparable_key


class FileGroup(NamedTuple):
    """Files of one bucket that are read together, oldest first: by descending level, then by sequence number.

    If `is_raw`, the rows of the only file are rows of the table, without a merge.
    """

    files: tuple[DataFile, ...]
    is_raw: bool


def groups_of(files: Sequence[DataFile], rules: MergeRules) -> list[FileGroup]:
    """Group the visible files of one (partition, bucket): all those that may hold a wanted key."""
    levels = {f.level for f in files}
    settled = 0 not in levels and all(f.delete_row_count == 0 for f in files)
    if settled and (rules.has_vectors or rules.engine == "first-row" or len(levels) == 1):
        return [FileGroup((f,), True) for f in files]
    return [
        FileGroup(section, len(section) == 1 and section[0].delete_row_count == 0)
        for section in sections_of(files, rules)
    ]


def sections_of(files: Sequence[DataFile], rules: MergeRules) -> list[tuple[DataFile, ...]]:
    """The sections of `key_sections`, each oldest file first."""
    return [tuple(sorted(section, key=_age)) for section in key_sections(files, rules)]


def sorted_runs(files: Sequence[DataFile], rules: MergeRules) -> list[list[int]]:
    """The files of a section as few runs, each a list of indices; the keys of a run ascend from file to file."""
    if any(EMPTY_ROW in (f.min_key, f.max_key) for f in files):
        return [[i] for i in range(len(files))]
    ranged = sorted((_key(f.min_key, rules, f), _key(f.max_key, rules, f), i) for i, f in enumerate(files))
    runs: list[list[int]] = []
    ends: list[tuple[ComparableKey, int]] = []
    for low, high, i in ranged:
        if ends and ends[0][0] < low:
            run = heapreplace(ends, (high, ends[0][1]))[1]
            runs[run].append(i)
        else:
            heappush(ends, (high, len(runs)))
            runs.append([i])
    return runs


def are_in_order(files: Sequence[DataFile], runs: Sequence[Sequence[int]]) -> bool:
    """Do the sequence numbers in the manifest show that of two rows of one key the later file has the newer one?

    The files of a section are oldest first; `runs` are those of `sorted_runs`.
    """
    ranges = sorted(
        (
            min(files[i].min_sequence_number for i in run),
            max(files[i].max_sequence_number for i in run),
            min(run),
            max(run),
        )
        for run in runs
    )
    return all(old[1] < new[0] and old[3] < new[2] for old, new in pairwise(ranges))


def _age(file: DataFile) -> tuple[int, int, int]:
    return -file.level, file.max_sequence_number, -file.min_sequence_number


def key_sections(files: Sequence[DataFile], rules: MergeRules) -> list[list[DataFile]]:
    """The given files by overlapping ranges of keys, ascending. A file without a range overlaps all others."""
    if any(EMPTY_ROW in (f.min_key, f.max_key) for f in files):
        return [list(files)]
    ranged = [(_key(f.min_key, rules, f), _key(f.max_key, rules, f), f) for f in files]
    found: list[list[DataFile]] = []
    end: ComparableKey = ()
    for low, high, file in sorted(ranged, key=lambda known: known[:2]):
        if not found or low > end:
            found.append([])
            end = high
        found[-1].append(file)
        end = max(end, high)
    return found


def _key(row: bytes, rules: MergeRules, file: DataFile) -> ComparableKey:
    return comparable_key(row, rules.keys, f"data file {file.file_name}: key")
