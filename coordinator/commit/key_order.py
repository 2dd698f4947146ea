"""The order of rows that several writers give to one key, by sequence numbers. Pure.

Owns: `KeyOrder` (by what a table orders the rows of a key), `Numbers` (those of the new rows of a commit), `stamped`, and the
checks `numbers_meet` and `older_rows_appended`. Must not know: stores, how rows are written.
Source: format/primary-keys §1, §2; H14; decision 47.

Every job numbers its rows above all rows of the snapshot that it read, and above a clock. So the order of concurrent jobs is the
order in which they began, and one that lands later may be the older one. That is a serial order as long as no two jobs share
numbers, and as long as nothing was merged, between the two, that ought to have been merged with the older rows as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...core import options as opt
from ...core.metadata.change import Landed, owner_of
from ...core.metadata.data_file import ADD, SOURCE_COMPACT, ManifestEntry, PartitionBucket
from ...core.metadata.merge_rules import merge_rules
from ...core.metadata.schema import TableSchema
from .conflicts import Conflict
from .request import CommitRequest

ORDER_OF_JOBS = "run the job again; if jobs often write the same keys at the same time, set option 'sequence.field'"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """By what a table orders the rows of a key.

    Attributes:
        by_snapshot: by the id of the snapshot that added them (option `sequence.snapshot-ordering`).
        by_number: by the numbers that their writers gave.
        merged_is_final: rows that were merged count as older than all rows that are merged with them later, or as newer,
            whatever the numbers of the single rows were. Only `deduplicate` can merge rows in any order.
    """

    by_snapshot: bool = False
    by_number: bool = False
    merged_is_final: bool = False

    @staticmethod
    def of(schema: TableSchema) -> KeyOrder:
        """The order of a table's rows; neither kind for a table without a primary key, or with option `sequence.field`."""
        rules = merge_rules(schema)
        if rules is None or rules.sequence_fields:
            return KeyOrder()
        if schema.options.get(opt.SNAPSHOT_ORDERING):
            return KeyOrder(by_snapshot=True)
        return KeyOrder(by_number=True, merged_is_final=rules.engine != "deduplicate" or rules.has_lookups)


def new_rows(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The files that add new rows with numbers. Compactions keep numbers, and rows without a bucket get theirs later."""
    found = list(entries)
    moved = {owner_of(e) for e in found if e.kind != ADD}
    return [
        e
        for e in found
        if e.kind == ADD and e.bucket >= 0 and e.file.file_source != SOURCE_COMPACT and owner_of(e) not in moved
    ]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The sequence numbers of the new rows of a commit: the smallest and largest, by bucket."""

    spans: Mapping[PartitionBucket, tuple[int, int]]

    @staticmethod
    def of(entries: Iterable[ManifestEntry]) -> Numbers:
        spans: dict[PartitionBucket, tuple[int, int]] = {}
        for entry in new_rows(entries):
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

    def not_above(self, largest: Mapping[PartitionBucket, int]) -> list[PartitionBucket]:
        """The buckets in which some number is not larger than the largest one so far."""
        return [place for place, (low, _) in self.spans.items() if place in largest and low <= largest[place]]


def numbers_meet(
    ours: Numbers, changes: Sequence[Landed], largest: Mapping[PartitionBucket, int], order: KeyOrder
) -> Conflict | None:
    """Whether new rows must be numbered again, above all others: their numbers meet those of other writers, or were given too
    early.

    The numbers of a whole commit are compared, not those of single buckets, so that the order of two commits is the same in
    all buckets that both wrote to.

    Args:
        changes: those of other writers since this commit read the table.
        largest: the largest number so far, by bucket, of the base.
    """
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


def _added(changes: Sequence[Landed]) -> Iterable[ManifestEntry]:
    return (e for change in changes for e in change.change.entries if e.kind == ADD)


def _newer_rows_merged(ours: Numbers, change: Landed, order: KeyOrder) -> Conflict | None:
    """Whether another commit merged rows that are newer than ours, or removed them: ours would then count as the newer ones, or
    bring back what they delete."""
    for group in change.groups(lambda partition: True):
        place = group.place
        if place not in ours.spans:
            continue
        newer = [e for e in group.deleted if e.file.max_sequence_number >= ours.spans[place][0]]
        if newer and (order.merged_is_final or not group.is_compaction or drops_deletes(group.deleted, group.added)):
            reason = (
                f"{change.label} merged or removed rows of bucket {place[1]} that are newer than those of this commit"
            )
            return Conflict("newer_rows_merged", f"{reason}; {ORDER_OF_JOBS}", tuple(e.file.file_name for e in newer))
    return None


def drops_deletes(deleted: Iterable[ManifestEntry], added: Iterable[ManifestEntry]) -> bool:
    """Whether some rows that delete are gone after a change. A file that does not count them may have any number."""
    counts = [e.file.delete_row_count for e in deleted]
    return None in counts or sum(filter(None, counts)) > sum(e.file.delete_row_count or 0 for e in added)


def older_rows_appended(
    request: CommitRequest, entries: Sequence[ManifestEntry], changes: Sequence[Landed], order: KeyOrder
) -> Conflict | None:
    """Another writer appended rows that are older than some that this commit merges or removes: the appended ones would come
    back, or count as the newer ones.

    Args:
        entries: those of the commit, with the files that it deletes.
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
            numbers = Numbers.of(change.change.entries).spans.get(place)
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
