"""Sorted files: what a filter opens, what stays of other jobs' rows, and curves whose steps are short."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.table.compaction.curves import CURVES, row_order

_names = count()
SCHEMA = pa.schema([("p", pa.int32()), ("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])


def made(options: dict[str, str] | None = None, files: int = 8, **about: Any) -> Any:
    table = ll.create_table(f"memory://clustering/{next(_names)}", SCHEMA, options=options or {}, **about)
    random = Random(1)
    for _ in range(files):
        table.append(rows(random, 1000))
    return table


def rows(random: Random, number: int) -> pa.Table:
    values = np.random.default_rng(random.randint(0, 1 << 30)).integers(0, 1000, (3, number))
    b = [f"{value:03}" for value in values[1]]
    c = np.where(values[2] % 2, 0.5, values[2])
    return pa.table({"p": np.zeros(number, np.int32), "a": values[0], "b": b, "c": c}, SCHEMA)


def state(table: Any, *columns: str) -> list[Any]:
    return sorted((tuple(r.values()) for r in table.to_arrow(columns=list(columns) or None).to_pylist()), key=repr)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_each_step_along_the_hilbert_curve_is_to_a_neighbour(dimensions: int) -> None:
    grid = np.indices((8,) * dimensions).reshape(dimensions, -1)
    table = pa.table({str(i): axis for i, axis in enumerate(grid)})
    path = grid[:, row_order(table, list(table.schema.names), "hilbert")]
    assert (np.abs(np.diff(path, axis=1)).sum(axis=0) == 1).all()


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("options", [{}, {"row-tracking.enabled": "true"}, {"deletion-vectors.enabled": "true"}])
def test_a_filter_opens_fewer_files_and_the_rows_are_the_same(curve: Any, options: dict[str, str]) -> None:
    table = made(options)
    table.delete(where="a < 20")
    columns = ["a", "b", *(["_ROW_ID", "_SEQUENCE_NUMBER"] if "row-tracking.enabled" in options else [])]
    before = state(table, *columns)
    done = table.optimize(by=["a", "b"], curve=curve, target_size="1 kb")
    assert done.compaction.files_before == 8 and done.compaction.files_after > 3
    assert state(table, *columns) == before
    assert done.opened_before["a"] > 5
    assert done.opened_after["a"] < done.opened_before["a"] * (0.4 if curve == "order" else 0.8)
    if curve != "order":
        assert done.opened_after["b"] < done.opened_before["b"] * 0.8
    assert "a filter on a opens" in str(done)
    assert [str(finding) for finding in table.verify("all", data="deep")] == []


def test_files_that_were_sorted_are_left_alone() -> None:
    table = made()
    table.optimize(by=["a"], curve="order", target_size="1 kb")
    assert table.optimize(by=["a"]).compaction.receipts == ()
    table.append(rows(Random(2), 50))
    assert {entry.file.level for entry in table.entries()} == {0, 5}, "as in Apache Paimon's clustering"
    again = table.optimize(by=["a"], curve="order")
    assert (again.compaction.files_before, again.compaction.files_after) == (1, 1)
    assert table.optimize(by=["a"], dry_run=True, full=True).compaction.plan.file_count == table.files().num_rows


@pytest.mark.parametrize("options", [{}, {"row-tracking.enabled": "true"}])
def test_a_sorted_file_that_lost_rows_is_still_sorted(options: dict[str, str]) -> None:
    """A compaction leaves sorted files alone, but for those with many deleted rows; what it makes of them keeps its order."""
    table = made({"deletion-vectors.enabled": "true", **options}, files=2)
    table.optimize(by=["a"], curve="order")
    table.delete(where="a < 500 OR b < '500'")
    assert table.compact().files_after == 1
    assert table.optimize(by=["a"], curve="order").compaction.receipts == ()
    assert table.to_arrow()["a"].to_pylist() == sorted(table.to_arrow()["a"].to_pylist())


def test_files_of_an_older_schema_are_sorted_with_the_others() -> None:
    table = made(files=2)
    table.alter(ll.rename_column("a", "z"), ll.add_column("d", "INT"))
    table.append(
        rows(Random(4), 30).rename_columns(["p", "z", "b", "c"]).append_column("d", pa.array([7] * 30, pa.int32()))
    )
    before = state(table)
    done = table.optimize(by=["z"], curve="order")
    assert done.to_dict()["opened_after"] == done.opened_after
    assert state(table) == before
    assert table.to_arrow()["z"].to_pylist() == sorted(table.to_arrow()["z"].to_pylist())


def test_what_a_filter_opens_of_files_with_an_older_schema() -> None:
    """Their columns are those of the schema that they name."""
    table = made(files=2)
    table.optimize(by=["a"], curve="order", target_size="1 kb")
    table.alter(ll.rename_column("a", "z"))
    assert table.optimize(by=["z"], curve="order", full=True).opened_before["z"] < 2
    other = made(files=2)
    other.optimize(by=["a"], curve="order", target_size="1 kb")
    other.alter(ll.drop_column("p"))
    assert other.optimize(by=["a"], curve="order", full=True).opened_before["a"] < 2, "its columns have moved up"


def test_rows_that_are_added_meanwhile_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(files=3)
    commit = table.refresh().committer.commit
    late = rows(Random(3), 10)

    def after_others(request: Any) -> Any:
        monkeypatch.setattr(table.committer, "commit", commit)
        other = ll.open_table(table.url)
        other.append(late)
        return commit(request)

    monkeypatch.setattr(table.committer, "commit", after_others)
    before = table.count()
    assert len(table.optimize(by=["a"]).compaction.receipts) == 1
    assert table.count() == before + 10
    assert table.files().num_rows == 2


def test_what_cannot_be_sorted_is_named() -> None:
    table = made(files=1)
    for given, problem in [
        ({"by": ["x"]}, "no column 'x'"),
        ({"by": []}, "list of columns"),
        ({"by": "a"}, "list of columns"),
        ({"by": ["a"], "curve": "peano"}, "use one of order, zorder, hilbert"),
        ({"by": ["a"], "where": "a = 1"}, "chooses rows"),
    ]:
        with pytest.raises(InvalidArgument, match=problem):
            table.optimize(**given)
    with pytest.raises(InvalidArgument, match="column 'p' is a partition column: a file has only one value of it"):
        made(files=1, partition_by=["p"]).optimize(by=["a", "p"])
    keyed = ll.create_table(f"memory://clustering/{next(_names)}", SCHEMA, primary_key=["a"], options={"bucket": "1"})
    with pytest.raises(Unsupported, match="primary key"):
        keyed.optimize(by=["b"])


FEW = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])


def few(*files: list[tuple[Any, Any]], schema: pa.Schema = FEW, **about: Any) -> Any:
    """A table with these values of `a` and `b` in its files, and nulls in `c`."""
    table = ll.create_table(f"memory://clustering/{next(_names)}", schema, **about)
    for rows_of_file in files:
        table.append(pa.Table.from_pylist([{"a": a, "b": b} for a, b in rows_of_file], schema))
    return table


def test_it_is_told_how_many_files_a_filter_opens() -> None:
    """The mean over some values. Nothing is told of a column without values."""
    table = few([(0, 5), (9, 5)], [(20, 5), (29, 5)], [(4, 5), (5, 5)], [(40, 5), (49, 5)])
    done = table.optimize(by=["a", "b", "c"], curve="order")
    assert done.opened_before == {"a": 1.25, "b": 4.0} and done.opened_after == {"a": 1.0, "b": 1.0}
    assert done.to_dict()["opened_before"] == done.opened_before
    assert done.to_dict()["files_before"] == 4
    assert str(done) == (
        "4 files became 1, snapshot 5; a filter on a opens 1.0 files, before 1.2; a filter on b opens 1.0 files, before 4.0"
    )


def test_a_part_of_many_files_is_looked_at() -> None:
    table = few(*([(n, n)] for n in range(45)))
    done = table.optimize(by=["a"])
    assert (done.opened_before, done.opened_after) == ({"a": 1.0}, {"a": 1.0})


def test_only_chosen_partitions_are_sorted_and_looked_at() -> None:
    table = few([(1, 5), (2, 5)], [(1, 6), (2, 6)], [(1, 4), (2, 4)], partition_by=["a"])
    done = table.optimize(by=["b"], curve="order", where="a = 2")
    assert (done.compaction.files_before, done.compaction.files_after) == (3, 1)
    assert (done.opened_before, done.opened_after) == ({"b": 1.0}, {"b": 1.0})
    assert done.compaction.plan.files_considered == 3
    assert sorted(e.file.row_count for e in table.entries()) == [1, 1, 1, 3]
    assert table.to_arrow(where="a = 2")["b"].to_pylist() == [4, 5, 6]
    assert sorted(table.to_arrow(where="a = 1")["b"].to_pylist()) == [4, 5, 6]
    table.optimize(by=["b"], curve="order")
    assert table.to_arrow(where="a = 1")["b"].to_pylist() == [4, 5, 6]


def test_a_table_without_rows_has_nothing_to_sort() -> None:
    done = few().optimize(by=["a"])
    assert (done.compaction.receipts, done.opened_before, str(done)) == ((), {}, "nothing to compact: 0 files")


def test_a_large_partition_is_sorted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are joined in the order in which they were written, as long as they are small enough together."""
    table = few([(4, 0)], [(3, 0)], [(2, 0)], [(1, 0)], [(0, 0)])
    size = max(e.file.file_size for e in table.entries())
    for most, parts in [(2 * size, [2, 2, 1]), (3 * size - 1, [2, 2, 1]), (3 * size, [3, 2]), (1, [1] * 5)]:
        monkeypatch.setattr("lakelatch.table.compaction.clustering.MOST_BYTES", most)
        groups = table.optimize(by=["a"], dry_run=True).compaction.plan.groups
        assert [len(group.files) for group in groups] == parts
        first = [file.min_sequence_number for group in groups for file in group.files]
        assert first == sorted(first)
    monkeypatch.setattr("lakelatch.table.compaction.clustering.MOST_BYTES", 2 * size)
    table.optimize(by=["a"], curve="order")
    assert sorted(f.row_count for f in (e.file for e in table.entries())) == [1, 2, 2]
    assert sorted(table.to_arrow()["a"].to_pylist()) == [0, 1, 2, 3, 4]


