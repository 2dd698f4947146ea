"""Partitions that a table lacks come from another branch: which, as of when, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.table import Table

COUNTER = itertools.count()
INT = AtomicType("INT")
FIELDS = [Field(0, "p", INT), Field(1, "x", INT)]


def rows(*pairs: tuple[int | None, int]) -> pa.Table:
    return pa.table(
        {name: pa.array(values, pa.int32()) for name, values in zip("px", zip(*pairs, strict=True), strict=True)}
    )


def tables(branch_fields: Any = FIELDS) -> tuple[Table, Table]:
    """A table that falls back to branch `b`, and that branch."""
    store = MemoryStore(f"memory://fallback-{next(COUNTER)}")
    main = new_schema(FIELDS, partition_keys=["p"], options={"scan.fallback-branch": "b"})
    branch = new_schema(branch_fields, partition_keys=["p"])
    store.put("schema/schema-0", main.to_json())
    store.put("branch/branch-b/schema/schema-0", branch.to_json())
    return Table(store, main), Table(store, branch, branch="b")


def read(table: Table, where: str | None = None) -> list[tuple[Any, Any]]:
    found = table.to_arrow(where=where).to_pylist()
    assert table.count(where) == table.to_arrow(columns=[], where=where).num_rows == len(found)
    return sorted(((row["p"], row["x"]) for row in found), key=str)


def test_partitions_come_from_the_branch_where_the_table_lacks_them() -> None:
    """G8: partition by partition, whatever else a filter asks for: a partition is never of both."""
    main, branch = tables()
    branch.append(rows((1, -1), (2, -2), (None, -3)))
    assert read(main) == [(1, -1), (2, -2), (None, -3)]
    main.append(rows((1, 10), (3, 30)))
    assert read(main) == [(1, 10), (2, -2), (3, 30), (None, -3)]
    assert read(main, "x < 0") == [(2, -2), (None, -3)], "partition 1 is the table's, though none of its rows match"
    assert read(main, "p = 1") == [(1, 10)]
    assert read(main, "p = 2 OR x = 30") == [(2, -2), (3, 30)]
    assert main.plan("p = 2").file_count == 1
    assert read(branch) == [(1, -1), (2, -2), (None, -3)]


def test_the_past_of_the_branch() -> None:
    """G8: the branch's newest snapshot that is not later than the table's, else its first."""
    main, branch = tables()
    branch.append(rows((2, -2)))
    main.append(rows((1, 10)))
    branch.append(rows((2, -22)))
    snapshots = [t.timeline.snapshot(i) for t, i in ((main, 1), (branch, 1), (branch, 2))]
    for table, snapshot, time_ms in zip((main, branch, branch), snapshots, (200_000, 100_000, 300_000), strict=True):
        table.store.put(table.paths.snapshot(snapshot.id), replace(snapshot, time_ms=time_ms).to_json())
    assert read(main) == [(1, 10), (2, -2), (2, -22)]
    assert read(main.at(snapshot=1)) == [(1, 10), (2, -2)]
    first = replace(snapshots[1], time_ms=250_000)
    branch.store.put(branch.paths.snapshot(1), first.to_json())
    assert read(main.at(snapshot=1)) == [(1, 10), (2, -2)]


def test_a_branch_with_schemas_of_its_own() -> None:
    """G8: files of a branch name schemas of the branch, whose numbers the table uses for others."""
    main, branch = tables()
    wider = (*main.schema.fields, Field(2, "s", string()))
    for number, fields in ((1, FIELDS), (2, wider)):
        main.store.put(f"schema/schema-{number}", replace(main.schema, id=number, fields=tuple(fields)).to_json())
    other = replace(branch.schema, id=1, fields=wider)
    branch.append(rows((2, -2)))
    branch.store.put("branch/branch-b/schema/schema-1", other.to_json())
    Table(branch.store, other, branch="b").append(rows((2, -3)).append_column("s", pa.array(["new"])))
    table = Table(main.store, main.timeline.schema(2))
    found = sorted(table.to_arrow().to_pylist(), key=str)
    assert found == [{"p": 2, "x": -2, "s": None}, {"p": 2, "x": -3, "s": "new"}]


def test_branches_that_cannot_be_a_fallback() -> None:
    """G8: a missing branch, or one with other columns, is refused."""
    main, _ = tables([Field(0, "p", INT), Field(1, "x", string())])
    with pytest.raises(Unsupported, match=r"branch 'b'.*scan\.fallback-branch"):
        main.to_arrow()
    main.store.delete_many(["branch/branch-b/schema/schema-0"])
    with pytest.raises(InvalidArgument, match="'b', which does not exist"):
        main.to_arrow()


def test_partitions_of_a_primary_branch_come_first() -> None:
    """G8: partition by partition: what the primary branch has is read from it, and all others from the table."""
    main, branch = tables()
    options = {"scan.primary-branch": "b"}
    main = Table(main.store, replace(main.schema, option_texts=options))
    main.store.put("schema/schema-0", main.schema.to_json())
    main.append(rows((1, 10), (2, 20), (None, 30)))
    assert read(main) == [(1, 10), (2, 20), (None, 30)], "the branch is empty"
    branch.append(rows((1, -1), (3, -3), (None, -5)))
    assert read(main) == [(1, -1), (2, 20), (3, -3), (None, -5)]
    assert read(main, "x > 0") == [(2, 20)], "partition 1 is the branch's, though none of its rows match"
    assert read(main, "p = 1") == [(1, -1)]
    assert read(branch) == [(1, -1), (3, -3), (None, -5)]
    for value in range(5):
        main.append(rows((1, 100 + value)))
    plan = main.compact(full=True)
    assert plan.plan.groups, "the table's own files of partition 1 are compacted, though they are not read"
    assert read(main) == [(1, -1), (2, 20), (3, -3), (None, -5)]


def test_both_options_together_are_refused() -> None:
    main, _ = tables()
    both = {"scan.fallback-branch": "b", "scan.primary-branch": "b"}
    with pytest.raises(InvalidArgument, match="cannot both be set"):
        Table(main.store, replace(main.schema, option_texts=both)).plan()
    missing = Table(main.store, replace(main.schema, option_texts={"scan.primary-branch": "x"}))
    with pytest.raises(InvalidArgument, match=r"scan\.primary-branch.*'x', which does not exist"):
        missing.plan()
