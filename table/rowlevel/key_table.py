"""Changes of rows in tables with a primary key: rows are read by condition, and written again or deleted by their keys.

Owns: `KeyChange`; which merge engines can update or delete. Must not know: expressions, how rows are merged or numbered, retries.
Source: format/primary-keys §9; architecture §3 (isolation); H14.

Invariants: What is written is what was read, changed, under the same key: a key is never given another value. Where a changelog
of the input is kept, it has the row before and after. A row that another job writes or removes meanwhile is a conflict, and so is
one that is committed and cannot be read yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...coordinator.commit.request import RowsRead
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.errors import InvalidArgument, Unsupported
from ...core.expressions.tree import Predicate
from ...core.file_index.keys import key_array
from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import MergeRules, merge_rules
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ...core.rows.types import AtomicType
from ...core.statistics.pruning import split_predicate
from ..reading.arrow import SplitReader
from ..scan.fallback import file_schemas_of
from ..scan.file_pruning import FilePruner
from ..scan.plan import ScanPlan, plan_scan
from ..writing.row_kinds import columns_to_delete, has_groups
from ..writing.transaction import Transaction
from .append_table import Counts
from .operation import DELETED, Operation, distinct, made

_KIND = "__row_kind"
_BEFORE, _AFTER, _GONE, _NEW = "-U", "+U", "-D", "+I"


@dataclass
class KeyChange:
    """One change of rows; each attempt reads and writes anew. Refuses what the merge engine cannot do."""

    store: Store
    schema: TableSchema
    operation: Operation

    def __post_init__(self) -> None:
        rules = merge_rules(self.schema)
        assert rules is not None
        self._rules = rules
        self._kind = self.schema.options.get(opt.ROW_KIND_FIELD) or _KIND
        self._images = self.schema.option_texts.get("changelog-producer", "none").strip().lower() == "input"
        self._images = self._images and not self.schema.options.get(opt.IGNORE_UPDATE_BEFORE)
        if self.operation.updates:
            _check_updates(self.schema, rules)

    def planned(self, timeline: Timeline, snapshot: Snapshot | None) -> ScanPlan:
        scan = plan_scan(timeline, snapshot, self.schema, self.operation.predicate)
        for split in scan.splits:
            if split.branch != timeline.paths.branch:
                raise Unsupported(
                    f"rows of branch '{split.branch}' (option '{opt.FALLBACK_BRANCH.key}') are concerned, which cannot be"
                    " changed from here",
                    next_step="change them in their branch, or choose other partitions",
                )
        return scan

    def unseen(self, timeline: Timeline, scan: ScanPlan) -> list[ManifestEntry]:
        """Files with rows that it may concern, and that are not seen before a compaction."""
        return list(filter(self._concerns(timeline), scan.unseen)) if scan.unseen else []

    def written(
        self, timeline: Timeline, scan: ScanPlan, begin: Callable[[], Transaction]
    ) -> tuple[Transaction, Counts]:
        """Read the rows of a plan, and commit what becomes of them."""
        schemas = file_schemas_of(timeline, self.schema, scan.splits)
        reader = SplitReader(self.schema, None, scan.residual, schemas)
        tally = {DELETED: 0, 0: 0}
        read = RowsRead(scan.snapshot, self._concerns(timeline), absent=True)
        with begin() as tx:
            if tx.replayed:
                return tx, Counts()
            tx.reads_rows(read, self.operation.word)
            met = [np.zeros(0, np.int64)]
            for batch in reader.batches(self.store, scan.splits):
                for rows in self._changed(batch, tally, met):
                    tx.upsert(rows, row_kind=self._kind)
            new = self.operation.inserted(distinct(np.concatenate(met)))
            if new is not None:
                self._refuse_two(new)
                for batch in new.to_batches():
                    tx.upsert(self._of_kind(batch, _NEW), row_kind=self._kind)
        inserted = 0 if new is None else new.num_rows
        return tx, Counts(inserted, tally[0], tally[DELETED], files_read=scan.file_count)

    def _concerns(self, timeline: Timeline) -> Callable[[ManifestEntry], bool]:
        """May a new file hold keys that the operation concerns? Only conditions on keys can leave one out.

        A row that is written again replaces what another job writes meanwhile, and brings back what another job removes,
        whichever isolation is asked for.
        """
        predicate = self.operation.predicate
        names = {*self.schema.primary_keys, *self.schema.partition_keys}
        on_keys: Predicate | None = None
        if predicate is not None:
            on_keys, _ = split_predicate(predicate, sorted(names))
        if on_keys is None:
            return lambda entry: True
        schema = self.schema

        def schema_of(schema_id: int) -> TableSchema:
            return schema if schema_id == schema.id else timeline.schema(schema_id)

        return FilePruner(on_keys, schema, schema_of, codec_of(schema)).may_match

    def _changed(self, batch: pa.RecordBatch, tally: dict[int, int], met: list[Any]) -> Iterator[pa.RecordBatch]:
        found = self.operation.find(batch.select(list(self.operation.columns)) if self.operation.columns else batch)
        met.append(found.met)
        gone = found.rows[found.actions == DELETED]
        if len(gone):
            _check_deletes(self._rules)
            tally[DELETED] += len(gone)
            yield self._of_kind(batch.take(pa.array(gone)), _GONE)
        updated = found.actions != DELETED
        if updated.any():
            old = batch.take(pa.array(found.rows[updated]))
            tally[0] += old.num_rows
            done = 0
            for new in made(self.operation, old, found.actions[updated], found.sources[updated]):
                before = old.slice(done, new.num_rows)
                done += new.num_rows
                self._check(before, new)
                if self._images:
                    yield self._of_kind(before, _BEFORE)
                yield self._of_kind(new, _AFTER)

    def _of_kind(self, batch: pa.RecordBatch, kind: str) -> pa.RecordBatch:
        kinds = pa.repeat(kind, batch.num_rows)
        place = batch.schema.get_field_index(self._kind)
        if place < 0:
            return batch.append_column(self._kind, kinds)
        return batch.set_column(place, self._kind, kinds.cast(batch.schema.field(place).type))

    def _check(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        for name in self.schema.primary_keys:
            if not _same(old.column(name), new.column(name)).all():
                raise InvalidArgument(
                    f"column '{name}' is part of the primary key, so that it cannot get another value",
                    next_step="delete the rows, and insert them with their new keys",
                )
        for name in self._rules.sequence_fields:
            self._check_order(old.column(name), new.column(name), name)
        if self._rules.engine == "partial-update":
            for field in self.schema.fields:
                if pc.any(pc.and_(pc.is_null(new.column(field.name)), pc.is_valid(old.column(field.name)))).as_py():
                    raise Unsupported(
                        f"column '{field.name}' cannot become null: option 'merge-engine' = partial-update keeps the value that"
                        " a row had before",
                        next_step="delete the row, and insert it again",
                    )

    def _check_order(self, old: pa.Array, new: pa.Array, name: str) -> None:
        """The row with the newer value of `sequence.field` counts, so that it must not become older."""
        ordered = pc.less_equal(new, old) if self._rules.descending else pc.greater_equal(new, old)
        kept = pc.or_(pc.fill_null(ordered, False), pc.is_null(old))
        if not pc.all(kept).as_py():
            raise InvalidArgument(
                f"column '{name}' (option 'sequence.field') would become older, and the old row would be kept",
                next_step="give it a newer value, or leave it as it is",
            )

    def _refuse_two(self, rows: pa.Table) -> None:
        names = list(self.schema.primary_keys)
        keys = rows.select(names)
        groups = keys.group_by(names).aggregate([([], "count_all")])
        if groups.num_rows == rows.num_rows:
            return
        twice = groups.filter(pc.greater(groups.column("count_all"), 1)).select(names).slice(0, 1).to_pylist()[0]
        told = ", ".join(f"{name} = {value!r}" for name, value in twice.items())
        raise InvalidArgument(
            f"two rows of the source would be inserted with the same primary key: {told}",
            next_step="leave one row for each key in the source",
        )


def _same(a: pa.Array, b: pa.Array) -> Any:
    """Which keys are the same to the format, in which -0.0 and 0.0 are two, and every NaN is one."""
    if pa.types.is_floating(a.type):
        a, b = (key_array(each, AtomicType("DOUBLE")) for each in (a.cast(pa.float64()), b.cast(pa.float64())))
    both = pc.and_(pc.is_null(a), pc.is_null(b))
    equal = pc.fill_null(pc.equal(a, b.cast(a.type)), False)
    return pc.or_(both, equal).to_numpy(zero_copy_only=False)


def _check_updates(schema: TableSchema, rules: MergeRules) -> None:
    """Refuse merge engines that do not replace a row by the one that is written after it."""
    if rules.engine == "deduplicate":
        return
    functions = [k for k in rules.texts if k.startswith("fields.") and k.endswith(".aggregate-function")]
    if rules.engine == "partial-update" and not has_groups(rules) and not functions:
        return
    because = " with sequence groups or aggregate functions" if rules.engine == "partial-update" else ""
    raise Unsupported(
        f"rows of a table with option 'merge-engine' = {rules.engine}{because} cannot be updated: the engine makes a row out of"
        " all that were written under its key",
        next_step="upsert rows that the engine merges to what you want, or delete and insert them",
    )


def _check_deletes(rules: MergeRules) -> None:
    try:
        columns_to_delete(rules)
    except InvalidArgument as error:
        raise Unsupported(error.message, next_step=error.next_step) from None
