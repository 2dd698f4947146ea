"""A handle follows the schema changes of other handles; a table of `at()` stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from fragile import Fragile

import lakelatch as ll
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import CommitConflict, InvalidArgument, TableNotFound
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

FIELDS = pa.schema([("p", pa.string()), ("v", pa.int32())])


class Shared:
    """One table with two handles. The first is warm: it has just committed."""

    def __init__(self) -> None:
        self.store = Fragile()
        made = new_schema(from_arrow_schema(FIELDS), partition_keys=["p"], options={"commit.min-retry-wait": "1 ms"})
        self.store.put("schema/schema-0", made.to_json())
        self.table, self.other = self.opened(), self.opened()
        self.table.append(rows(1))

    def opened(self) -> Table:
        first = self.store.get("schema/schema-0")
        return Table(self.store, Timeline(self.store, TablePaths()).latest_schema(), first_schema=first)

    def written_as(self) -> list[int]:
        """The schema of each data file."""
        return sorted(entry.file.schema_id for entry in self.opened().entries())


def rows(*values: int, **more: Any) -> pa.Table:
    return pa.table({"p": ["a"] * len(values), "v": pa.array(values, pa.int32()), **more})


@pytest.fixture
def shared() -> Shared:
    return Shared()


READS: dict[str, Callable[[Table], Any]] = {
    "to_arrow": lambda t: t.to_arrow().column_names,
    "to_arrow of columns": lambda t: t.to_arrow(columns=["p", "v", "w"]).column_names,
    "to_batches": lambda t: next(t.to_batches()).schema.names,
    "to_pandas": lambda t: list(t.to_pandas().columns),
    "plan": lambda t: ["p", "v", "w"] if t.plan("w is null").schema_id == 1 else [],
    "count": lambda t: ["p", "v", "w"] if t.count("w is null") == 1 else [],
    "refresh": lambda t: list(t.refresh().schema.names),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_sees_a_column_that_another_handle_added(shared: Shared, read: Callable[[Table], Any]) -> None:
    shared.other.alter(ll.add_column("w", "INT"))
    assert read(shared.table) == ["p", "v", "w"]
    assert list(shared.table.schema.names) == ["p", "v", "w"], "the handle keeps what it saw"


def test_the_listings_of_files_and_partitions_follow_too(shared: Shared) -> None:
    shared.other.alter(ll.rename_column("v", "x"))
    assert shared.table.files().num_rows == shared.table.partitions().num_rows == 1
    assert shared.table.schema.names == ("p", "x")


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda t: t,
    "batches": lambda t: t.to_batches(),
    "pandas": lambda t: t.to_pandas(),
    "reader": lambda t: t.to_reader(),
    "generator": lambda t: iter(t.to_batches()),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_append_takes_a_column_that_another_handle_added(shared: Shared, form: Callable[[pa.Table], Any]) -> None:
    shared.other.alter(ll.add_column("w", "INT"))
    shared.table.append(form(rows(2, w=pa.array([20], pa.int32()))))
    assert shared.other.to_arrow(where="v = 2").to_pylist() == [{"p": "a", "v": 2, "w": 20}]
    assert shared.written_as() == [0, 1]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("change", [ll.drop_column("v"), ll.rename_column("v", "x")], ids=["dropped", "renamed"])
def test_rows_for_a_column_that_is_gone_are_refused_and_not_lost(
    shared: Shared, change: Any, form: Callable[[pa.Table], Any]
) -> None:
    shared.other.alter(change)
    committer, before = shared.table.committer, {info.key for info in shared.store.list("")}
    with pytest.raises(InvalidArgument, match="the table has no column 'v'"):
        shared.table.append(form(rows(2)))
    committer.settle()
    assert {info.key for info in shared.store.list("")} == before, "no file of the refused append stays"


def test_rows_are_written_again_with_the_type_that_another_handle_chose(shared: Shared) -> None:
    shared.other.alter(ll.update_type("v", "BIGINT"))
    committer, before = shared.table.committer, len(list(shared.store.list("")))
    receipt = shared.table.append(rows(2))
    assert (receipt.snapshot_id, shared.written_as()) == (2, [0, 1])
    assert shared.other.to_arrow()["v"].type == pa.int64()
    committer.settle()
    # snapshot, two lists, manifest and one data file: nothing of the first try is left
    assert len(list(shared.store.list(""))) == before + 5


def test_an_overwrite_and_a_transaction_follow(shared: Shared) -> None:
    shared.other.alter(ll.add_column("w", "INT"))
    shared.table.overwrite(rows(3, w=pa.array([30], pa.int32())), partition={"p": "a"})
    shared.other.alter(ll.rename_column("w", "x"))
    with shared.table.transaction() as tx:
        tx.append(rows(4, x=pa.array([40], pa.int32())))
        tx.append(iter(rows(5, x=pa.array([50], pa.int32())).to_batches()))
    assert sorted(shared.other.to_arrow()["x"].to_pylist()) == [30, 40, 50]


def test_an_overwrite_that_starts_again_keeps_the_rows_that_came_meanwhile(shared: Shared) -> None:
    """It was to replace what was there when it was called, not what came while it wrote its rows again."""
    shared.other.alter(ll.update_type("v", "BIGINT"))
    third = shared.opened()
    shared.store.before["put manifest/manifest-"] = lambda: third.append(rows(7)) and None
    shared.table.overwrite(rows(9), partition={"p": "a"})
    assert sorted(shared.other.to_arrow()["v"].to_pylist()) == [7, 9]


def test_a_real_conflict_is_not_retried_for_a_newer_schema(shared: Shared) -> None:
    shared.other.alter(ll.add_column("w", "INT"))
    read = shared.table.snapshot()
    assert read is not None
    shared.other.append(rows(2))
    looks: list[str] = []
    listed = shared.store.list
    shared.store.list = lambda prefix: looks.append(prefix) or listed(prefix)  # type: ignore[method-assign, func-returns-value]
    shared.table.refresh()
    with pytest.raises(CommitConflict):
        shared.table.overwrite(rows(3), partition={"p": "a"}, isolation="serializable", read_snapshot=read.id)
    assert looks.count("snapshot/") < 3, "it was tried once"
    assert sorted(shared.other.to_arrow()["v"].to_pylist()) == [1, 2]


def test_a_table_of_the_past_stays_as_it_was(shared: Shared) -> None:
    past = shared.table.at(snapshot=1)
    shared.other.alter(ll.add_column("w", "INT"))
    shared.other.append(rows(2))
    assert past.refresh() is past
    assert past.to_arrow().to_pylist() == [{"p": "a", "v": 1}]
    assert past.schema.names == ("p", "v")


def test_an_append_whose_exact_repeat_met_another_schema_lands_once(shared: Shared) -> None:
    shared.table.append(rows(2), commit_user="etl", identifier=1)
    shared.other.alter(ll.drop_column("v"))
    assert shared.table.append(rows(2), commit_user="etl", identifier=1).replayed


def test_a_handle_of_a_table_that_was_made_again_says_so(shared: Shared) -> None:
    shared.other.alter(ll.add_column("w", "INT"))
    shared.table.refresh()
    for info in list(shared.store.list("")):
        shared.store.delete_many([info.key])
    with pytest.raises(TableNotFound, match="open the table again"):
        shared.table.to_arrow()
    made = new_schema(from_arrow_schema(pa.schema([("z", pa.string())])), options={})
    shared.store.put("schema/schema-0", made.to_json())
    with pytest.raises(TableNotFound, match="open the table again"):
        shared.table.to_arrow()
