"""The actor that changes rows by a key, as DELETE, UPDATE and MERGE do in a table without a primary key.

Owns: the role `merger`, and the rows of such tables, which are named by their commit and key: `A1~2`. Must not know: schedules,
faults, invariants. Source: decision 60; format/deletion-vectors §2; H12, H22.
Invariant: shipped code plans the change, plans it again after a conflict, and makes its vectors. Only what is in a data file
comes from the file's name, where the shipped code would read and write Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from ...coordinator.commit.message import CommitMessage, PendingUpload
from ...coordinator.commit.request import CommitRequest, Remarks
from ...coordinator.history.timeline import Timeline
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import ADD, EMPTY_ROW, NO_BUCKETS, DataFile, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import OperationWord, Snapshot
from ...table.reading.deletion import deleted_rows
from ...table.rowlevel import append_table, run
from ...table.rowlevel.file_change import FileChange, FileChanger
from ...table.rowlevel.operation import Found
from ...table.scan.split import Split
from ...table.writing.buckets.placement import UNAWARE_BUCKET
from ..world.published import COMMIT, PUTS
from ..world.stage import Stage, file_of, rows_in
from .jobs import Role, commit_once, learn, tell_outcome, upload

_SHIPPED = ((append_table, "uuid"), (append_table, "TableWriter"), (run, "MACHINE"), (run, "new_commit_user"))


@dataclass(frozen=True)
class KeyedChange:
    """A MERGE of rows that each have a key: the row with the key is replaced, or there is none and one is added. `puts`
    are the keys of the source; with a minus sign, the row with the key is deleted."""

    label: str
    puts: tuple[str, ...]
    predicate: Predicate | None = None
    columns: tuple[str, ...] = ()
    assigned: frozenset[str] = frozenset()
    deletes_all: bool = False

    @property
    def word(self) -> OperationWord:
        return "MERGE" if self.updates else "DELETE"

    @property
    def updates(self) -> bool:
        return any(not put.startswith("-") for put in self.puts)

    @property
    def absent(self) -> bool:
        return self.updates

    def find(self, rows: pa.RecordBatch) -> Found:
        raise NotImplementedError("rows are found by `changed_by_name`")

    def parts(self, sources: Any) -> Iterator[slice]:
        yield slice(0, len(sources))

    def make(self, rows: pa.RecordBatch, actions: Any, sources: Any) -> pa.RecordBatch:
        raise NotImplementedError("rows are made by `changed_by_name`")

    def inserted(self, met: Any) -> pa.Table | None:
        return self.rows(put for n, put in enumerate(self.puts) if n not in met)

    def rows(self, puts: Iterator[str]) -> pa.Table | None:
        names = [f"{self.label}~{put}" for put in puts if not put.startswith("-")]
        return pa.table({"row": names}) if names else None

    def changed(self, split: Split, deleted: Any) -> FileChange:
        numbers = {put.lstrip("-"): n for n, put in enumerate(self.puts)}
        gone = set() if deleted is None else set(deleted.tolist())
        rows = enumerate(rows_in(split.files[0].file_name))
        live = [(position, row.partition("~")[2]) for position, row in rows if position not in gone]
        ours = [(position, numbers[key]) for position, key in live if key in numbers]
        met = [n for _, n in ours]
        new = self.rows(self.puts[n] for n in met)
        updated = 0 if new is None else new.num_rows
        positions = np.array([position for position, _ in ours], np.int64)
        is_gone = bool(ours) and len(ours) == len(live)
        return FileChange(
            split, len(ours) - updated, updated, positions, new, is_gone, met=np.array(sorted(met), np.int64)
        )


def changed_by_name(changer: FileChanger, splits: Sequence[Split]) -> Iterator[FileChange]:
    change = changer.operation
    assert isinstance(change, KeyedChange)
    for split in splits:
        yield change.changed(split, deleted_rows(changer.store, split, (0,)))


class NamedRows:
    """Writes new rows into a file that is named after them, which travels with the commit."""

    def __init__(self, store: Any, schema: Any, job: str, travelling: bool) -> None:
        self._job, self._rows = job, list[str]()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.column("row").to_pylist()

    def finish(self) -> list[CommitMessage]:
        if not self._rows:
            return []
        file = DataFile(file_of(*sorted(self._rows), made_by=self._job), file_size=1, row_count=len(self._rows))
        made = PendingUpload(f"bucket-0/{file.file_name}", self._job.encode())
        return [CommitMessage(EMPTY_ROW, UNAWARE_BUCKET, NO_BUCKETS, new_files=(file,), uploads=(made,))]

    def abort(self) -> None:
        """Nothing has been written."""


def merger(*puts: str) -> Role:
    """Change the rows of some keys in one commit, planned again as often as the shipped code does (see `KeyedChange`)."""

    def role(stage: Stage) -> None:
        label = f"{stage.name}1"
        committer, change = stage.committer(), KeyedChange(label, puts)

        def seen() -> tuple[Timeline, Snapshot | None, TableSchema]:
            timeline = stage.timeline()
            newest = timeline.latest()
            if newest is not None:
                learn(stage, committer, newest)
            return timeline, newest, stage.schema

        table = run.Opened(lambda: committer, seen, _no_transaction)
        with _on_this(stage):
            tell_outcome(
                stage,
                label,
                lambda: run.change_rows(
                    table,
                    lambda schema: change,
                    commit_user=None,
                    identifier=None,
                    properties={COMMIT: label, PUTS: ",".join(puts)},
                    change_files=changed_by_name,
                ),
                tuple(f"{label}~{put}" for put in puts if not put.startswith("-")),
            )
        committer.settle()

    return role


def _no_transaction(**about: Any) -> Any:
    raise NotImplementedError("the table has no primary key")


def _on_this(stage: Stage) -> AbstractContextManager[Any]:
    shipped = [(owner, name, getattr(owner, name)) for owner, name in _SHIPPED]
    stage.while_others_play = lambda: _all(shipped)
    ids = SimpleNamespace(uuid4=stage.around.new_uuid)
    ours = (ids, NamedRows, stage.around, lambda schema: f"user-{stage.name}")
    return _all([(owner, name, value) for (owner, name), value in zip(_SHIPPED, ours, strict=True)])


def _all(patches: Sequence[tuple[Any, str, Any]]) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for owner, name, value in patches:
        stack.enter_context(patch.object(owner, name, value))
    return stack


def adder(*keys: str) -> Role:
    """Append one file with a row of each key, whether there is one or not."""

    def role(stage: Stage) -> None:
        label = f"{stage.name}1"
        rows = [f"{label}~{key}" for key in keys]
        entry = ManifestEntry(ADD, EMPTY_ROW, 0, NO_BUCKETS, DataFile(file_of(*rows), file_size=1, row_count=len(rows)))
        request = CommitRequest(
            kind="APPEND",
            entries=(entry,),
            commit_user=f"user-{stage.name}",
            uploads=(upload(stage, entry, label),),
            remarks=Remarks(properties={COMMIT: label}),
        )
        commit_once(stage, stage.committer(), request, label)

    return role
