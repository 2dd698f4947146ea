"""The order of rows that several writers give to one key, by sequence numbers. Pure.

Owns: `KeyOrder`, `Numbers`, `stamped`, and the checks `numbers_meet`, `before_what_stays`, `restored_over_what_stays` and
`older_rows_appended`. Must not know: stores, how rows are written.
Source: format/primary-keys §1, §2; H14; decisions 47, 82 and 114.

Every job numbers its rows above all rows of the snapshot that it read, and above a clock. So the order of concurrent jobs is the
order in which they began, and one that lands later may be the older one. That is a serial order as long as no two jobs share
numbers, and as long as nothing was merged, between the two, that ought to have been merged with the older rows as well.

A commit that has read rows of the table, or taken some away, is ordered by where it landed: after all that it has seen and
before all that it has not. So a job that lands later is newer than that commit and all before it, and an overwrite is older than
what was added while it ran, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....core import options as opt
from ....core.metadata.change import Change, Group, Landed, owner_of
from ....core.metadata.data_file import ADD, SOURCE_COMPACT, ManifestEntry, PartitionBucket
from ....core.metadata.schema import TableSchema
from ....core.metadata.schemas.merge_rules import merge_rules
from ...history.row_numbers import NO_ROWS, Span
from ..request import CommitRequest
from .conflicts import Conflict, Followed
from .key_files import added_since

ORDER_OF_JOBS = "run the job again; if jobs often write the same keys at the same time, set option 'sequence.field'"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """By what a table orders the rows of a key.

    Attributes:
        by_snapshot: by the id of the snapshot that added them (option `sequence.snapshot-ordering`).
        by_number: by the numbers that their writers gave.
        by_field: by columns of theirs, and only where these are equal by their numbers.
        merged_is_final: rows that were merged count as older than all rows that are merged with them later, or as newer,
            whatever the numbers of the single rows were. Only `deduplicate` can merge rows in any order.
    """

    by_snapshot: bool = False
    by_number: bool = False
    by_field: bool = False
    merged_is_final: bool = False

    @staticmethod
    def of(schema: TableSchema) -> KeyOrder:
        """The order of a table's rows; no kind for a table without a primary key."""
        rules = merge_rules(schema)
        if rules is None:
            return KeyOrder()
        if schema.options.get(opt.SNAPSHOT_ORDERING):
            return KeyOrder(by_snapshot=True)
        if rules.sequence_fields:
            return KeyOrder(by_field=True)
        return KeyOrder(by_number=True, merged_is_final=rules.engine != "deduplicate" or rules.has_lookups)


def has_numbers(schema: TableSchema) -> bool:
    """Whether the order of a table's rows is that of numbers which their writers give."""
    if schema.primary_keys:
        return not KeyOrder.of(schema).by_snapshot
    return schema.bucket > 0 and not schema.options.get(opt.ROW_TRACKING)


def bucket_count(entries: Iterable[ManifestEntry]) -> int | None:
    """The bucket count of the files in fixed buckets; 0 where there are none, None where it differs."""
    counts = {entry.total_buckets for entry in entries if entry.total_buckets > 0 and entry.bucket >= 0}
    return None if len(counts) > 1 else next(iter(counts), 0)


