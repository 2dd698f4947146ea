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


@pytest.mark.parametrize("curve", CURVES)
def test_one_column_is_in_order_along_every_curve(curve: Any) -> None:
    values = np.random.default_rng(3).permutation(1000)
    assert values[row_order(pa.table({"a": values}), ["a"], curve)].tolist() == list(range(1000))


@pytest.mark.parametrize("curve", CURVES)
def test_rows_that_are_alike_keep_their_order_along_every_curve(curve: Any) -> None:
    alike = pa.record_batch({"a": [5, 5, 5], "b": ["x", "x", "x"]})
    assert row_order(alike, ["a", "b"], curve).tolist() == [0, 1, 2]
