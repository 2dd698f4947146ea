"""Changes between snapshots and between tags: what a range holds, and that an older state and its changes give the newer one."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.changelog.row_difference import differing_rows
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIELDS = [Field(0, "p", AtomicType("INT")), Field(1, "x", AtomicType("DOUBLE")), Field(2, "s", string())]
Row = tuple[Any, ...]


def new_table(fields: Any = None, **more: Any) -> Table:
    store = MeteredStore(MemoryStore(f"memory://changes-{next(COUNTER)}"))
    schema = new_schema(fields or FIELDS, **({"partition_keys": ["p"]} | more))
    store.put("schema/schema-0", schema.to_json())
    return Table(store, schema)


def batch(*rows: Row) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    types = [pa.int32(), pa.float64(), pa.string()]
    return pa.Table.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], ["p", "x", "s"])


def tag(table: Table, name: str, snapshot: int) -> None:
    table.store.put(f"tag/tag-{name}", table.store.get(f"snapshot/snapshot-{snapshot}"))


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(repr([row[name] for name in ("p", "x", "s")]) for row in table.to_pylist())


def applied(rows: Counter[str], changes: pa.Table) -> Counter[str]:
    """The rows after their changes; each row that goes must have been there."""
    after = Counter(rows)
    for row in changes.to_pylist():
        text = repr([row[name] for name in ("p", "x", "s")])
        after[text] += 1 if row["_row_kind"] == "+I" else -1
        assert after[text] >= 0, f"{text} goes, but was not there"
    return +after


# --------------------------------------------------------------------------------------------------- what a range holds


def test_appended_rows_come_with_their_kind_snapshot_and_time() -> None:
    table = new_table()
    first = table.append(batch((1, 1.0, "a"), (2, 2.0, "b")))
    table.append(batch((1, 3.0, "c")))
    found = table.changes(0).read_all()
    assert found.column_names == ["p", "x", "s", "_row_kind", "_snapshot_id", "_commit_time"]
    assert [(r["s"], r["_row_kind"], r["_snapshot_id"]) for r in found.to_pylist()] == [
        ("a", "+I", 1),
        ("b", "+I", 1),
        ("c", "+I", 2),
    ]
    moment = table.at(snapshot=first.snapshot_id).snapshot()
    assert moment is not None
    assert found["_commit_time"][0].as_py() == dt.datetime.fromtimestamp(moment.time_ms / 1000, dt.timezone.utc)
    assert found.schema.equals(table.changes(0, 1).schema)


def test_the_start_is_left_out_and_the_end_is_not() -> None:
    """As Apache Paimon's incremental-between."""
    table = new_table()
    for i in range(4):
        table.append(batch((1, float(i), "s")))
    assert table.changes(1, 3).read_all()["x"].to_pylist() == [1.0, 2.0]
    assert table.changes(2, 2).read_all().num_rows == 0
    assert table.at(snapshot=2).changes(0).read_all()["x"].to_pylist() == [0.0, 1.0]


def test_an_overwrite_reports_what_differs() -> None:
    """A row that an overwrite writes again did not change; Apache Paimon leaves such snapshots out."""
    table = new_table()
    table.append(batch((1, 1.0, "a"), (1, 1.0, "a"), (1, 2.0, "b"), (2, 9.0, "z")))
    table.overwrite(batch((1, 1.0, "a"), (1, 3.0, "c")), partition={"p": 1})
    changed = table.changes(1).read_all().select(["_row_kind", "x"]).to_pylist()
    assert changed == [
        {"_row_kind": "-D", "x": 1.0},
        {"_row_kind": "-D", "x": 2.0},
        {"_row_kind": "+I", "x": 3.0},
    ]
    assert table.changes(1, overwrites=False).read_all().num_rows == 0
    assert table.changes(0, overwrites=False).read_all().num_rows == 4


def test_a_compaction_changes_nothing_and_reads_no_data_file() -> None:
    table = new_table(partition_keys=[])
    for i in range(6):
        table.append(batch((1, float(i), "s")))
    table.compact(min_files=2)
    newest = table.snapshot()
    assert newest is not None and newest.commit_kind == "COMPACT"
    for info in [i for i in table.store.list("") if "bucket-0/" in i.key]:
        table.store.delete_many([info.key])
    assert table.changes(newest.id - 1).read_all().num_rows == 0


def test_a_compaction_that_loses_rows_is_not_taken_for_one() -> None:
    """H22: a snapshot is judged by its files, not by its kind, which others choose."""
    table = new_table()
    table.append(batch((1, 1.0, "a"), (1, 2.0, "b")))
    table.overwrite(batch((1, 1.0, "a")), partition={})
    newest = table.snapshot()
    assert newest is not None
    table.store.put("snapshot/snapshot-2", replace(newest, commit_kind="COMPACT").to_json())
    changed = table.changes(1).read_all()
    assert [(r["s"], r["_row_kind"]) for r in changed.to_pylist()] == [("b", "-D")]


