"""Conflict checks: what others did since a commit read the table, and whether it may still stand.

Owns: a short list of named pure functions, each answering a `Conflict` or None, and the files that an overwrite deletes.
Must not know: stores; it is given what other snapshots changed. Source: design §3 (isolation table), H12, H13.
Invariants: a file that the commit did not read is never deleted by it; what replaces a file that others deleted, or deleted
rows of, meanwhile never lands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..core.data_file import ADD, EntryIdentity, IndexEntry, ManifestEntry
from ..core.folding import live
from .request import CommitRequest, Target


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a commit cannot stand: the check that found it, in words, with the other commit and the files."""

    check: str
    reason: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What one other snapshot did: its id, kind, user and delta entries."""

    snapshot_id: int
    kind: str
    user: str
    entries: tuple[ManifestEntry, ...]

    def touching(self, target: Target) -> tuple[ManifestEntry, ...]:
        return tuple(e for e in self.entries if target(e.partition))

    @property
    def label(self) -> str:
        return f"snapshot {self.snapshot_id} ({self.kind} by '{self.user}')"


def replaced_files(target: Target, entries: Iterable[ManifestEntry]) -> dict[EntryIdentity, ManifestEntry]:
    """The live files of the partitions that an overwrite replaces, as of the snapshot that it read."""
    return {e.identity: e for e in live(entries) if target(e.partition)}


def find_conflict(request: CommitRequest, changes: Sequence[Change]) -> Conflict | None:
    """The first conflict of an overwrite with what others did since it read the table, oldest change first."""
    for change in changes:
        for check in CHECKS:
            conflict = check(request, change)
            if conflict is not None:
                return conflict
    return None


def overwritten_meanwhile(request: CommitRequest, change: Change) -> Conflict | None:
    """Another overwrite, drop or row-level delete touched the same partitions: the first committer wins."""
    touched = _touched(request, change)
    if change.kind != "OVERWRITE" or not touched:
        return None
    return _conflict("overwritten_meanwhile", change, touched, "changed the same partitions")


def appended_meanwhile(request: CommitRequest, change: Change) -> Conflict | None:
    """Serializable: rows that came meanwhile would have been replaced, had the commits run one after the other."""
    touched = _touched(request, change)
    if request.isolation != "serializable" or change.kind != "APPEND" or not touched:
        return None
    return _conflict("appended_meanwhile", change, touched, "added rows to the same partitions")


CHECKS: tuple[Callable[[CommitRequest, Change], Conflict | None], ...] = (overwritten_meanwhile, appended_meanwhile)


def follow_compactions(
    request: CommitRequest, replaced: dict[EntryIdentity, ManifestEntry], changes: Sequence[Change]
) -> tuple[dict[EntryIdentity, ManifestEntry], Conflict | None]:
    """The files to delete after compactions rewrote some of them: their outputs stand in for their inputs.

    A compaction that mixed files which this overwrite replaces with newer ones is a conflict: its output cannot be
    deleted without losing the newer rows (H13).
    """
    current = dict(replaced)
    for change in changes:
        if change.kind != "COMPACT":
            continue
        for group in _by_bucket(_touched(request, change)):
            inputs = [e.identity for e in group if e.kind != ADD]
            ours = [identity for identity in inputs if identity in current]
            if not ours:
                continue
            if len(ours) < len(inputs):
                return current, _conflict(
                    "compacted_with_newer_rows", change, group, "merged newer rows into replaced files"
                )
            for identity in ours:
                del current[identity]
            current.update({e.identity: e for e in group if e.kind == ADD})
    return current, None


def inputs_gone(request: CommitRequest, changes: Sequence[Change]) -> Conflict | None:
    """A compaction or row-level change replaces files that somebody else deleted since it read them."""
    inputs = {e.identity for e in request.entries if e.kind != ADD}
    for change in changes:
        gone = tuple(e for e in change.entries if e.kind != ADD and e.identity in inputs)
        if gone:
            return _conflict("inputs_gone", change, gone, "deleted files that it replaces")
    return None


def inputs_marked(request: CommitRequest, index: Iterable[IndexEntry]) -> Conflict | None:
    """A deletion vector is left of a file that this commit deletes: somebody marked rows since it read them (H12).

    Args:
        index: the live index files after this commit, where vectors that it knew are not any more.
    """
    inputs = {(e.partition, e.bucket, e.file.file_name) for e in request.entries if e.kind != ADD}
    names = tuple(
        vector.data_file
        for entry in index
        for vector in entry.file.deletion_vectors or ()
        if (entry.partition, entry.bucket, vector.data_file) in inputs
    )
    if not names:
        return None
    shown = ", ".join(names[:5])
    return Conflict("inputs_marked", f"rows of its input files were deleted since it read them: {shown}", names)


def deletes_unknown_file(request: CommitRequest, alive: Iterable[ManifestEntry]) -> Conflict | None:
    """As `inputs_gone`, where what others did cannot be seen any more: everything that it deletes must be live."""
    identities = {e.identity for e in alive}
    gone = tuple(e for e in request.entries if e.kind != ADD and e.identity not in identities)
    if not gone:
        return None
    names = tuple(e.file.file_name for e in gone)
    return Conflict("deletes_unknown_file", f"{len(gone)} of its input files are gone: {', '.join(names[:5])}", names)


def _touched(request: CommitRequest, change: Change) -> tuple[ManifestEntry, ...]:
    return change.touching(request.target) if request.target is not None else ()


def _by_bucket(entries: Iterable[ManifestEntry]) -> list[list[ManifestEntry]]:
    groups: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.partition, entry.bucket), []).append(entry)
    return list(groups.values())


def _conflict(check: str, change: Change, entries: Iterable[ManifestEntry], what: str) -> Conflict:
    names = tuple(e.file.file_name for e in entries)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Conflict(check, f"{change.label} {what} since this commit read the table: {shown}", names)
