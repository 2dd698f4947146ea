"""Conflict checks: may a commit still land after the changes that other writers made since it read the table? Pure.

Owns: named checks, each returning a `Conflict` or None, and the selection of files that an overwrite deletes. Must not know:
stores; the changes of other snapshots are passed in. Source: architecture §3 (isolation table), H12, H13, H22.
Invariants: a commit never deletes a file that it did not read. A commit that replaces a file never lands if another writer
meanwhile deleted that file or rows of it. The kind of another snapshot never lets a commit land that its content forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ....core.metadata.change import ROW_CHANGES, Group, Landed, Owner, owner_of, vector_places
from ....core.metadata.data_file import ADD, SOURCE_COMPACT, EntryIdentity, IndexEntry, ManifestEntry
from ....core.metadata.folding import fold
from ..request import CommitRequest, RowsRead, Target
from .row_ids import RowRanges


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reason why a commit cannot land: the failed check, its text, the other commit and the files."""

    check: str
    reason: str
    files: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------------- overwrites

Files = dict[EntryIdentity, ManifestEntry]


@dataclass(frozen=True, slots=True)
class Followed:
    """The live files of the partitions that an overwrite replaces.

    Attributes:
        replaced: the files to delete: those that the overwrite read, and what compactions made of them since.
        newer: the files added meanwhile, which stay.
        merged: the compactions of such files.
    """

    replaced: Files
    newer: Files = field(default_factory=dict)
    merged: list[Group] = field(default_factory=list)


def replaced_files(target: Target, entries: Iterable[ManifestEntry]) -> Files:
    """A DELETE without its ADD does not stop an overwrite: it, or a rollback, is the way out of such a state."""
    return {key: e for key, e in fold(entries).items() if e.kind == ADD and target(e.partition)}


def follow(request: CommitRequest, read_files: Files, changes: Sequence[Landed]) -> Followed | Conflict:
    """The files of an overwrite, adjusted for what others changed since it read `read_files`; or the oldest conflict."""
    assert request.target is not None
    files = Followed(dict(read_files))
    for change in changes:
        conflict = _read_beside_what_stays(change, files)
        if conflict is not None:
            return conflict
        for group in change.groups(request.target):
            for check in CHECKS:
                conflict = check(request, change, group, files.replaced)
                if conflict is not None:
                    return conflict
            _apply(group, files)
    return files


def _read_beside_what_stays(change: Landed, files: Followed) -> Conflict | None:
    """An UPDATE, DELETE or MERGE has seen rows that stay, and those that were to be replaced, whichever rows it changed. The
    overwrite is older than the one, and newer than the other (decision 82).
    """
    if change.operation not in ROW_CHANGES or not files.newer:
        return None
    return _conflict("rows_changed_meanwhile", change, files.newer.values(), "has read rows which stay, and were added")


def _apply(group: Group, files: Followed) -> None:
    """Replace a compaction's inputs by its outputs; every other added file is newer than what was read."""
    into = files.replaced if any(e.identity in files.replaced for e in group.deleted) else files.newer
    for entry in group.deleted:
        files.replaced.pop(entry.identity, None)
        files.newer.pop(entry.identity, None)
    into.update((e.identity, e) for e in group.added)
    if group.deleted and into is files.newer:
        files.merged.append(group)


def overwritten_meanwhile(request: CommitRequest, change: Landed, group: Group, replaced: Files) -> Conflict | None:
    """The first committer wins. An overwrite of an empty partition looks like an append; only its snapshot's kind differs."""
    if group.is_compaction or not (group.deleted or (change.kind == "OVERWRITE" and group.added)):
        return None
    return _conflict("overwritten_meanwhile", change, (*group.deleted, *group.added), "changed the same partitions")


def rows_deleted_meanwhile(request: CommitRequest, change: Landed, group: Group, replaced: Files) -> Conflict | None:
    """Deletion vectors deleted (or restored) rows of files that it replaces, so its new rows are based on outdated ones."""
    marked = [e for e in replaced.values() if owner_of(e) in group.marked]
    return (
        _conflict("rows_deleted_meanwhile", change, marked, "deleted rows of files that it replaces")
        if marked
        else None
    )


def columns_updated_meanwhile(request: CommitRequest, change: Landed, group: Group, replaced: Files) -> Conflict | None:
    """Data evolution: columns of rows that it replaces were written anew. The new file would be left without its rows."""
    if group.is_compaction or all(e.file.first_row_id is None for e in group.added):
        return None
    rows = RowRanges(e.file for e in replaced.values())
    updated = [e for e in group.added if rows.meet(e.file)]
    return _conflict("columns_updated_meanwhile", change, updated, "updated rows that it replaces") if updated else None


def rows_changed_meanwhile(request: CommitRequest, change: Landed, group: Group, replaced: Files) -> Conflict | None:
    """An UPDATE, DELETE or MERGE added rows that it computed from rows which this commit replaces: they would come back."""
    if change.operation not in ROW_CHANGES or not group.added or group.is_compaction:
        return None
    return _conflict("rows_changed_meanwhile", change, group.added, "changed rows of the same partitions")


def appended_meanwhile(request: CommitRequest, change: Landed, group: Group, replaced: Files) -> Conflict | None:
    """Serializable isolation: rows were added that the overwrite would have replaced, had the commits run in sequence."""
    if request.isolation != "serializable" or not group.added or group.is_compaction:
        return None
    return _conflict("appended_meanwhile", change, group.added, "added rows to the same partitions")