def test_a_table_of_buckets_is_not_sorted() -> None:
    with pytest.raises(Unsupported, match="the table has buckets, which keep their order"):
        few([(1, 1)], options={"bucket": "1", "bucket-key": "b"}).optimize(by=["a"])
    with pytest.raises(Unsupported, match="data-evolution"):
        few(options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"}).optimize(by=["a"])


def test_rows_of_a_fallback_branch_stay_there() -> None:
    table = few([(1, 9), (1, 8)], partition_by=["a"])
    table.create_branch("old")
    branch = table.branch("old")
    branch.append(pa.table({"a": [2, 2], "b": [7, 6], "c": [None, None]}, FEW))
    table.alter(ll.set_option("scan.fallback-branch", "old"))
    assert table.refresh().count() == 4
    done = table.optimize(by=["b"], curve="order")
    assert (done.compaction.files_before, done.compaction.plan.files_considered) == (1, 1)
    assert table.to_arrow(where="a = 1")["b"].to_pylist() == [8, 9]
    assert table.to_arrow(where="a = 2")["b"].to_pylist() == [7, 6]


@pytest.mark.parametrize("curve", CURVES)
def test_one_column_is_in_order_along_every_curve(curve: Any) -> None:
    values = np.random.default_rng(3).permutation(1000)
    assert values[row_order(pa.table({"a": values}), ["a"], curve)].tolist() == list(range(1000))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("curve", CURVES)
def test_rows_that_are_alike_keep_their_order_along_every_curve(curve: Any) -> None:
    alike = pa.record_batch({"a": [5, 5, 5], "b": ["x", "x", "x"]})
    assert row_order(alike, ["a", "b"], curve).tolist() == [0, 1, 2]


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_takes_as_many_columns_as_its_numbers_have_bits(curve: Any) -> None:
    """With more, no bit would be left for each, and the rows would stay as they were."""
    wide = pa.schema([(f"c{place}", pa.int64()) for place in range(70)])
    table = ll.create_table(f"memory://clustering/{next(_names)}", wide)
    for value in (1, 0):
        table.append(pa.table({name: [value] for name in wide.names}))
    most = wide.names[:62]
    if curve != "order":
        with pytest.raises(InvalidArgument, match="at most 62 columns, and by names 63"):
            table.optimize(by=wide.names[:63], curve=curve)
    else:
        most = wide.names
    table.optimize(by=most, curve=curve, full=True)
    assert table.to_arrow().column("c0").to_pylist() == [0, 1]
