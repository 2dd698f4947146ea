"""The actors that change, and remove, rows of a table with a primary key: UPDATE, and overwrite or drop.

Owns: `Changer`, `Replacer`. Must not know: schedules, faults, invariants. Source: decision 82; format/primary-keys §9; H14.
Invariant: the value of a changed row names the commit whose row was read, so that a lost update shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...coordinator.commit.receipt import Receipt
from ...coordinator.commit.request import CommitRequest, KeyedRows, Remarks, Renumbered, RowChange, RowsRead
from ...core.errors import CommitConflict, LakelatchError
from ...core.metadata.data_file import ADD, EMPTY_ROW, ManifestEntry
from ...core.metadata.folding import live
from ...core.metadata.snapshot import Snapshot
from ..judging.serial import writer_of
from ..world.keyed import KeyRow, is_keyed, key_file, rows_of, winners
from ..world.published import COMMIT, PUTS, READ
from ..world.stage import Stage
from .jobs import marks_of, tell_outcome, upload

MOST_PLANS = 20


@dataclass(frozen=True)
class Changer:
    """A job that changes the rows of some existing keys, planned again after each conflict. For `ahead` see `Upserter`."""

    keys: tuple[str, ...]
    ahead: int = 1
    commits: int = 1

    def __call__(self, stage: Stage) -> None:
        committer = stage.committer()
        for number in range(1, self.commits + 1):
            label = f"{stage.name}{number}"
            tell_outcome(stage, label, lambda label=label: self._landed(stage, committer.commit, label), ())  # type: ignore[misc]
            committer.settle()

    def _landed(self, stage: Stage, commit: Callable[[CommitRequest], Receipt], label: str) -> Receipt:
        for _ in range(MOST_PLANS - 1):
            try:
                return commit(self.request(stage, label))
            except CommitConflict:
                continue
        return commit(self.request(stage, label))

    def request(self, stage: Stage, label: str) -> CommitRequest:
        """Its change of the rows that the newest snapshot has."""
        timeline = stage.timeline()
        read = timeline.latest()
        entries = timeline.entries(timeline.manifests(read)) if read is not None else []
        largest = max((e.file.max_sequence_number for e in entries), default=0)
        marks = marks_of(timeline, read) if read is not None else {}
        seen = winners(live(entries), marks, vectors=is_keyed(stage.schema.to_json())[1])[0]
        rows = [
            KeyRow(f"{label}_{writer_of(row.commit)}", row.key, largest + self.ahead + n)
            for n, row in enumerate(row for row in seen if str(row.key) in self.keys and not row.deletes)
        ]
        made = [ManifestEntry(ADD, EMPTY_ROW, 0, stage.schema.bucket, key_file(rows))] if rows else []
        said = {COMMIT: label, PUTS: ",".join(f"+{key}" for key in self.keys), READ: read.identity if read else ""}
        return RowChange(
            kind="APPEND",
            entries=tuple(made),
            commit_user=f"user-{stage.name}",
            uploads=tuple(upload(stage, entry, label) for entry in made),
            read_snapshot=read,
            keyed=KeyedRows(renumber=renumbering(stage, label)),
            remarks=Remarks("UPDATE", properties=said),
            rows_read=RowsRead(read, self._concerns, absent=True),
        )

    def _concerns(self, entry: ManifestEntry) -> bool:
        return any(str(row.key) in self.keys for row in rows_of(entry.file.file_name))


@dataclass(frozen=True)
class Replacer:
    """A job that replaces all rows that it reads, by rows of some keys or by none. For `ahead` see `Upserter`."""

    keys: tuple[str, ...] = ()
    ahead: int = 1

    def __call__(self, stage: Stage) -> None:
        timeline, label, committer = stage.timeline(), f"{stage.name}1", stage.committer()
        try:
            read = timeline.latest()
            entries = timeline.entries(timeline.manifests(read)) if read is not None else []
        except LakelatchError:
            return
        largest = max((e.file.max_sequence_number for e in entries), default=0)
        request = self._request(stage, label, read, largest)
        tell_outcome(stage, label, lambda: committer.commit(request), ())
        committer.settle()

    def _request(self, stage: Stage, label: str, read: Snapshot | None, largest: int) -> CommitRequest:
        rows = [KeyRow(label, int(key), largest + self.ahead + n) for n, key in enumerate(self.keys)]
        made = [ManifestEntry(ADD, EMPTY_ROW, 0, stage.schema.bucket, key_file(rows))] if rows else []
        said = {COMMIT: label, PUTS: ",".join(("*", *self.keys)), READ: read.identity if read is not None else ""}
        return CommitRequest(
            kind="OVERWRITE",
            entries=tuple(made),
            commit_user=f"user-{stage.name}",
            uploads=tuple(upload(stage, entry, label) for entry in made),
            target=lambda partition: True,
            read_snapshot=read,
            keyed=KeyedRows(renumber=renumbering(stage, label)),
            remarks=Remarks("OVERWRITE", properties=said),
        )


def renumbering(stage: Stage, label: str) -> Callable[[Sequence[ManifestEntry], int, bool], Renumbered]:
    """Writes rows again with the numbers right above one; there is no clock here."""

    def renumber(old: Sequence[ManifestEntry], above: int, by_clock: bool) -> Renumbered:
        again = []
        for entry in old:
            first = entry.file.min_sequence_number
            rows = [replace(row, number=above + 1 + row.number - first) for row in rows_of(entry.file.file_name)]
            again.append(entry._replace(file=key_file(rows)))
        return Renumbered(tuple(again), tuple(upload(stage, e, label) for e in again))

    return renumber
