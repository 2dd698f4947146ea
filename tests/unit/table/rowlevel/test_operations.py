"""What a DELETE, an UPDATE and a receipt say by themselves, and that a change that fails leaves none of its files."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.rowlevel.edit import Edit
from lakelatch.table.rowlevel.operation import DELETED, Found, all_but, distinct
from lakelatch.table.rowlevel.receipt import RowReceipt
from lakelatch.table.writing import writer
from lakelatch.table.writing.files import sink

_names = itertools.count()
COLUMNS = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("note", pa.string())])
VECTORS, TRACKED = {"deletion-vectors.enabled": "true"}, {"row-tracking.enabled": "true"}


def made(options: dict[str, str] | None = None, **about: Any) -> ll.Table:
    return ll.create_table(f"memory://operations/{next(_names)}", COLUMNS, options=options or {}, **about)


def rows(*ids: int, note: str = "1") -> pa.Table:
    return pa.table({"p": [0] * len(ids), "id": [*ids], "note": [note] * len(ids)}, COLUMNS)


def data_keys(table: ll.Table) -> set[str]:
    return {info.key for info in table.store.list("") if "bucket-" in info.key}


@pytest.mark.parametrize("given", [None, {"note": "'x'"}], ids=["delete", "update"])
def test_a_change_without_a_source_concerns_each_row_that_it_is_given_and_meets_none_of_a_source(given: Any) -> None:
    edit = Edit.of(made().schema, "id > 3", given)
    (batch,) = rows(4, 9, 7).to_batches()
    found = edit.find(batch)
    assert found.rows.tolist() == [0, 1, 2] and found.sources.tolist() == [-1, -1, -1]
    assert found.actions.tolist() == [DELETED if given is None else 0] * 3
    assert found.met.tolist() == []
    assert [batch.num_rows for _ in edit.parts(found.sources)] == [3], "all at once"
    assert edit.inserted(np.array([0, 1])) is None
    assert (edit.word, edit.updates, edit.deletes_all, edit.absent, edit.columns) == (
        *(("DELETE", False, True) if given is None else ("UPDATE", True, False)),
        *(False, ()),
    )
    assert edit.assigned == (set() if given is None else {"note"})
    nothing = edit.find(batch.slice(3))
    empty = Found.nothing()
    for part in ("rows", "actions", "sources", "met"):
        assert getattr(nothing, part).tolist() == getattr(empty, part).tolist() == []


@pytest.mark.parametrize("numbers", [[], [5], [3, 1, 3, 2, 1], [7, 7, 7], [2, 1, 0], [-1, 4, -1]])
def test_different_numbers_and_those_that_are_left(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))
    places = [number for number in numbers if number >= 0]
    assert all_but(8, np.array(places, np.int64)).tolist() == sorted(set(range(8)) - set(places))


def test_a_receipt_of_a_change_that_counted_nothing_has_zeros_and_one_of_a_replay_tells_nothing() -> None:
    landed = Receipt(7, "u", "etl", 1, "OVERWRITE", 1, 0, 9, 4, 8.0, replayed=False, riders=2)
    counts = {f.name for f in fields(RowReceipt)} - {f.name for f in fields(Receipt)} - {"plans"}
    assert counts == {
        *("rows_inserted", "rows_updated", "rows_deleted"),
        *("files_rewritten", "files_deleted", "files_marked", "files_read"),
    }
    found = RowReceipt.of(landed)
    assert {name: getattr(found, name) for name in counts} == dict.fromkeys(counts, 0)
    assert found.plans == 1 and found == RowReceipt(7, "u", "etl", 1, "OVERWRITE", 1, 0, 9, 4, 8.0, False, riders=2)
    numbers = {name: place for place, name in enumerate(sorted(counts), 3)}
    counted = RowReceipt.of(landed, **numbers, plans=2).to_dict()
    assert counted == landed.to_dict() | numbers | {"plans": 2}
    replayed = Receipt(7, "u", "etl", 1, "OVERWRITE", 1, 0, 9, 4, 8.0, replayed=True)
    told = RowReceipt.of(replayed, **numbers).to_dict()
    assert told == replayed.to_dict() | dict.fromkeys(counts) | {"plans": 0}


@pytest.mark.parametrize(
    "options", [{}, VECTORS, VECTORS | TRACKED, TRACKED], ids=["copies", "vectors", "tracked vectors", "tracked"]
)
@pytest.mark.parametrize("assigned", [{}, {"p": "p + 1"}], ids=["in place", "to another partition"])
def test_a_change_that_fails_at_its_last_file_leaves_nothing_of_the_first_ones(
    options: dict[str, str], assigned: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their new rows are in the store already, as so large files do not travel with the commit."""
    monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    monkeypatch.setattr(writer, "HELD_BYTES", 1)
    table = made({"target-file-size": "1 b", **options}, partition_by=["p"])
    for number in range(4):
        table.append(rows(*range(number * 10, number * 10 + 3), note="x" if number == 3 else "1"))
    before, put = data_keys(table), list[str]()
    write = table.store.put
    monkeypatch.setattr(table.store, "put", lambda key, data: put.append(key) or write(key, data))
    with pytest.raises(InvalidArgument, match="note"):
        table.update("id % 10 > 0", set={**assigned, "note": "CAST(CAST(note AS INT) + 1 AS STRING)"})
    assert [key for key in put if "bucket-" in key], "some were written"
    assert data_keys(table) == before
    assert sorted(ll.open_table(table.url).to_arrow()["note"].to_pylist()) == ["1"] * 9 + ["x"] * 3


@pytest.mark.parametrize(
    ("buckets", "held"), [({"bucket": "1", "bucket-key": "id"}, [2]), ({}, [1, 1])], ids=["a bucket", "no buckets"]
)
def test_a_bucket_has_one_index_file_for_all_of_its_marked_rows(buckets: dict[str, str], held: list[int]) -> None:
    """Where rows have no buckets, an index file without a change stays as it is."""
    table = made(VECTORS | buckets)
    for start in (0, 10):
        table.append(rows(*range(start, start + 5)))
    for gone in ("id = 1", "id = 11", "id = 12"):
        table.delete(where=gone)
    snapshot = ll.open_table(table.url).snapshot()
    assert snapshot is not None
    index = table.timeline.index_entries(snapshot)
    assert [len(entry.file.deletion_vectors or ()) for entry in index] == held
    assert sorted(v.cardinality or 0 for entry in index for v in entry.file.deletion_vectors or ()) == [1, 2]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 2, 3, 4, 10, 13, 14]
    assert table.verify("all", data=True) == []
