"""A table's rows as an Arrow dataset, for tools that push their columns and filters down.

Owns: `TableDataset`. Must not know: how a scan is planned, how files are read.
Sources: architecture §5; format/statistics §3.

Invariants: A dataset shows one snapshot, also to a query that scans it several times (G4). Nothing is read before a scan is
asked for. The tool's filter is always evaluated by Arrow on the rows that are left, so it keeps exactly the rows that Arrow says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from ..coordinator.history.timeline import Timeline
from ..core.errors import Unsupported
from ..core.expressions.arrow_filters import names_in, wider_predicate
from ..core.expressions.tree import Predicate
from ..core.metadata.schema import TableSchema
from ..core.metadata.snapshot import Snapshot
from .reading.arrow import arrow_schema_of, read_batches
from .scan.plan import ScanPlan, count_rows, plan_scan
from .scan.split import Split

_FIRST_PARTS = 16
"""Each of the first file's batches comes in so many parts, as some tools ask for one more before they stop."""

Columns = Sequence[str] | Mapping[str, Any] | None


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of one snapshot as a `pyarrow.dataset.Dataset`. Made by `Table.to_dataset`.

    DuckDB and polars (`scan_pyarrow_dataset`) ask it for the columns and rows that a query needs: files are left out by
    partition, bucket, statistics and index as in `Table.to_arrow`, and only the columns of the query are read. What belongs
    to files of one format (`get_fragments`, `replace_schema`, `join`) it does not have.
    """

    def __init__(
        self, timeline: Timeline, snapshot: Snapshot | None, schema: TableSchema, as_of_ms: int | None = None
    ) -> None:
        # The constructor of the base class refuses to run: it is for datasets that Arrow makes itself.
        self._timeline, self._snapshot, self._table_schema, self._as_of_ms = timeline, snapshot, schema, as_of_ms

    def __repr__(self) -> str:
        at = "no snapshot yet" if self._snapshot is None else f"snapshot {self._snapshot.id}"
        return f"TableDataset({self._timeline.store.url}, {at})"

    def __reduce__(self) -> NoReturn:
        raise Unsupported("a dataset of a table cannot be pickled", next_step="open the table where it is read")

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return arrow_schema_of(self._table_schema, None)

    @property
    def partition_expression(self) -> Any:
        """True: nothing is known of all rows."""
        return ds.scalar(True)

    def plan(self, filter: Any = None, columns: Sequence[str] | None = None) -> ScanPlan:  # noqa: A002
        """The plan of a scan, to see what a filter leaves out.

        Args:
            filter: a `pyarrow.compute.Expression`.
            columns: the columns that are read; None = all.
        """
        return self._planned(self._predicate(filter), columns)

    def scanner(self, columns: Columns = None, filter: Any = None, **options: Any) -> Any:  # noqa: A002
        """A scan of the rows, as of any Arrow dataset. It can be read once.

        It is a `pyarrow.dataset.Scanner` where Arrow has something to compute, or is told which threads to use. Otherwise it has
        the same methods, and reads no file before somebody asks for its rows: Arrow's scanner would read many ahead.

        Args:
            columns: column names, or new names with expressions; None = all.
            filter: a `pyarrow.compute.Expression`.
            options: Arrow's other options. `batch_size`, `use_threads` and `memory_pool` apply to what Arrow does with the rows;
                those of single files are ignored.

        Raises:
            InvalidArgument: an unknown column.
        """
        needed = self._needed(columns, filter)
        rows = self._rows(self._planned(self._predicate(filter), needed), needed)
        known: dict[str, Any] = {
            name: options[name] for name in ("batch_size", "use_threads", "memory_pool") if name in options
        }
        if needed is not None and not needed:
            return _counted(rows, known)
        reader = pa.RecordBatchReader.from_batches(arrow_schema_of(self._table_schema, needed), rows)
        if filter is None and not isinstance(columns, Mapping) and "use_threads" not in options:
            return _PlainScan(reader, options.get("batch_size"))
        return ds.Scanner.from_batches(
            reader, columns=dict(columns) if isinstance(columns, Mapping) else columns, filter=filter, **known
        )

    def to_table(self, columns: Columns = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """The rows as one Arrow table. The arguments are those of `scanner`."""
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(self, columns: Columns = None, filter: Any = None, **options: Any) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """The rows as record batches. The arguments are those of `scanner`."""
        return iter(self.scanner(columns, filter, **options).to_batches())

    def head(self, num_rows: int, columns: Columns = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """The first rows. The arguments are those of `scanner`."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """The rows at these positions. The arguments are those of `scanner`."""
        return self.scanner(columns, filter, **options).take(indices)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002
        """The number of rows. Without a filter, only metadata is read where it gives the exact number."""
        if filter is None:
            known = count_rows(self._planned(None, []))
            if known is not None:
                return known
        return int(self.scanner([], filter, **options).count_rows())

    def get_fragments(self, filter: Any = None) -> NoReturn:  # noqa: A002
        self._lacks("get_fragments")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        self._lacks("replace_schema")

    def filter(self, expression: Any) -> NoReturn:
        self._lacks("filter")

    def join(self, *args: Any, **options: Any) -> NoReturn:
        self._lacks("join")

    def join_asof(self, *args: Any, **options: Any) -> NoReturn:
        self._lacks("join_asof")

    def sort_by(self, *args: Any, **options: Any) -> NoReturn:
        self._lacks("sort_by")

    def _lacks(self, what: str) -> NoReturn:
        raise Unsupported(
            f"a dataset of a table has no {what}",
            next_step="use scanner(columns=…, filter=…), or to_table(…) and then Arrow's own functions",
        )

    def _predicate(self, expression: Any) -> Predicate | None:
        return None if expression is None else wider_predicate(expression, self._table_schema.fields)

    def _planned(self, predicate: Predicate | None, columns: Sequence[str] | None) -> ScanPlan:
        return plan_scan(self._timeline, self._snapshot, self._table_schema, predicate, columns, self._as_of_ms)

    def _rows(self, plan: ScanPlan, names: list[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of a plan. Who wants the first rows only ends the scan after a few batches, so the first file comes alone, in
        several parts; all others are read side by side, ahead of the reader."""
        first, others = _first_run(plan.splits)
        for batch in read_batches(self._timeline, replace(plan, splits=first), self._table_schema, names):
            size = max(batch.num_rows // _FIRST_PARTS, 1)
            yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))
        if others:
            yield from read_batches(self._timeline, replace(plan, splits=others), self._table_schema, names)

    def _needed(self, columns: Columns, expression: Any) -> list[str] | None:
        """The columns that a scan reads; None for all."""
        if columns is None:
            return None
        fields = self._table_schema.fields
        names: set[str] = set()
        if isinstance(columns, Mapping):
            for computed in columns.values():
                names |= names_in(computed, fields)
        else:
            names |= set(columns)
            arrow_schema_of(self._table_schema, list(dict.fromkeys(columns)))  # an unknown name is an error
        if expression is not None:
            names |= names_in(expression, fields)
        return [f.name for f in fields if f.name in names]