def test_between_tags_the_two_states_are_compared() -> None:
    """What came and went in between is not reported, nor what a compaction moved."""
    table = new_table()
    table.append(batch((1, 1.0, "a")))
    table.append(batch((2, 2.0, "passing")))
    table.drop_partitions([{"p": 2}])
    table.append(batch((1, 3.0, "c")))
    table.compact(min_files=2)
    newest = table.snapshot()
    assert newest is not None
    tag(table, "before", 1)
    tag(table, "after", newest.id)
    found = table.changes("before", "after").read_all().to_pylist()
    assert [(r["s"], r["_row_kind"], r["_snapshot_id"]) for r in found] == [("c", "+I", newest.id)]
    assert table.changes("after", "after").read_all().num_rows == 0


def test_columns_and_filters_choose_from_the_changes() -> None:
    """Rows are compared in all columns, also where only some are read."""
    table = new_table()
    table.append(batch((1, 1.0, "a"), (2, 2.0, "b")))
    table.overwrite(batch((1, 7.0, "a"), (2, 2.0, "b")), partition={})
    found = table.changes(1, columns=["s"]).read_all()
    assert found.column_names == ["s", "_row_kind", "_snapshot_id", "_commit_time"]
    assert [(r["s"], r["_row_kind"]) for r in found.to_pylist()] == [("a", "-D"), ("a", "+I")]
    assert table.changes(0, where="p = 2 AND x > 1").read_all()["s"].to_pylist() == ["b"]
    assert table.changes(1, where="x = 7").read_all()["_row_kind"].to_pylist() == ["+I"]
    assert table.changes(0, columns=[]).read_all().num_rows == 4
    assert table.changes(0, where=ll.col("p") == 99).read_all().num_rows == 0


def test_rows_are_read_with_the_newest_schema() -> None:
    table = new_table()
    table.append(batch((1, 1.0, "a")))
    table.alter(ll.rename_column("s", "note"), ll.add_column("y", "INT"))
    assert table.changes(0, columns=["note", "y"]).read_all().select([0, 1]).to_pylist() == [{"note": "a", "y": None}]
    Table(table.store, table.schema).alter(ll.add_column("z", "INT"))
    assert table.changes(0, columns=["z"]).read_all()["z"].to_pylist() == [None], "another handle added the column"


def test_changes_of_a_few_snapshots_take_few_requests() -> None:
    """For each snapshot: itself, its list, its manifest, its data file. Nothing of the state before is read."""
    table = new_table(partition_keys=[])
    for i in range(12):
        table.append(batch((1, float(i), "s")))
    table.committer.settle()
    table.store.reset()
    assert table.changes(10, 12).read_all().num_rows == 2
    asked = table.store.snapshot().by_operation
    assert asked["get"] <= 3 + 3 + 2 * 3 and asked["list"] <= 3, asked


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((3, 9), "no snapshot 9.*newest is snapshot 4"),
        ((3, 2), "start 3 is after end 2"),
        ((-1, 2), "start -1 is not a snapshot id"),
        (("eod", 2), "both be tags"),
        ((1, "eod"), "both be tags"),
        (("none", "eod"), "no tag 'none'.*tags are: eod"),
        ((True, 2), "True is not a snapshot id"),
    ],
)
def test_a_range_that_is_not_there(arguments: Any, said: str) -> None:
    table = new_table()
    for i in range(4):
        table.append(batch((1, float(i), "s")))
    tag(table, "eod", 3)
    with pytest.raises(InvalidArgument, match=said):
        table.changes(*arguments)


def test_a_range_that_has_partly_expired_is_refused() -> None:
    """It is never shortened in silence: the error says from where the changes are still there."""
    table = new_table()
    table.append(batch((1, 0.0, "s")))
    for i in range(3):
        table.overwrite(batch((1, float(i), "o")), partition={})
    table.append(batch((1, 4.0, "s")))
    for gone in (1, 2):
        table.store.delete_many([f"snapshot/snapshot-{gone}"])
    with pytest.raises(InvalidArgument, match=r"oldest snapshot is 3.*start at 2 or later"):
        table.changes(1)
    with pytest.raises(InvalidArgument, match=r"snapshot 3 \(OVERWRITE\) removed expired with snapshot 2.*start at 3"):
        table.changes(2).read_all()
    assert table.changes(2, overwrites=False).read_all()["x"].to_pylist() == [4.0]
    assert table.changes(4).read_all()["x"].to_pylist() == [4.0]


def test_a_table_without_snapshots_has_no_changes() -> None:
    assert new_table().changes(0).read_all().num_rows == 0
    with pytest.raises(InvalidArgument, match="start 1 is after end 0"):
        new_table().changes(1)


