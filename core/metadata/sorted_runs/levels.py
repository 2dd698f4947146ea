"""The files of one bucket of a table with a primary key, as sorted runs.

Owns: `SortedRun`, `runs_of`, `level_count`, `overlapping`. Must not know: which runs are compacted, rows. Source:
format/primary-keys §2, §7. Invariants: Each file of level 0 is a run of its own, the newest first. Each higher level is
one run, whose files are in the order of their keys and have no key in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ... import options as opt
from ...options import TableOptions
from ...rows.types import Field
from ..data_file import EMPTY_ROW, DataFile
from .key_order import ComparableKey, comparable_key

FEWEST_LEVELS = 2


@dataclass(frozen=True)
class SortedRun:
    level: int
    files: tuple[DataFile, ...]

    @cached_property
    def size(self) -> int:
        return sum(file.file_size for file in self.files)


def runs_of(files: Iterable[DataFile], keys: Sequence[Field] = ()) -> tuple[SortedRun, ...]:
    """The runs from the newest file of level 0 to the highest level. Without `keys`, the files of a level keep their order."""
    by_level: dict[int, list[DataFile]] = {}
    for file in files:
        by_level.setdefault(file.level, []).append(file)
    newest_first = sorted(by_level.pop(0, []), key=_newest_first)
    above = (SortedRun(level, _by_key(by_level[level], keys)) for level in sorted(by_level))
    return (*(SortedRun(0, (file,)) for file in newest_first), *above)


def run_count(files: Iterable[DataFile]) -> int:
    levels = [file.level for file in files]
    return levels.count(0) + len({level for level in levels if level})


def level_count(options: TableOptions, files: Iterable[DataFile]) -> int:
    """The number of levels of a bucket: option `num-levels`, but never fewer than its files have."""
    configured = options.get(opt.NUM_LEVELS)
    if configured is None:
        configured = options.get(opt.RUNS_TO_COMPACT) + 1
    return max(configured, FEWEST_LEVELS, max((file.level for file in files), default=-1) + 1)


def overlapping(files: Iterable[DataFile], keys: Sequence[Field]) -> list[tuple[DataFile, DataFile]]:
    """Pairs of files of one level above 0 with keys in common, which no two files of a run may have. Raises TableCorrupt."""
    found = []
    for run in runs_of(files, keys):
        if run.level:
            ends = [_key(file.max_key, keys, file) for file in run.files]
            widest = 0
            for i in range(1, len(run.files)):
                if _key(run.files[i].min_key, keys, run.files[i]) <= ends[widest]:
                    found.append((run.files[widest], run.files[i]))
                widest = max(widest, i, key=ends.__getitem__)
    return found


def _newest_first(file: DataFile) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name


def _by_key(files: Sequence[DataFile], keys: Sequence[Field]) -> tuple[DataFile, ...]:
    return tuple(sorted(files, key=lambda file: _key(file.min_key, keys, file)) if keys else files)


def _key(row: bytes, keys: Sequence[Field], file: DataFile) -> ComparableKey:
    return () if row == EMPTY_ROW else comparable_key(row, keys, f"data file {file.file_name}: key")