class _PlainScan:
    """The scan of a dataset's rows as they are; the methods of `pyarrow.dataset.Scanner`."""

    def __init__(self, reader: pa.RecordBatchReader, batch_size: int | None) -> None:
        self._reader, self._batch_size = reader, batch_size

    @property
    def dataset_schema(self) -> pa.Schema:
        return self._reader.schema

    @property
    def projected_schema(self) -> pa.Schema:
        return self._reader.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            size = self._batch_size or max(batch.num_rows, 1)
            yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._reader.schema, self.to_batches())

    def to_table(self) -> pa.Table:
        return self._reader.read_all()

    def head(self, num_rows: int) -> pa.Table:
        found, left = list[pa.RecordBatch](), num_rows
        while left > 0 and (batch := next(iter(self._reader), None)) is not None:
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
        return pa.Table.from_batches(found, self._reader.schema)

    def take(self, indices: Any) -> pa.Table:
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self._reader)


def _first_run(splits: Sequence[Split]) -> tuple[tuple[Split, ...], Sequence[Split]]:
    """The first file of the splits as a split of its own, and the splits of all others."""
    if not splits:
        return (), ()
    first, others = splits[0], tuple(splits[1:])
    if first.sections or first.is_one_run or len(first.files) == 1:
        return (first,), others
    parts = [
        replace(first, files=first.files[here], keys=first.keys[here], deletions=first.deletions[here])
        for here in (slice(1), slice(1, None))
    ]
    return (parts[0],), (parts[1], *others)


def _counted(rows: Iterator[pa.RecordBatch], options: Mapping[str, Any]) -> ds.Scanner:
    """A scan of no columns, which has the right number of rows: Arrow needs a column to count them by."""
    schema = pa.schema([("", pa.null())])
    batches = (pa.record_batch([pa.nulls(batch.num_rows)], schema=schema) for batch in rows)
    return ds.Scanner.from_batches(pa.RecordBatchReader.from_batches(schema, batches), columns=[], **options)