def compacted_with_newer_rows(request: CommitRequest, change: Landed, group: Group, replaced: Files) -> Conflict | None:
    """A compaction merged files that it replaces with newer ones: deleting the output would lose the newer rows (H13)."""
    ours = sum(e.identity in replaced for e in group.deleted)
    if ours in (0, len(group.deleted)):
        return None
    files = (*group.deleted, *group.added)
    return _conflict("compacted_with_newer_rows", change, files, "merged newer rows into replaced files")


Check = Callable[[CommitRequest, Landed, Group, Files], "Conflict | None"]
CHECKS: tuple[Check, ...] = (
    overwritten_meanwhile,
    rows_deleted_meanwhile,
    columns_updated_meanwhile,
    rows_changed_meanwhile,
    appended_meanwhile,
    compacted_with_newer_rows,
)


# -------------------------------------------------------------------------------- compactions and row-level changes


def inputs_changed(request: CommitRequest, changes: Sequence[Landed]) -> Conflict | None:
    """Another writer deleted input files of a compaction or row-level change, or rows of them; the oldest change first."""
    inputs = inputs_of(request)
    for change in changes:
        gone = [e for e in change.change.entries if e.kind != ADD and owner_of(e) in inputs]
        if gone:
            return _conflict("inputs_gone", change, gone, "deleted files that it replaces")
        names = sorted(owner[2] for owner in change.marked if owner in inputs)
        if names:
            return _inputs_marked(f"by {change.label} ", names)
    return None


def deletes_unknown_file(request: CommitRequest, alive: Iterable[ManifestEntry]) -> Conflict | None:
    """Like `inputs_changed`, when the changes of other writers can no longer be read: every changed file must be live."""
    found = list(alive)
    identities, owners = {e.identity for e in found}, {owner_of(e) for e in found}
    gone = {owner_of(e) for e in request.entries if e.kind != ADD and e.identity not in identities}
    names = tuple(sorted(owner[2] for owner in gone | (inputs_of(request) - owners)))
    if not names:
        return None
    return Conflict("deletes_unknown_file", f"{len(names)} of its input files are gone: {', '.join(names[:5])}", names)


def inputs_marked(request: CommitRequest, index: Iterable[IndexEntry]) -> Conflict | None:
    """A file that this commit deletes has a deletion vector in `index`, which lacks those that it knew: another writer marked
    rows since this commit read them (H12). A file that only changes its level keeps its vector.
    """
    inputs = {owner_of(e) for e in request.entries} - {owner_of(e) for e in request.entries if e.kind == ADD}
    names = [owner[2] for owner in vector_places(index) if owner in inputs]
    return _inputs_marked("", names) if names else None


def rows_changed(request: CommitRequest, changes: Sequence[Landed]) -> Conflict | None:
    """Data evolution: another writer deleted rows of which this commit updates columns, or updated any of their columns, as in
    Apache Paimon. A compaction is no conflict if it leaves one file with the same rows.
    """
    ours = [e.file for e in request.entries if e.kind == ADD]
    rows, same = RowRanges(ours), {(f.first_row_id, f.row_count) for f in ours}
    for change in changes:
        touched = [e for e in change.change.entries if rows.meet(e.file)]
        kept = {
            (e.file.first_row_id, e.file.row_count)
            for e in touched
            if e.kind == ADD and e.file.file_source == SOURCE_COMPACT
        }
        others = [
            e
            for e in touched
            if (e.file.first_row_id, e.file.row_count) not in kept & same
            or (e.kind == ADD and e.file.file_source != SOURCE_COMPACT)
        ]
        if others:
            return _conflict("rows_changed", change, others, "changed rows that this commit updates")
    return None


def rows_read_changed(read: RowsRead, changes: Sequence[Landed]) -> Conflict | None:
    """Another writer added rows that this commit should have read, or deleted some whose absence it should have seen.

    A compaction changes no row. Files that were deleted and added at once, such as those of an overwrite, count as both.
    """
    for change in changes:
        for group in change.groups(lambda partition: True):
            if group.is_compaction:
                continue
            came = [e for e in group.added if read.concerns(e)]
            if came:
                return _conflict("rows_read_changed", change, came, "added rows that it may concern")
            gone = [e for e in group.deleted if read.concerns(e)] if read.absent else []
            if gone or (read.absent and group.marked):
                return _conflict("rows_read_changed", change, gone, "deleted rows that it may concern")
    return None


def keys_came(changes: Sequence[Landed]) -> Conflict | None:
    """Another writer added rows, whose keys this commit should have looked for; a compaction only rewrites rows."""
    for change in changes:
        new = [e for e in change.change.entries if e.kind == ADD and e.file.file_source != SOURCE_COMPACT]
        if new:
            return _conflict("keys_came", change, new, "added rows")
    return None


def inputs_of(request: CommitRequest) -> set[Owner]:
    """The files that it deletes, and those of which it deletes rows."""
    added = {owner_of(e) for e in request.entries if e.kind == ADD}
    marked = vector_places(e for e in request.index_entries if e.kind == ADD)
    return {owner_of(e) for e in request.entries if e.kind != ADD} | (set(marked) - added)


def _inputs_marked(by: str, names: Sequence[str]) -> Conflict:
    shown = ", ".join(names[:5])
    reason = f"rows of its input files were deleted {by}since it read them: {shown}"
    return Conflict("inputs_marked", reason, tuple(names))


def _conflict(check: str, change: Landed, entries: Iterable[ManifestEntry], what: str) -> Conflict:
    names = tuple(e.file.file_name for e in entries)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Conflict(check, f"{change.label} {what} since this commit read the table: {shown}", names)