def new_rows(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The files that add new rows with numbers. Compactions keep numbers, and rows without a bucket get theirs later."""
    found = list(entries)
    gone = {owner_of(e) for e in found if e.kind != ADD}
    return [e for e in found if e.bucket >= 0 and e.file.file_source != SOURCE_COMPACT and owner_of(e) not in gone]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The sequence numbers of the new rows of a commit: the smallest and largest, by bucket."""

    spans: Mapping[PartitionBucket, tuple[int, int]]

    @staticmethod
    def of(entries: Iterable[ManifestEntry]) -> Numbers:
        return Numbers.in_files(new_rows(entries))

    @staticmethod
    def brought(change: Landed) -> Numbers:
        """Those of all rows that a commit added: also of files that a compaction once wrote, and a rollback brings back."""
        groups = [g for g in change.groups(lambda partition: True) if not g.is_compaction]
        moved = {owner_of(e) for g in groups for e in g.deleted}
        return Numbers.in_files(e for g in groups for e in g.added if owner_of(e) not in moved)

    @staticmethod
    def in_files(entries: Iterable[ManifestEntry]) -> Numbers:
        """Those of all rows in some files; rows without a bucket get theirs later."""
        spans: dict[PartitionBucket, tuple[int, int]] = {}
        for entry in (e for e in entries if e.bucket >= 0):
            place, file = (entry.partition, entry.bucket), entry.file
            low, high = spans.get(place, (file.min_sequence_number, file.max_sequence_number))
            spans[place] = min(low, file.min_sequence_number), max(high, file.max_sequence_number)
        return Numbers(spans)

    @property
    def first(self) -> int:
        return min(low for low, _ in self.spans.values())

    @property
    def last(self) -> int:
        return max(high for _, high in self.spans.values())

    @property
    def span(self) -> Span:
        """Those of all buckets together."""
        return Span(self.first, self.last) if self.spans else NO_ROWS

    def not_above(self, largest: Mapping[PartitionBucket, int]) -> list[PartitionBucket]:
        return [place for place, (low, _) in self.spans.items() if place in largest and low <= largest[place]]

    def above(self, number: int) -> Numbers:
        """What they become above a number; all buckets begin with the same one."""
        return Numbers({place: (number + 1, number + 1 + high - low) for place, (low, high) in self.spans.items()})


def numbers_meet(
    ours: Numbers, changes: Sequence[Landed], largest: Mapping[PartitionBucket, int], order: KeyOrder
) -> Conflict | None:
    """Whether new rows must be numbered again, above all others: their numbers meet those of other writers, or were given too
    early. Whole commits are compared, so that two have the same order in all buckets.

    Args:
        changes: those of other writers since this commit read the table.
        largest: the largest number so far, by bucket, of the base.
    """
    overtaken = _older_than_a_read(ours, changes)
    if overtaken is not None or order.by_field:
        return overtaken
    for change in changes:
        theirs = Numbers.of(change.change.entries)
        if theirs.spans.keys() & ours.spans.keys() and theirs.first <= ours.last and ours.first <= theirs.last:
            reason = (
                f"{change.label} gave new rows the sequence numbers {theirs.first} to {theirs.last}, and this commit"
                f" {ours.first} to {ours.last}: which row of a key is the newer one would be left open; {ORDER_OF_JOBS}"
            )
            return Conflict("sequence_numbers_meet", reason)
        merged = _newer_rows_merged(ours, change, order)
        if merged is not None:
            return merged
    since = {
        (e.partition, e.bucket): e.file.max_sequence_number
        for e in sorted(_added(changes), key=lambda e: e.file.max_sequence_number)
    }
    for place in ours.not_above(largest):
        if place not in since or largest[place] > since[place]:
            reason = (
                f"bucket {place[1]} had sequence numbers up to {largest[place]} before this commit read the table, and its"
                f" rows have {ours.first} to {ours.last}: they would count as older; {ORDER_OF_JOBS}"
            )
            return Conflict("sequence_numbers_too_small", reason)
    return None


def _older_than_a_read(ours: Numbers, changes: Sequence[Landed]) -> Conflict | None:
    """Whether a commit that has read, or one that it may have seen, would be newer than ours, which it has not seen."""
    reads = [n for n, change in enumerate(changes) if change.has_read]
    for change in changes[: reads[-1] + 1 if reads else 0]:
        theirs = Numbers.brought(change).spans
        for place in theirs.keys() & ours.spans.keys():
            if theirs[place][1] >= ours.spans[place][0]:
                reason = (
                    f"{changes[reads[-1]].label} computed its rows without those of this commit, which have the sequence numbers"
                    f" {ours.first} to {ours.last} and would count as older than those of {change.label}; {ORDER_OF_JOBS}"
                )
                return Conflict("older_than_a_read", reason)
    return None


def before_what_stays(
    ours: Numbers, removed: Sequence[ManifestEntry], changes: Sequence[Landed], order: KeyOrder, *, again: bool
) -> int | Conflict | None:
    """Whether the rows of an overwrite must be numbered again: it is older than what others added meanwhile, and stays.

    Args:
        removed: the files that it replaces.
        changes: those of other writers since it read the table.
        again: its rows can be numbered again.

    Returns:
        The number above which its rows are to be numbered; a conflict if there is no room, None if they can stay as they are.
    """
    gone = {e.identity for e in removed}
    stays = [e for e in added_since(changes) if (e.partition, e.bucket) in ours.spans and e.identity not in gone]
    if not stays:
        return None
    lowest = min(e.file.min_sequence_number for e in stays)
    above = max((e.file.max_sequence_number for e in removed if (e.partition, e.bucket) in ours.spans), default=-1)
    below = ours if ours.last < lowest else ours.above(above)
    merged = next((m for change in changes if (m := _newer_rows_merged(below, change, order)) is not None), None)
    if merged is not None:
        return merged
    if order.by_snapshot or below.last >= lowest or not (again or below is ours):
        reason = (
            f"others added rows with sequence numbers from {lowest} to the same buckets since this commit read the table, which"
            " stay and would count as older than its own: read the table again, and run it again"
        )
        return Conflict("newer_rows_stay", reason, tuple(e.file.file_name for e in stays))
    return None if below is ours else above


def restored_over_what_stays(state: Iterable[ManifestEntry], files: Followed, order: KeyOrder) -> Conflict | None:
    """Whether some row of a restored state would hide one that others added meanwhile, or come back though they deleted it.
    Restored rows keep their numbers, and a job that began before them, and landed during the rollback, has smaller ones.
    """
    last = {place: high for place, (_, high) in Numbers.in_files(state).spans.items()}
    hidden = [e for e in files.newer.values() if e.file.min_sequence_number <= last.get((e.partition, e.bucket), -1)]
    merged = [
        e
        for group in files.merged
        if group.place in last and (order.merged_is_final or drops_deletes(group.deleted, group.added))
        for e in group.added or group.deleted
    ]
    for found, what in ((hidden, "are older than restored ones"), (merged, "were merged without the restored ones")):
        if found:
            reason = f"others added rows since the table was read, which stay, but {what}"
            return Conflict("newer_rows_stay", reason, tuple(e.file.file_name for e in found))
    return None


def _all(changes: Sequence[Landed]) -> Iterable[ManifestEntry]:
    return (e for change in changes for e in change.change.entries)


def _added(changes: Sequence[Landed]) -> Iterable[ManifestEntry]:
    return (e for e in _all(changes) if e.kind == ADD)


def _newer_rows_merged(ours: Numbers, change: Landed, order: KeyOrder) -> Conflict | None:
    """Another commit merged or removed rows newer than ours, which would then count as newer, or bring back what they delete."""
    for group in change.groups(lambda partition: True):
        place = group.place
        if place not in ours.spans:
            continue
        newer = [e for e in group.deleted if e.file.max_sequence_number >= ours.spans[place][0]]
        if newer and newest_merged(group, order) >= 0:
            reason = (
                f"{change.label} merged or removed rows of bucket {place[1]} that are newer than those of this commit"
            )
            return Conflict("newer_rows_merged", f"{reason}; {ORDER_OF_JOBS}", tuple(e.file.file_name for e in newer))
    return None


def newest_merged(group: Group, order: KeyOrder) -> int:
    """The largest number of rows that were merged or removed so that older ones may not be added any more; -1 for none."""
    if not group.deleted:
        return -1
    if not (order.merged_is_final or not group.is_compaction or drops_deletes(group.deleted, group.added)):
        return -1
    return max(entry.file.max_sequence_number for entry in group.deleted)


def merged_by(entries: tuple[ManifestEntry, ...], order: KeyOrder) -> int | None:
    """The same of all buckets of a compaction; None if it does more than to merge rows."""
    groups = Landed(0, "COMPACT", "", Change(entries, (), 0)).groups(lambda partition: True)
    if not all(group.is_compaction for group in groups):
        return None
    return max((newest_merged(group, order) for group in groups), default=-1)


def drops_deletes(deleted: Iterable[ManifestEntry], added: Iterable[ManifestEntry]) -> bool:
    """Whether some rows that delete are gone after a change. A file that does not count them may have any number."""
    counts = [e.file.delete_row_count for e in deleted]
    return None in counts or sum(filter(None, counts)) > sum(e.file.delete_row_count or 0 for e in added)


def older_rows_appended(
    request: CommitRequest, entries: Sequence[ManifestEntry], changes: Sequence[Landed], order: KeyOrder
) -> Conflict | None:
    """Another writer appended rows that are older than some that this commit merges or removes: the appended ones would come
    back, or count as the newer ones. `entries`: the commit's, with the files that it deletes.
    """
    places: dict[PartitionBucket, tuple[list[ManifestEntry], list[ManifestEntry]]] = {}
    for entry in entries:
        places.setdefault((entry.partition, entry.bucket), ([], []))[entry.kind != ADD].append(entry)
    for place, (added, deleted) in places.items():
        strict = order.merged_is_final or request.target is not None
        if not deleted or not (strict or drops_deletes(deleted, added)):
            continue
        newest = max(e.file.max_sequence_number for e in deleted)
        for change in changes:
            numbers = Numbers.brought(change).spans.get(place)
            if numbers is not None and numbers[0] <= newest:
                reason = (
                    f"{change.label} appended rows to bucket {place[1]} with sequence numbers from {numbers[0]}, and this commit"
                    f" merges or removes rows with numbers up to {newest}: read the table again, and run it again"
                )
                return Conflict("older_rows_appended", reason)
    return None


def stamped(entries: Sequence[ManifestEntry], snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """The entries, with the id of their snapshot as the number of all new rows (option `sequence.snapshot-ordering`)."""
    new = {e.identity for e in new_rows(entries)}
    return tuple(
        e._replace(file=e.file._replace(min_sequence_number=snapshot_id, max_sequence_number=snapshot_id))
        if e.identity in new
        else e
        for e in entries
    )
