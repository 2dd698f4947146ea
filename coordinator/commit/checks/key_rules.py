"""What one commit to a table with a primary key has to keep, on the base of each attempt.

Owns: `KeyRules`: reads what the checks need, and has rows written again where their numbers meet those of others. Must not know:
how rows are written, what is checked (`key_order`, `key_files`). Source: format/primary-keys §2, §3; H14; decisions 47 and 82.
Invariant: what is read lies between the snapshot that the request read and the base; nothing of it is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ....core import options as opt
from ....core.metadata.change import Landed
from ....core.metadata.data_file import ADD, ManifestEntry, PartitionBucket
from ....core.metadata.folding import live
from ....core.metadata.schema import TableSchema
from ....core.metadata.snapshot import Snapshot
from ....core.places import FileKeys
from ...history.base import Base
from ...history.row_numbers import NO_ROWS, NUMBERS_MAX, RowNumbers, Span, row_numbers
from ...history.timeline import Timeline, ref_of
from ..attempt import MetadataFile
from ..request import CommitRequest, only_adds_rows
from .changes_since import ChangesSince
from .conflicts import Conflict, Followed
from .key_files import added_since, in_runs, runs_overlap
from .key_order import (
    KeyOrder,
    Numbers,
    before_what_stays,
    has_numbers,
    merged_by,
    new_rows,
    numbers_meet,
    older_rows_appended,
    restored_over_what_stays,
    stamped,
)
from .returning import Returning

Entries = tuple[ManifestEntry, ...]


def _adds_above(merged: int, snapshot: Snapshot) -> bool:
    said = row_numbers(snapshot)
    spans = said.writes if said is not None and snapshot.commit_kind == "APPEND" else None
    return spans is not None and all(span == NO_ROWS or span.first > merged for span in spans)


MOST_COMPARED = 16
"""What so many snapshots say is read to see that the numbers of a commit are its own; above more, manifests are read instead."""


def fits_buckets(entries: Entries, said: RowNumbers) -> bool:
    """Whether all files in fixed buckets have the bucket count that a snapshot names."""
    return not any(0 < entry.total_buckets != said.buckets for entry in entries)


@dataclass
class KeyRules:
    """The rules for one commit; without effect for tables without a primary key.

    Attributes:
        superseded: the keys of data files in whose place others were made.
        new_data: the files that were made on the last base.
        returning: the names of files whose level goes down.
    """

    request: CommitRequest
    schema: TableSchema
    timeline: Timeline
    since: ChangesSince
    order: KeyOrder = field(init=False)
    superseded: list[str] = field(default_factory=list)
    new_data: tuple[MetadataFile, ...] = ()
    returning: Returning = field(init=False)
    _above: Snapshot | None = field(init=False)
    _compared: Snapshot | None = field(init=False)
    _is_compared: bool = field(init=False)

    def __post_init__(self) -> None:
        self.order, self._above = KeyOrder.of(self.schema), self.request.read_snapshot
        self._compared, self._is_compared = self._above, self.request.keyed.compared
        self.returning = Returning(FileKeys(self.schema))

    def numbered_partitions(self, entries: Entries) -> set[bytes]:
        is_ordered = self.order.by_number or self.order.by_field or (self.order.by_snapshot and self._replaces)
        return {e.partition for e in new_rows(entries)} if is_ordered else set()

    def stamped(self, entries: Entries, snapshot_id: int) -> Entries:
        return stamped(entries, snapshot_id) if self.order.by_snapshot and self.request.kind != "COMPACT" else entries

    def older_rows(self, entries: Entries, base: Base) -> Conflict | None:
        if not self.order.by_number or self._is_read(base) or all(e.kind == ADD for e in entries):
            return None
        changes = self.changes(base)
        if isinstance(changes, Conflict):
            return None  # that its files are still live was checked already
        return older_rows_appended(self.request, entries, changes, self.order)

    def restored(self, entries: Entries, files: Followed, base: Base) -> Conflict | None:
        """Check that a rollback is older than what others added since it read the table, and newer than all that it has seen.

        An undo leaves the others' rows as they are, and lets nothing come back beside them.
        """
        if not self.schema.primary_keys or not self._replaces:
            return None
        conflict = self.older_rows(entries, base)
        return conflict or restored_over_what_stays(self.request.entries, files, self.order)

    def runs_overlap(self, entries: Entries, base: Base) -> Conflict | None:
        """Check the levels that get files. What the request read is its own affair; what came since is not."""
        if not self.schema.primary_keys or not in_runs(entries) or self._is_read(base):
            return None
        if self.schema.options.get(opt.CLUSTERED_BY_OTHERS):
            return None
        changes = self.changes(base)
        came = live(self.timeline.entries(base.manifests)) if isinstance(changes, Conflict) else added_since(changes)
        return runs_overlap(entries, came, self.schema)

    def in_order(self, entries: Entries, base: Base, largest: Mapping[PartitionBucket, int]) -> Entries | Conflict:
        """New rows in the order of their writers; where that is not clear, they are numbered again (H14)."""
        ours = Numbers.of(entries)
        if self._replaces:
            return self._before_what_stays(ours, entries, base) if ours.spans else entries
        if self.order.by_snapshot or not ours.not_above(largest):
            self.have_compared(base)
            return entries
        changes = self.since.since(self._above, base.snapshot)
        conflict = changes if isinstance(changes, Conflict) else numbers_meet(ours, changes, largest, self.order)
        if conflict is None:
            self.have_compared(base)
        if conflict is None or self.request.keyed.renumber is None:
            return conflict or entries
        written = [] if isinstance(changes, Conflict) else [Numbers.of(c.change.entries) for c in changes]
        above = max([*largest.values(), *(numbers.last for numbers in written if numbers.spans)])
        return self._renumbered(entries, base, above)

    def apart(self, entries: Entries, base: Base) -> bool:
        """Whether the snapshots themselves say that these rows can stay as they are, so that no manifest has to be read: their
        numbers meet none that were given meanwhile, and no newer rows were merged without them.
        """
        said = row_numbers(base.snapshot)
        if said is None or not has_numbers(self.schema) or not only_adds_rows(self.request):
            return False
        span = Numbers.of(entries).span
        is_new = self._is_compared or self._is_above(span)
        if not is_new or span.last > NUMBERS_MAX or not fits_buckets(entries, said):
            return False
        since = self.since.snapshots(self._compared, base.snapshot, MOST_COMPARED)
        all_said = [row_numbers(snapshot) for snapshot in since] if since is not None else [None]
        if not all(one is not None and one.leaves_room_for(span) for one in all_said):
            return False
        self.have_compared(base)
        return True

    def changes(self, base: Base) -> list[Landed] | Conflict:
        """Those of others since the request read the table. Of a compaction, without commits that only added newer rows, as their
        snapshots say: its files are all there after those, and no manifest has to be read to see that.
        """
        request, merged = self.request, None
        if type(request) is CommitRequest and request.kind == "COMPACT" and has_numbers(self.schema):
            merged = merged_by(request.entries, self.order)
        passes = None if merged is None else partial(_adds_above, merged)
        return self.since.since(request.read_snapshot, base.snapshot, passes)

    def _is_above(self, span: Span) -> bool:
        """Whether the rows are newer than all that the commit read before it began."""
        if not self.schema.primary_keys:
            return False
        read = row_numbers(self._above)
        return self._above is None or span == NO_ROWS or (read is not None and span.first > read.largest)

    def have_compared(self, base: Base) -> None:
        """The numbers of the new rows are known to be right on this base: only what comes after it matters."""
        self._compared, self._is_compared = base.snapshot, True

    @property
    def _replaces(self) -> bool:
        return self.request.target is not None

    def _before_what_stays(self, ours: Numbers, entries: Entries, base: Base) -> Entries | Conflict:
        """The entries of an overwrite, with new rows that are older than what others have added since it read the table."""
        if self._is_read(base):
            return entries
        changes = self.since.since(self.request.read_snapshot, base.snapshot)
        if isinstance(changes, Conflict):
            return changes
        removed, again = [e for e in entries if e.kind != ADD], self.request.keyed.renumber is not None
        found = before_what_stays(ours, removed, changes, self.order, again=again)
        if isinstance(found, int):
            return self._renumbered(entries, base, found, by_clock=False)
        return found or entries

    def _renumbered(self, entries: Entries, base: Base, above: int, *, by_clock: bool = True) -> Entries:
        """The entries with the new rows written again. Later attempts begin with these."""
        request, old = self.request, new_rows(entries)
        assert request.keyed.renumber is not None
        made = request.keyed.renumber(old, above, by_clock)
        keys, names = FileKeys(self.schema), {e.identity for e in old}
        gone = {key for entry in old for key in keys.data(entry)}
        self.superseded += gone
        kept = tuple(u for u in request.uploads if u.key not in gone)
        others = tuple(e for e in request.entries if e.identity not in names)
        self.request = replace(request, entries=(*others, *made.entries), uploads=(*kept, *made.uploads))
        self.new_data = tuple(MetadataFile(u.key, u.key, u.data) for u in made.uploads)
        self._above = base.snapshot
        self.have_compared(base)
        return (*(e for e in entries if e.identity not in names), *made.entries)

    def _is_read(self, base: Base) -> bool:
        return ref_of(self.request.read_snapshot) == base.ref
