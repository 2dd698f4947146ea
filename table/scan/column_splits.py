"""Splits of plain files, planned on the columns of manifests: no file becomes an object before somebody looks at a split.

Owns: `ColumnSplits`, and `column_splits`, which packs files by (partition, bucket) as `pack` does; live files as columns. Must
not know: which files are wanted, why a file would not be plain (see `SplitPlanner`).

Invariant: The splits equal those that `SplitPlanner` makes of the same entries as objects, and are in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.avro.varints import PADDING, WORD, Bytes
from ...core.metadata.data_file import DELETE, DataFile, ManifestEntry
from ...core.metadata.file_columns import FileColumns
from ...core.metadata.folding import live
from ...core.typed import Array
from .split import Split

if TYPE_CHECKING:
    from ...core.metadata.manifest_columns import EntryColumns

    Part = tuple[EntryColumns, Array]
    """Columns of manifests, and the indices of the chosen entries."""

_LEADING = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)
"""For 0 to 8, a word whose first bytes, so many, are all ones."""
_ODD = np.uint64(0x9E3779B97F4A7C15)

SplitOf = Callable[[bytes, int, int, Sequence[DataFile]], Split]
"""Makes a split of files, given their partition, bucket and number of buckets."""


class ColumnSplits(Sequence[Split]):
    """Splits that become objects, all at once, when the first of them is looked at. Their number and totals are known before."""

    def __init__(self, files: Sequence[FileColumns], order: Array, ends: Array, split_of: SplitOf) -> None:
        self._count, self._lock = len(ends), Lock()
        self._columns: tuple[Sequence[FileColumns], Array, Array, SplitOf] | None = (files, order, ends, split_of)
        self._made: tuple[Split, ...] = ()
        self.file_count = len(order)
        self.row_count, self.size = (int(_numbers(files, name).sum()) for name in ("row_count", "file_size"))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Split]:
        return iter(self._whole())

    @overload
    def __getitem__(self, at: int) -> Split: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Split, ...]: ...

    def __getitem__(self, at: int | slice) -> Split | tuple[Split, ...]:
        return self._whole()[at]

    def __eq__(self, other: object) -> bool:
        return self._whole() == (tuple(other) if isinstance(other, ColumnSplits) else other)

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return f"<{self._count} splits of {self.file_count} files>"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._whole(),)

    def _whole(self) -> tuple[Split, ...]:
        with self._lock:
            if self._columns is not None:
                self._made = tuple(_splits(*self._columns))
                self._columns = None  # what the manifests said is no longer needed
            return self._made


def column_splits(
    files: Sequence[FileColumns], target_bytes: int, open_cost_bytes: int, split_of: SplitOf
) -> ColumnSplits:
    """Pack live files, in the order of the manifests, into splits, as `SplitPlanner.splits` does for plain ones."""
    sizes, numbers = _numbers(files, "file_size"), _numbers(files, "min_sequence_number")
    groups = _groups(files)
    order = np.lexsort((numbers, groups))
    ends = _ends(np.maximum(sizes, open_cost_bytes)[order], groups[order], target_bytes)
    return ColumnSplits(files, order, ends, split_of)


def _numbers(files: Sequence[FileColumns], name: str) -> Array:
    found = [part.column(name).to_numpy(zero_copy_only=False) for part in files]
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)


def _groups(files: Sequence[FileColumns]) -> Array:
    """The number of each file's (partition, bucket, number of buckets), in the order in which they first appear."""
    key = np.zeros(sum(map(len, files)), np.int64)
    partitions = pa.chunked_array([part.column("partition") for part in files], pa.binary()).dictionary_encode()
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in partitions.unify_dictionaries().chunks]
    for values in (np.concatenate([*codes, key[:0]]), *(_numbers(files, n) for n in ("bucket", "total_buckets"))):
        _, first, place = np.unique(values, return_index=True, return_inverse=True)
        _, first, key = np.unique(key * len(first) + place, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    found: Array = rank[key]
    return found


def _ends(costs: Array, groups: Array, target_bytes: int) -> Array:
    """Where each split ends. A split is of one group, and ends before the file that would make it larger than the target."""
    whole = np.cumsum(costs)
    ends: list[int] = []
    begin = 0
    for stop in np.append(np.flatnonzero(np.diff(groups)) + 1, len(groups)).tolist():
        while begin < stop:
            before = int(whole[begin - 1]) if begin else 0
            begin = min(max(int(np.searchsorted(whole, before + target_bytes, side="right")), begin + 1), stop)
            ends.append(begin)
    return np.array(ends, np.int64)


def _splits(files: Sequence[FileColumns], order: Array, ends: Array, split_of: SplitOf) -> Iterator[Split]:
    entries = [entry for part in files for entry in part.entries()]
    begin = 0
    places = order.tolist()
    for end in ends.tolist():
        chosen = [entries[i] for i in places[begin:end]]
        first = chosen[0]
        yield split_of(first.partition, first.bucket, first.total_buckets, [entry.file for entry in chosen])
        begin = end


def live_parts(parts: Sequence[Part]) -> list[FileColumns] | None:
    """The entries of live files, in order; None if a file that a DELETE concerns lives on, as it may at another level."""
    deleted = {name for part, rows in parts for name in part.file_names(rows[part.kind[rows] == DELETE])}
    if not deleted:
        return [FileColumns(part, rows) for part, rows in parts]
    concerned = [(part.named(deleted) & _mask(part, rows)) for part, rows in parts]
    found = [part.entries(np.flatnonzero(mask)) for (part, _), mask in zip(parts, concerned, strict=True)]
    if live(entry for entries in found for entry in entries):
        return None
    return [FileColumns(part, rows[~mask[rows]]) for (part, rows), mask in zip(parts, concerned, strict=True)]


def have_own_names(names: Sequence[pa.Array]) -> bool:
    """Is no name twice? A file that two entries add is one file, which only the fold of objects sees to."""
    prints = np.sort(np.concatenate([np.zeros(0, np.uint64), *map(_prints, names)]))
    if (prints[1:] != prints[:-1]).all():
        return True
    return bool(pc.count_distinct(pa.chunked_array(names, pa.string())).as_py() == len(prints))


def _prints(texts: pa.Array) -> Array:
    """A number for each text: equal texts have the same, and two others hardly ever. Takes an eighth of a table of the texts.

    >>> one, other, again = _prints(pa.array(["data-1", "data-2", "data-1"])).tolist()
    >>> one == again != other
    True
    """
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = (int(ends[0]), int(ends[-1])) if len(texts) else (0, 0)
    data = np.zeros(last - first + len(PADDING), np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(texts.buffers()[2], np.uint8)[first:last]
    stored = Bytes(data)
    starts, sizes = ends[:-1] - first, np.diff(ends)
    found = sizes.astype(np.uint64)
    for at in range(0, int(sizes.max(initial=0)), WORD):
        word = stored.words(starts + np.minimum(sizes, at)) & _LEADING[np.clip(sizes - at, 0, WORD)]
        mixed = (found ^ word) * _ODD
        # A text that has ended keeps its number, whatever the length of the longest one.
        found = np.where(sizes > at, mixed ^ mixed >> np.uint64(32), found)
    return found


def live_files(parts: Sequence[EntryColumns | list[ManifestEntry]]) -> list[FileColumns]:
    """The live files of a snapshot, given all its entries: as columns if they came as such, and a fold has nothing to decide."""
    columns = [(part, np.arange(part.rows)) for part in parts if not isinstance(part, list)]
    files = live_parts(columns) if len(columns) == len(parts) else None
    if files is None or not have_own_names([f.column("file_name") for f in files]):
        return [FileColumns(live(e for part in parts for e in (part if isinstance(part, list) else part.entries())))]
    return files


def _mask(part: EntryColumns, rows: Array) -> Array:
    mask = np.zeros(part.rows, bool)
    mask[rows] = True
    return mask
