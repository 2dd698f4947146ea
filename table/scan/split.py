"""A split: data files that one task reads, and how files are packed into splits.

Owns: `Split`, bin packing. Must not know: predicates, Arrow, where files lie (see `core.places`).
Source: format/statistics §4. Invariants: every file is in exactly one split; the files of a split are of one (partition, bucket)
and keep the order of their sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from ...core.metadata.data_file import DataFile, DeletionVectorRange
from ...core.paths import DEFAULT_BRANCH
from .row_runs import row_count

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeletionVectorPlace:
    """Where the deletion vector of a data file is.

    Attributes:
        key: of the index file, as `Split.keys` are.
        vector: the part of it, and how many rows it marks where the writer says.
    """

    key: str
    vector: DeletionVectorRange


@dataclass(frozen=True)
class Split:
    """Files of one (partition, bucket) to be read by one task. Can be pickled to another machine.

    Attributes:
        partition: `_PARTITION` of the files.
        partition_path: `k=v/…`, or empty; for people only, values come from `partition`.
        bucket: the bucket number.
        total_buckets: the bucket count when the files were written; -1 for none.
        files: as the manifest describes them, by ascending `min_sequence_number`.
        keys: per file its object relative to the table's root, or a whole URL for a file in an external path.
        needs_arrow: why a reader that finds columns by their names, such as Spark's own, would give other rows; else empty.
        deletions: per file where its deletion vector is, None for a file without; empty where no file has one.
        is_one_run: the files hold columns of the same rows (see `row_runs`), in the run's order.
        branch: whose schemas the files name.
    """

    partition: bytes
    partition_path: str
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    keys: tuple[str, ...]
    needs_arrow: tuple[str, ...] = ()
    deletions: tuple[DeletionVectorPlace | None, ...] = ()
    is_one_run: bool = False
    branch: str = DEFAULT_BRANCH

    @property
    def runs(self) -> tuple[tuple[int, ...], ...]:
        """The files that are read together, as indices."""
        everything = range(len(self.files))
        return (tuple(everything),) if self.is_one_run else tuple((i,) for i in everything)

    def deletion(self, index: int) -> DeletionVectorPlace | None:
        """Where the deletion vector of a file is."""
        return self.deletions[index] if self.deletions else None

    def live_rows(self, run: tuple[int, ...]) -> int | None:
        """Rows of a run that are not deleted; None where only deletion vectors know."""
        places = [place for place in map(self.deletion, run) if place is not None]
        rows = row_count([self.files[i] for i in run])
        if not places:
            return rows
        marked = places[0].vector.cardinality
        return None if marked is None or len(places) > 1 else rows - marked

    @cached_property
    def row_count(self) -> int:
        """Rows in all files, deleted ones too, before any filter."""
        return sum(row_count([self.files[i] for i in run]) for run in self.runs)

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.file_size for f in self.files)

    @cached_property
    def schema_ids(self) -> tuple[int, ...]:
        """The schemas that the files were written with, ascending."""
        return tuple(sorted({f.schema_id for f in self.files}))

    def to_dict(self) -> dict[str, object]:
        """What people ask about: place, files, rows, bytes."""
        return {
            "partition": self.partition_path,
            "bucket": self.bucket,
            "files": list(self.keys),
            "row_count": self.row_count,
            "size": self.size,
            "deletion_vectors": sum(place is not None for place in self.deletions),
            "needs_arrow": list(self.needs_arrow),
        }


def pack(
    files: Iterable[tuple[DataFile, T]], target_bytes: int, open_cost_bytes: int
) -> Iterator[Sequence[tuple[DataFile, T]]]:
    """Files in runs of about the target size, in the order of their sequence numbers.

    Args:
        files: each with whatever is known of it.
        target_bytes: a run is closed when the next file would make it larger; option `source.split.target-size`.
        open_cost_bytes: the least that a file counts; option `source.split.open-file-cost`.

    >>> [len(run) for run in pack([(DataFile(f"f{i}", 40, 1), None) for i in range(5)], 100, 4)]
    [2, 2, 1]
    """
    run: list[tuple[DataFile, T]] = []
    weight = 0
    for known in sorted(files, key=lambda known: known[0].min_sequence_number):
        cost = max(known[0].file_size, open_cost_bytes)
        if run and weight + cost > target_bytes:
            yield run
            run, weight = [], 0
        run.append(known)
        weight += cost
    if run:
        yield run
