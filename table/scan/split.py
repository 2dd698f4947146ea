"""Splits, the data files that one task reads together, and how files are packed into them.

Owns: `Split`, bin packing. Must not know: predicates, Arrow, the locations of files (see `core.places`).
Source: format/statistics §4. Invariants: Every file is in exactly one split. The files of a split are of one (partition, bucket)
and in the order of their sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from ...core.metadata.data_file import DataFile, DeletionVectorRange
from ...core.paths import DEFAULT_BRANCH
from .row_runs import row_count

T = TypeVar("T")

DELETED_ROWS = "files have deleted rows"
"""One of the reasons in `Split.needs_arrow`."""


@dataclass(frozen=True, slots=True)
class DeletionVectorPlace:
    """The location of a data file's deletion vector: the index file's key, as in `Split.keys`, and the range of bytes in it."""

    key: str
    vector: DeletionVectorRange


@dataclass(frozen=True)
class Split:
    """Files of one (partition, bucket) that one task reads. Can be pickled to another machine.

    Attributes:
        partition: `_PARTITION` of the files.
        partition_path: `k=v/…`, or empty. For display only; values come from `partition`.
        total_buckets: the number of buckets when the files were written; -1 for none.
        files: the files as their manifest describes them, by ascending `min_sequence_number`.
        keys: the key of each file, relative to the table's root, or its whole URL if it is in an external path.
        needs_arrow: why a reader that finds columns by name, such as Spark's own, would return wrong rows; empty if it would not.
        deletions: the location of each file's deletion vector, None for a file without one; empty if no file has one.
        is_one_run: the files hold columns of the same rows (see `row_runs`), in the run's order.
        sections: the groups of files whose rows are merged by primary key, as indices; empty if rows are not merged.
        section_runs: for each section, the number of its sorted runs; empty if nobody counted them.
        branch: the branch whose schemas the files name.
        named_by: the file of the snapshot or tag that was planned, for errors.
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
    sections: tuple[tuple[int, ...], ...] = ()
    section_runs: tuple[int, ...] = ()
    branch: str = DEFAULT_BRANCH
    named_by: str = field(default="", compare=False, repr=False)

    @property
    def runs(self) -> tuple[tuple[int, ...], ...]:
        """The groups of files that are read together, as indices."""
        if self.sections:
            return self.sections
        everything = range(len(self.files))
        return (tuple(everything),) if self.is_one_run else tuple((i,) for i in everything)

    def deletion(self, index: int) -> DeletionVectorPlace | None:
        return self.deletions[index] if self.deletions else None

    def live_rows(self, run: tuple[int, ...]) -> int | None:
        """The number of rows of a run that are not deleted; None if only the deletion vectors or a merge show it."""
        if self.sections:
            return None
        places = [place for place in map(self.deletion, run) if place is not None]
        rows = row_count([self.files[i] for i in run])
        if not places:
            return rows
        marked = places[0].vector.cardinality
        return None if marked is None or len(places) > 1 else rows - marked

    @cached_property
    def row_count(self) -> int:
        """The number of rows in all files, including deleted rows, before any merge or filter."""
        if self.sections:
            return sum(f.row_count for f in self.files)
        return sum(row_count([self.files[i] for i in run]) for run in self.runs)

    @cached_property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(f.file_size for f in self.files)

    @cached_property
    def schema_ids(self) -> tuple[int, ...]:
        """The schemas that the files were written with, ascending."""
        return tuple(sorted({f.schema_id for f in self.files}))

    def to_dict(self) -> dict[str, object]:
        """A summary as plain values: partition and bucket, files, rows, bytes."""
        return {
            "partition": self.partition_path,
            "bucket": self.bucket,
            "files": list(self.keys),
            "row_count": self.row_count,
            "size": self.size,
            "deletion_vectors": sum(place is not None for place in self.deletions),
            "needs_arrow": list(self.needs_arrow),
            "merged_sections": len(self.sections),
            "merged_runs": list(self.section_runs),
        }


def pack(
    files: Iterable[tuple[DataFile, T]], target_bytes: int, open_cost_bytes: int
) -> Iterator[Sequence[tuple[DataFile, T]]]:
    """Group files, each with a value that stays with it, into runs of about the target size, by their sequence numbers.

    A run ends when the next file would make it larger than `target_bytes`. Smaller files count as `open_cost_bytes`.

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
