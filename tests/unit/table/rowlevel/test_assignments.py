"""New values of columns: which are stored, as what, and which are refused before any row is read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.core.errors import InvalidArgument

_names = count()
SCHEMA = ll.Schema(
    [
        ("id", "BIGINT"),
        ("note", "STRING"),
        ("m", "DECIMAL(6, 2)"),
        ("n", "INT NOT NULL"),
        ("day", "DATE"),
        ("at", "TIMESTAMP(6)"),
        ("parts", "ARRAY<INT>"),
        ("x", "DOUBLE"),
    ]
)


def made(*ids: int, **defaults: str) -> ll.Table:
    table = ll.create_table(f"memory://assignments/{next(_names)}", SCHEMA)
    if defaults:
        table.alter(*(ll.update_default(name, value) for name, value in defaults.items()))
    if ids:
        table.append(pa.Table.from_pylist([{"id": i, "n": i, "x": i / 8} for i in ids], table.arrow_schema))
    return table


def changed(given: dict[str, Any], column: str) -> Any:
    """The value of a column of one row after an update."""
    table = made(1)
    table.update(set=given)
    return table.to_arrow()[column].to_pylist()[0]


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("note", ll.lit("id"), "id"),
        ("note", "'it''s'", "it's"),
        ("note", ll.lit(" id "), " id "),
        ("note", "' it '", " it "),
        ("note", "DATE ' 2024-02-29 '", "2024-02-29"),
        ("note", ll.in_zone("DATE ' 2024-02-29 '", "UTC"), "2024-02-29"),
        ("note", None, None),
        ("note", ll.lit(None), None),
        ("id", 7, 7),
        ("id", "n + 1", 2),
        ("n", "id + 1", 2),
        ("n", ll.lit("5"), 5),
        ("m", Decimal("1.5"), Decimal("1.50")),
        ("m", "x", Decimal("0.13")),
        ("m", "x * 4", Decimal("0.50")),
        ("m", "CAST(1.235 AS DECIMAL(9, 3))", Decimal("1.24")),
        ("m", "CAST(1.2 AS DECIMAL(9, 1))", Decimal("1.20")),
        ("m", "id", Decimal("1.00")),
        ("day", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        ("day", "DATE ' 2024-02-29 '", dt.date(2024, 2, 29)),
        ("day", ll.lit("2024-02-29"), dt.date(2024, 2, 29)),
        ("at", "TIMESTAMP '2024-02-29 01:02:03'", dt.datetime(2024, 2, 29, 1, 2, 3)),
        ("at", dt.datetime(2024, 2, 29, 5), dt.datetime(2024, 2, 29, 5)),
        ("parts", [1, None, 3], [1, None, 3]),
        ("parts", [], []),
        ("x", "id", 1.0),
        ("x", 2, 2.0),
    ],
)
def test_a_value_is_stored_as_the_column_has_it(column: str, value: Any, stored: Any) -> None:
    assert changed({column: value}, column) == stored


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([("id", "1")], "set is \\[.*give a dict"),
        ({}, "set is {}"),
        ({"note": "'a'", "t.note": "'b'"}, "no column 't.note'"),
        ({"nothing": "1"}, "set: there is no column 'nothing'"),
        ({"n": None}, "column 'n' is NOT NULL, but its new value is null"),
        ({"n": ll.lit(None)}, "column 'n' is NOT NULL, but its new value is null"),
        ({"n": "nullif(n, 1)"}, "column 'n'"),
        ({"note": "id"}, "column 'note' is of type string, but its new value is of type int64 .*CAST the value"),
        ({"id": "note"}, "column 'id' is of type int64, but its new value is of type string"),
        ({"id": "x"}, "column 'id'"),
        ({"m": ll.lit("12345.67")}, "column 'm'"),
        ({"m": "id * 100000"}, "column 'm'"),
        ({"note": "'a' ||"}, "set: column 'note', position 7: a value is expected"),
    ],
)
def test_a_value_that_the_column_cannot_hold_is_refused_with_its_name(given: Any, problem: str) -> None:
    table = made(1)
    with pytest.raises(InvalidArgument, match=problem):
        table.update(set=given)
    assert len(list(table.snapshots())) == 1


def test_a_type_that_does_not_fit_is_refused_although_there_is_no_row() -> None:
    table = made()
    with pytest.raises(InvalidArgument, match="column 'note' is of type string"):
        table.update(set={"note": "id"})
    with pytest.raises(InvalidArgument, match="column 'n' is NOT NULL, but its new value is null"):
        table.update(set={"n": None})
    with pytest.raises(InvalidArgument, match="column 'note' is of type string"):
        table.update(set={"id": 7, "note": "id"})


def test_a_column_gets_one_value() -> None:
    merge = made(1).merge(pa.table({"id": [1]}), ["id"])
    with pytest.raises(InvalidArgument, match="set: column 'note' gets two values"):
        merge.when_matched_update({"note": "'a'", "t.note": "'b'"}).execute()
    with pytest.raises(InvalidArgument, match=r"set: there is no column 't\.nothing'"):
        merge.when_matched_update({"t.nothing": "1"}).execute()
    with pytest.raises(InvalidArgument, match="values: column 'note' gets two values"):
        merge.when_not_matched_insert({"n": "1", "t.note": "'a'", "target.note": "'b'"}).execute()


def test_a_column_that_is_never_null_needs_a_value_or_a_default_in_new_rows() -> None:
    table = made(1)
    merge = table.merge(pa.table({"id": [2]}), ["id"]).when_not_matched_insert({"id": "id"})
    with pytest.raises(InvalidArgument, match="column 'n' is NOT NULL, but the new rows give it no value"):
        merge.execute()
    table = made(1, n="9", note="none")
    table.merge(pa.table({"id": [2]}), ["id"]).when_not_matched_insert({"id": "id"}).execute()
    assert [(r["id"], r["n"], r["note"]) for r in table.to_arrow().sort_by("id").to_pylist()] == [
        (1, 1, "none"),
        (2, 9, "none"),
    ]
    table.update("id = 1", set={"note": None})
    assert table.to_arrow(where="id = 1")["note"].to_pylist() == [None], "an update sets what it says"


def test_columns_of_a_source_are_taken_by_the_rules_of_rows_that_come_in() -> None:
    """They are parsed, and never rounded. A computed value is neither."""
    table = made(1, 2)
    source = pa.table({"id": [1], "n": ["7"], "m": pa.array([Decimal("1.250")], pa.decimal128(9, 3))})
    table.merge(source, ["id"]).when_matched_update_all().execute()
    assert [(r["n"], r["m"]) for r in table.to_arrow(where="id = 1").to_pylist()] == [(7, Decimal("1.25"))]
    finer = source.set_column(2, "m", pa.array([Decimal("1.255")], pa.decimal128(9, 3)))
    with pytest.raises(InvalidArgument, match="'m'"):
        table.merge(finer, ["id"]).when_matched_update_all().execute()
    table.merge(finer, ["id"]).when_matched_update({"m": "s.m"}).execute()
    assert table.to_arrow(where="id = 1")["m"].to_pylist() == [Decimal("1.26")]
    with pytest.raises(InvalidArgument, match="column 'n' is of type int32, but its new value is of type string"):
        table.merge(source, ["id"]).when_matched_update({"n": "s.n"}).execute()


def test_rows_of_many_columns_keep_those_that_get_no_value() -> None:
    table = made(1, 2)
    before = table.to_arrow(where="id = 2").to_pylist()
    table.update("id = 1", set={"x": "x + 1"})
    assert table.to_arrow(where="id = 2").to_pylist() == before
    (row,) = table.to_arrow(where="id = 1").to_pylist()
    assert row == {"id": 1, "note": None, "m": None, "n": 1, "day": None, "at": None, "parts": None, "x": 1.125}


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}, {"row-tracking.enabled": "true"}])
def test_small_new_files_are_stored_with_the_commit(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: a change that fails or conflicts costs no request for them."""
    table = ll.create_table(f"memory://assignments/{next(_names)}", SCHEMA, options=options)
    table.append(pa.Table.from_pylist([{"id": i, "n": i} for i in range(5)], table.arrow_schema))
    before = {info.key for info in table.store.list("")}
    commit, requests = Committer.commit, list[Any]()

    def seen(self: Committer, request: Any) -> Any:
        assert {info.key for info in table.store.list("")} == before
        requests.append(request)
        return commit(self, request)

    monkeypatch.setattr(Committer, "commit", seen)
    monkeypatch.setattr("lakelatch.table.rowlevel.file_change.HELD_BYTES", 0)
    table.update("id > 2", set={"note": "'new'"})
    assert len(requests) == 1 and requests[0].uploads
    assert table.to_arrow(where="note = 'new'").num_rows == 2
