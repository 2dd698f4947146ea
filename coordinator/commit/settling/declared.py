"""What a commit's snapshot says of the sequence numbers of its rows (decision 128), and the numbers of rows without a key.

Owns: `Numbering`, `declared`, `above`, `as_read`. Must not know: what a request becomes on a base, conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ....core.metadata.data_file import ADD, ManifestEntry
from ....core.metadata.manifest import ManifestFile
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot
from ....core.metadata.sorted_runs.sequence_numbers import first_number
from ...history.base import Base
from ...history.row_numbers import NUMBERS_MAX, RowNumbers, Span, row_numbers
from ...history.timeline import Timeline
from ...surroundings import Surroundings
from ..checks.key_order import KeyOrder, Numbers, bucket_count, has_numbers, merged_by
from ..request import CommitRequest, only_adds_rows
from .bucket_numbers import BucketMemory, Buckets, numbered

MOST_SILENT = 8
"""Below so many snapshots that say nothing of their numbers one is looked for that does, before all manifests are read."""


@dataclass
class Numbering:
    """The sequence numbers of a table, as far as a commit has to know them.

    Attributes:
        buckets: what the committer's earlier commits read.
        rides: commits to the table may ride, so it is worth some requests to say what their numbers are.
    """

    schema: TableSchema
    timeline: Timeline
    around: Surroundings
    buckets: BucketMemory
    rides: bool

    def by_clock(self, entries: tuple[ManifestEntry, ...], said: RowNumbers) -> tuple[ManifestEntry, ...]:
        """The entries, with numbers above all rows of the table and above a clock, so that others need not know them."""
        first = first_number(said.largest, self.around.wall_ms, self.around.uniform(0.0, 1.0))
        return numbered(entries, Buckets({(e.partition, e.bucket): first - 1 for e in entries}))

    def said(
        self, request: CommitRequest, entries: tuple[ManifestEntry, ...], base: Base, index_manifest: str | None
    ) -> RowNumbers | None:
        """What the snapshot of a request says, without its riders; None where nothing is known, or nothing has numbers."""
        before = self._of(base) if has_numbers(self.schema) else None
        if before is None:
            return None
        same = index_manifest == (base.snapshot.index_manifest if base.snapshot is not None else None)
        found = declared(request, entries, before, KeyOrder.of(self.schema), same_index=same)
        return found if found.largest <= NUMBERS_MAX else None

    def _of(self, base: Base) -> RowNumbers | None:
        """What the base says, or one below it, with the files that came since; else what all manifests say. None where that
        would cost requests, and nobody would ride.
        """
        said = row_numbers(base.snapshot)
        if said is None and self.rides and base.snapshot is not None:
            said = self._below(base.snapshot)
        is_whole = said is not None and (said.buckets is not None or self.schema.bucket < 0)
        if is_whole or not (self.buckets.knows(base.manifests) or (self.rides and said is None)):
            return said
        known = as_read(self.buckets.of(base.manifests, {b""}, (), self.entries_of))
        return replace(said or known, buckets=known.buckets)

    def _below(self, newest: Snapshot) -> RowNumbers | None:
        ids = range(newest.id - 1, max(newest.id - 1 - MOST_SILENT, 0), -1)
        below = [newest, *self.timeline.parallel(self.timeline.find, ids)]
        ends = (n for n, found in enumerate(below) if found is None or row_numbers(found) is not None)
        last = next(ends, len(below))
        said = row_numbers(below[last]) if last < len(below) else None
        for snapshot in reversed(below[:last]):
            if said is not None and snapshot is not None:
                said = above(said, self.timeline.entries(self.timeline.delta_manifests(snapshot)))
        return said

    def entries_of(self, manifests: Sequence[ManifestFile]) -> list[list[ManifestEntry]]:
        return self.timeline.parallel(self.timeline.entries_of, manifests)


def declared(
    request: CommitRequest,
    entries: tuple[ManifestEntry, ...],
    base: RowNumbers,
    order: KeyOrder,
    *,
    same_index: bool,
) -> RowNumbers:
    """What a snapshot with these entries says above one that says `base`. `same_index`: no deletion vector changes."""
    writes: tuple[Span, ...] | None = None
    merged = -1
    if same_index and only_adds_rows(request) and not any(entry.file.level for entry in entries):
        writes = (Numbers.of(entries).span,)
    elif same_index and request.kind == "COMPACT":
        found = merged_by(entries, order)
        if found is not None:
            writes, merged = (), found
    return replace(above(base, entries), writes=writes, merged=merged)


def above(base: RowNumbers, entries: Iterable[ManifestEntry]) -> RowNumbers:
    """What is known of a snapshot that adds some entries, but for what became of the rows of others."""
    added = [entry for entry in entries if entry.kind == ADD]
    counts = {bucket_count(added), base.buckets} - {0}
    return RowNumbers(max(base.largest, Numbers.in_files(added).span.last), _only(counts), None)


def as_read(found: Buckets) -> RowNumbers:
    """What all manifests of a snapshot say."""
    counts: set[int | None] = {count for of_partition in found.counts.values() for count in of_partition if count > 0}
    return RowNumbers(max(found.last.values(), default=-1), _only(counts), None)


def _only(counts: set[int | None]) -> int | None:
    return counts.pop() if len(counts) == 1 else None if counts else 0
