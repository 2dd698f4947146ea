"""Changes of rows in tables with data evolution: only the columns that get new values are written.

Owns: `EvolvingChange`. Must not know: expressions, how the new columns are laid out (`column_update`), retries.
Source: format/data-files §7; architecture §3 (isolation).
Invariants: A row keeps its id and its place. The files of an attempt that was not committed are deleted, or become orphans. Rows
go only with their whole partition: Apache Paimon 1.4 refuses deletion vectors in these tables, and a copy would be new rows.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage, entries_of
from ...coordinator.commit.request import ColumnChange, Isolation, Remarks, RowChange, RowsRead
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.errors import Unsupported
from ...core.metadata.schema import ROW_ID, TableSchema
from ...core.metadata.snapshot import Snapshot
from ..column_update import updated_columns
from ..reading.arrow import SplitReader
from ..scan.fallback import file_schemas_of
from ..scan.plan import plan_scan
from ..writing.unfinished import discard
from ..writing.writer import TableWriter, check_writable, keys_of
from .append_table import AppendChange, Counts, Planned
from .operation import DELETED, Operation, distinct, made


@dataclass
class EvolvingChange:
    """One change of rows; each attempt reads and writes anew."""

    store: Store
    schema: TableSchema
    operation: Operation
    _messages: list[CommitMessage] = field(default_factory=list)
    _whole: AppendChange | None = None

    def __post_init__(self) -> None:
        check_writable(self.schema)

    def plan(self, timeline: Timeline, snapshot: Snapshot | None) -> Planned:
        """What the change means on a snapshot. Refuses to delete single rows, which this kind of table cannot do."""
        self._messages, self._whole = [], None
        scan = plan_scan(timeline, snapshot, self.schema, self.operation.predicate)
        if self.operation.deletes_all and scan.residual is None:
            self._whole = AppendChange(self.store, self.schema, self.operation)
            planned = self._whole.plan(timeline, snapshot)
            return replace(planned, counts=replace(planned.counts, rows_deleted=scan.row_count))
        assigned = sorted(self.operation.assigned)
        reader = SplitReader(
            self.schema,
            [ROW_ID.name, *self.schema.names],
            scan.residual,
            file_schemas_of(timeline, self.schema, scan.splits),
        )
        met, new, updated = [np.zeros(0, np.int64)], list[pa.Table](), 0
        for batch in reader.batches(self.store, scan.splits):
            columns = list(self.operation.columns)
            found = self.operation.find(batch.select(columns) if columns else batch)
            met.append(found.met)
            if (found.actions == DELETED).any():
                raise Unsupported(
                    f"option '{opt.DATA_EVOLUTION.key}' = true: single rows cannot be deleted",
                    next_step="delete whole partitions, by a condition on their columns, or mark rows in a column of your own",
                )
            if not len(found.rows):
                continue
            rows = batch.take(pa.array(found.rows))
            updated += rows.num_rows
            parts = made(self.operation, rows.select(self.schema.names), found.actions, found.sources)
            part = pa.Table.from_batches(parts).select(assigned)
            new.append(part.append_column(ROW_ID.name, rows.column(ROW_ID.name)))
        if new and assigned:
            self._messages += updated_columns(self.store, timeline, self.schema, snapshot, pa.concat_tables(new))
        inserted = self.operation.inserted(distinct(np.concatenate(met)))
        if inserted is not None:
            self._messages += self._written(inserted)
        counts = Counts(0 if inserted is None else inserted.num_rows, updated, files_read=scan.file_count)
        return Planned(tuple(self._messages), snapshot, counts)

    def _written(self, rows: pa.Table) -> list[CommitMessage]:
        writer = TableWriter(self.store, self.schema, str(uuid.uuid4()), travelling=True)
        try:
            for batch in rows.to_batches():
                writer.write_batch(batch)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def request(
        self,
        planned: Planned,
        timeline: Timeline,
        *,
        commit_user: str,
        identifier: int | None,
        isolation: Isolation,
        properties: dict[str, str],
    ) -> RowChange:
        """The commit of a plan. Columns of rows that others changed meanwhile are a conflict in either isolation."""
        if self._whole is not None:
            return self._whole.request(
                planned,
                timeline,
                commit_user=commit_user,
                identifier=identifier,
                isolation=isolation,
                properties=properties,
            )
        concerns = AppendChange(self.store, self.schema, self.operation).concerns(timeline)
        read = RowsRead(planned.read, concerns, self.operation.absent)
        return ColumnChange(
            kind="APPEND",
            entries=entries_of(planned.messages),
            commit_user=commit_user,
            identifier=identifier,
            uploads=tuple(upload for m in planned.messages for upload in m.uploads),
            read_snapshot=planned.read,
            isolation=isolation,
            remarks=Remarks(self.operation.word, None, properties),
            rows_read=read if isolation == "serializable" else None,
        )

    def discard(self, everything: bool) -> None:
        messages, self._messages = self._messages, []
        discard(self.store, keys_of(self.schema, messages))

    def landed(self, planned: Planned) -> None:
        """Each plan writes its own files, so that nothing is left of earlier ones."""