def test_names_that_a_read_of_changes_needs_are_refused() -> None:
    table = new_table([*FIELDS, Field(3, "_row_kind", string())])
    table.append(batch((1, 1.0, "a")).append_column("_row_kind", pa.array(["mine"])))
    with pytest.raises(InvalidArgument, match="column '_row_kind' of the table"):
        table.changes(0)
    assert table.changes(0, columns=["x"]).read_all().num_rows == 1
    with pytest.raises(InvalidArgument, match="no column 'q'"):
        new_table().changes(0, columns=["q"])


# ----------------------------------------------------------------------------------------------- any history of changes

VALUES = st.tuples(
    st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]), st.sampled_from(["a", "b", None])
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "overwrite", "dynamic", "drop", "compact", "truncate"]),
        st.lists(VALUES, min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=15, deadline=None)
@example([("append", [(0, 0.0, "a")]), ("overwrite", [(0, -0.0, "a")]), ("overwrite", [(0, float("nan"), None)])])
@given(STEPS)
def test_an_older_state_and_its_changes_give_the_newer_one(steps: list[tuple[str, list[Row]]]) -> None:
    """Whatever was done in between; between ids and between tags."""
    table = new_table()
    for kind, rows in steps:
        if kind == "append":
            table.append(batch(*rows))
        elif kind == "overwrite":
            table.overwrite(batch(*[(1, x, s) for _, x, s in rows]), partition={"p": 1})
        elif kind == "dynamic":
            table.overwrite(batch(*rows), dynamic=True)
        elif kind == "drop":
            table.drop_partitions([{"p": rows[0][0]}])
        elif kind == "compact":
            table.compact(min_files=2)
        else:
            table.truncate()
    snapshots = table.snapshots()
    states = [Counter[str]()] + [rows_of(table.at(snapshot=s.id).to_arrow()) for s in snapshots]
    for i, s in enumerate(snapshots):
        tag(table, f"t{i}", s.id)
    for start in range(len(snapshots)):
        for end in {start, len(snapshots) - 1}:
            changes = table.changes(start, end).read_all()
            assert applied(states[start], changes) == states[end], f"changes {start} to {end}"
            if start:
                difference = table.changes(f"t{start - 1}", f"t{end - 1}" if end else "t0").read_all()
                assert applied(states[start], difference) == states[end]
                assert difference.num_rows == sum(
                    ((states[end] - states[start]) + (states[start] - states[end])).values()
                )


# --------------------------------------------------------------------------------------------------- comparing of rows

LEAVES = st.sampled_from([None, 0.0, -0.0, 1.0, float("nan")])
NESTED = st.fixed_dictionaries(
    {
        "l": st.none() | st.lists(LEAVES, max_size=2),
        "m": st.none()
        | st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 1), max_size=2).map(
            lambda d: list(d.items())
        ),
        "r": st.none()
        | st.fixed_dictionaries({"a": LEAVES, "b": st.none() | st.lists(st.binary(max_size=1), max_size=2)}),
        "f": st.none() | st.lists(st.integers(0, 1), min_size=2, max_size=2),
    }
)
NESTED_TYPE = pa.schema(
    [
        ("l", pa.list_(pa.float32())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("r", pa.struct([("a", pa.float64()), ("b", pa.list_(pa.binary()))])),
        ("f", pa.list_(pa.int64(), 2)),
    ]
)


def told(row: dict[str, Any]) -> str:
    return json.dumps(
        row | {"m": None if row["m"] is None else sorted(map(list, row["m"]))}, default=repr, sort_keys=True
    )


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floats_are_compared_by_their_bits(kind: pa.DataType) -> None:
    """0.0 differs from -0.0, and every NaN is the same, whatever its bits; a null is no zero."""
    bits = pa.array([0x7FC00001 if kind == pa.float32() else 0x7FF8000000000001])
    odd = bits.cast(pa.int32() if kind == pa.float32() else pa.int64()).view(kind)
    before = pa.table({"x": pa.chunked_array([pa.array([0.0, float("nan"), None], kind)])})
    after = pa.table({"x": pa.chunked_array([pa.array([-0.0], kind), odd, pa.array([None, 0.0], kind)])})
    gone, came = differing_rows(before, after)
    assert (gone.tolist(), came.tolist()) == ([], [0])


@settings(max_examples=40, deadline=None)
@given(st.lists(NESTED, max_size=6), st.lists(NESTED, max_size=6), st.integers(0, 3))
def test_rows_of_every_type_are_compared_as_they_are_stored(before: Any, after: Any, cut: int) -> None:
    """Nulls are equal, NaN equals NaN, 0.0 differs from -0.0; the order of a map's entries means nothing. Slices too."""
    old, new = (pa.Table.from_pylist(rows, NESTED_TYPE).slice(cut) for rows in (before, after))
    gone, came = differing_rows(old, new)
    ours, theirs = Counter(map(told, before[cut:])), Counter(map(told, after[cut:]))
    assert Counter(told(before[cut:][i]) for i in gone) == ours - theirs
    assert Counter(told(after[cut:][i]) for i in came) == theirs - ours
