"""MERGE: which rows a condition pairs, which files can be left out because of it, and which clause gets a row."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows import sizes

_names = count()
SCHEMA = pa.schema([("id", pa.int64()), ("other", pa.int64()), ("note", pa.string())])
NEWS = pa.schema([("id", pa.int64()), ("more", pa.int64()), ("text", pa.string())])


def made(*rows: tuple[Any, Any, Any], schema: pa.Schema = SCHEMA, **about: Any) -> ll.Table:
    table = ll.create_table(f"memory://merge-clauses/{next(_names)}", schema, **about)
    if rows:
        table.append(batch(*rows, schema=schema))
    return table


def batch(*rows: tuple[Any, Any, Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def news(*rows: tuple[Any, Any, Any]) -> pa.Table:
    return batch(*rows, schema=NEWS)


def state(table: ll.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in table.to_arrow(columns=list(columns) or None).to_pylist()), key=repr)


# ------------------------------------------------------------------------------------------------------ which rows meet


TABLE = [(1, 1, "a"), (2, 5, "b"), (3, 3, None), (4, 9, "d")]
SOURCE = [(1, 3, "a"), (2, 2, "b"), (3, 0, "x"), (9, 4, None)]
CONDITIONS = {
    "t.id = s.id": {(1, 1), (2, 2), (3, 3)},
    "s.id = t.id": {(1, 1), (2, 2), (3, 3)},
    "t.id = s.id AND t.id = t.other": {(1, 1), (3, 3)},
    "t.id = s.id AND s.id = s.more": {(2, 2)},
    "t.id = s.id AND s.text = 'b'": {(2, 2)},
    "t.id = s.id AND t.note = 'a'": {(1, 1)},
    "t.id = s.id AND t.id < 3 AND t.note = s.text": {(1, 1), (2, 2)},
    "t.id = s.id AND t.other > s.more": {(2, 2), (3, 3)},
    "t.id + 1 = s.id": {(1, 2), (2, 3)},
    "t.id = s.id + 1": {(2, 1), (3, 2), (4, 3)},
    "t.id = s.more AND t.id - 1 = s.id - 1": {(2, 2)},
    "t.id = s.id AND 1 = 1": {(1, 1), (2, 2), (3, 3)},
    "t.id = s.id AND 1 = 2": set(),
    "t.id = s.id OR t.note = s.text": {(1, 1), (2, 2), (3, 3)},
    "t.id > s.id AND s.text = 'a'": {(2, 1), (3, 1), (4, 1)},
    "t.other = 9 AND s.text IS NULL": {(4, 9)},
    "t.note = s.text": {(1, 1), (2, 2)},
    "other = more": {(3, 1)},
}


@pytest.mark.parametrize("on", CONDITIONS)
def test_a_condition_pairs_the_rows_for_which_it_is_true(on: str) -> None:
    table = made(*TABLE)
    met = CONDITIONS[on]
    merge = table.merge(news(*SOURCE), on).when_matched_update({"note": "CAST(s.id AS STRING)"}, "s.id >= 0")
    merge = merge.when_not_matched_by_source_update({"note": "'alone'"})
    receipt = merge.when_not_matched_insert({"id": "100 + s.id"}).execute()
    expected = {i: "alone" for i, _, _ in TABLE} | {i: str(j) for i, j in met}
    expected |= {100 + j: None for j, _, _ in SOURCE if j not in {met_too for _, met_too in met}}
    assert dict(state(table, "id", "note")) == expected
    assert (receipt.rows_updated, receipt.rows_deleted) == (4, 0)
    assert receipt.rows_inserted == len(expected) - 4


def test_a_name_that_both_have_must_say_whose_it_is() -> None:
    with pytest.raises(InvalidArgument, match="'id' is ambiguous"):
        made(*TABLE).merge(news(*SOURCE), "id = more").when_matched_delete().execute()


def test_fields_of_a_struct_are_keys_too() -> None:
    schema = pa.schema([("st", pa.struct([("id", pa.int64())])), ("id", pa.int64())])
    table = ll.create_table(f"memory://merge-clauses/{next(_names)}", schema)
    table.append(pa.table({"st": [{"id": 5}, {"id": 6}, None], "id": [1, 2, 3]}, schema))
    source = pa.table({"id": [6, 1]})
    assert table.merge(source, "t.st.id = s.id").when_matched_delete().execute().rows_deleted == 1
    assert table.to_arrow()["id"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    ("on", "problem"),
    [
        (b"id", r"on is b'id'"),
        (7, "on is 7"),
        ("s.id", "a condition is true or false"),
        ("`id`", "names one column"),
        (["id", "other"], "the source has no column 'other'"),
        (["more"], "the table has no column 'more'"),
        (["id", 7], "the table has no column '7'"),
        ("t.id = s.id AND t.note = s.more", "on: '=' does not fit"),
        ("t.id = s.id AND t.note + 1 = 2", "on"),
    ],
)
def test_what_cannot_pair_rows_is_refused_with_its_name(on: Any, problem: str) -> None:
    table = made(*TABLE)
    with pytest.raises(InvalidArgument, match=problem):
        table.merge(news(*SOURCE), on).when_matched_delete().execute()


def test_a_column_whose_types_do_not_fit_is_named() -> None:
    source = pa.table({"id": [1], "note": [5]})
    with pytest.raises(InvalidArgument, match="on: column 'note'"):
        made(*TABLE).merge(source, ["id", "note"]).when_matched_delete().execute()


# ------------------------------------------------------------------------------------------------- which files are read

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(i) for i in range(3)]
KEYS: dict[str, tuple[pa.DataType, list[Any], pa.DataType]] = {
    "integers": (pa.int32(), [1, 2, 3], pa.int64()),
    "decimals": (pa.decimal128(9, 2), [Decimal("1.5"), Decimal("2.5"), Decimal("3.5")], pa.decimal128(9, 2)),
    "days": (pa.date32(), DAYS, pa.date32()),
    "texts": (pa.string(), ["a", "b", "c"], pa.string()),
    "large texts": (pa.string(), ["a", "b", "c"], pa.large_string()),
    "times": (pa.timestamp("us"), [dt.datetime.combine(d, dt.time(1)) for d in DAYS], pa.timestamp("us")),
    "rough times": (pa.timestamp("ms"), [dt.datetime.combine(d, dt.time(1)) for d in DAYS], pa.timestamp("s")),
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", KEYS)
def test_files_without_any_key_of_the_source_are_not_opened(
    kind: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For few keys each of them counts, for many their smallest and their largest."""
    if many:
        monkeypatch.setattr("lakelatch.table.rowlevel.merge._MOST_VALUES", 1)
    t, values, given = KEYS[kind]
    schema = pa.schema([("k", t), ("note", pa.string())])
    table = ll.create_table(f"memory://merge-clauses/{next(_names)}", schema)
    for value in values:
        table.append(pa.table({"k": pa.array([value], t), "note": ["old"]}, schema))
    first = pa.table({"k": pa.array([values[1], values[1], None], given)})
    receipt = table.merge(first.slice(1), ["k"]).when_matched_update({"note": "'new'"}).execute()
    assert (receipt.files_read, receipt.rows_updated) == (1, 1)
    ends = pa.table({"k": pa.array([values[2], values[0]], given)})
    receipt = table.merge(ends, "s.k = t.k").when_matched_update({"note": "note || '!'"}).execute()
    assert (receipt.files_read, receipt.rows_updated) == (3 if many else 2, 2)
    assert table.to_arrow().sort_by("k")["note"].to_pylist() == ["old!", "new", "old!"]


@pytest.mark.parametrize("on", ["t.id = s.id AND t.note = 'a'", "t.note = 'a' AND t.id < s.more"])
def test_files_without_a_row_that_a_condition_lets_match_are_not_opened(on: str) -> None:
    table = made()
    for row in ((1, 1, "a"), (1, 1, "b"), (9, 1, "b"), (9, 1, "a")):
        table.append(batch(row))
    receipt = table.merge(news((1, 5, "x")), on).when_matched_update({"note": "s.text"}).execute()
    assert (receipt.rows_updated, receipt.files_read) == (1, 1 if "t.id = s.id" in on else 2)
    assert state(table, "id", "note") == [(1, "b"), (1, "x"), (9, "a"), (9, "b")]


def test_finer_times_than_the_table_has_are_compared_exactly() -> None:
    schema = pa.schema([("at", pa.timestamp("us")), ("note", pa.string())])
    table = ll.create_table(f"memory://merge-clauses/{next(_names)}", schema)
    table.append(pa.table({"at": [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)], "note": ["a", "b"]}, schema))
    first = int(dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc).timestamp()) * 10**9
    source = pa.table({"at": pa.array([first + 1, first + 24 * 3600 * 10**9], pa.timestamp("ns"))})
    table.merge(source, "t.at = s.at").when_matched_delete().execute()
    assert table.to_arrow()["note"].to_pylist() == ["a"]


@pytest.mark.parametrize("t", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("many", [False, True])
def test_fractions_that_are_no_number_or_no_positive_zero_are_found(
    t: pa.DataType, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statistics know nothing of them."""
    if many:
        monkeypatch.setattr("lakelatch.table.rowlevel.merge._MOST_VALUES", 1)
    schema = pa.schema([("x", t), ("note", pa.string())])
    table = ll.create_table(f"memory://merge-clauses/{next(_names)}", schema)
    for value in (math.nan, -0.0, 1.0):
        table.append(pa.table({"x": pa.array([value], t), "note": ["old"]}, schema))
    source = pa.table({"x": pa.array([0.0, math.nan], t)})
    assert table.merge(source, ["x"]).when_matched_update({"note": "'new'"}).execute().rows_updated == 2
    assert table.to_arrow(where="x = 1")["note"].to_pylist() == ["old"]


@pytest.mark.parametrize("source", [[], [(None, 1, "x"), (None, 2, "y")]])
@pytest.mark.parametrize("on", ["t.id = s.id", "t.id >= s.id", "t.id + 1 = s.id"])
def test_a_source_without_keys_meets_no_row(source: list[Any], on: str) -> None:
    table = made(*TABLE)
    merge = table.merge(news(*source), on).when_matched_delete().when_not_matched_insert({"id": "s.more"})
    receipt = merge.execute()
    assert (receipt.rows_deleted, receipt.rows_inserted) == (0, len(source))
    receipt = table.merge(news(*source), on).when_matched_delete().when_not_matched_by_source_delete().execute()
    assert receipt.rows_deleted == 4 + len(source)
    assert table.count() == 0


def test_rows_that_nothing_meets_count_in_every_file() -> None:
    table = made((1, 0, "a"))
    table.append(batch((50, 0, "b")))
    merge = table.merge(news((1, 0, "x")), "t.id = s.id AND t.id < 10").when_not_matched_by_source_delete("t.other = 0")
    receipt = merge.execute()
    assert (receipt.files_read, receipt.rows_deleted, state(table, "id")) == (2, 1, [(1,)])


# ------------------------------------------------------------------------------------------------------------- clauses


@pytest.mark.parametrize("portion", [1, 2, 3, 1 << 20])
def test_pairs_without_an_equality_count_once_however_few_rows_are_looked_at(
    portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelatch.table.rowlevel.merge._MOST_PAIRS", portion)
    table = made(*((n, n % 2, "old") for n in range(6)))
    source = news((1, 2, "low"), (4, 5, "high"), (70, 80, "none"))
    merge = table.merge(source, "t.id BETWEEN s.id AND s.more").when_matched_update({"note": "s.text"})
    merge = merge.when_not_matched_by_source_delete("t.id = 0").when_not_matched_insert({"id": "s.id", "note": "text"})
    receipt = merge.execute()
    assert (receipt.rows_updated, receipt.rows_deleted, receipt.rows_inserted) == (4, 1, 1)
    assert state(table, "id", "note") == [
        *((1, "low"), (2, "low"), (3, "old"), (4, "high"), (5, "high"), (70, "none")),
    ]


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}])
def test_each_row_gets_what_its_first_clause_says(options: dict[str, str]) -> None:
    """Several assignments in turn, deleted rows between them, and rows that match nothing between those that match."""
    table = made(*((n, n % 4, "old") for n in range(24)), options=options)
    source = news(*((n, n % 4, f"s{n}") for n in range(23, -1, -1) if n % 3))
    merge = (
        table.merge(source, ["id"]).when_matched_delete("t.other = 0").when_matched_update({"note": "text"}, "more=1")
    )
    merge = merge.when_matched_update({"note": "t.note || '2'", "other": "7"}, "s.more = 2")
    merge = merge.when_not_matched_by_source_update({"note": "'alone'"}, "other < 2")
    merge = merge.when_not_matched_by_source_delete("other = 3").when_not_matched_by_source_update(
        {"other": "other + 1"}
    )
    merge.execute()
    expected = []
    for n in range(24):
        at = n % 4
        if n % 3:
            row = {0: None, 1: (n, 1, f"s{n}"), 2: (n, 7, "old2"), 3: (n, 3, "old")}[at]
        else:
            row = {0: (n, 0, "alone"), 1: (n, 1, "alone"), 2: (n, 3, "old"), 3: None}[at]
        expected += [row] if row is not None else []
    assert state(table) == sorted(expected, key=repr)


def test_a_new_row_comes_from_the_first_clause_that_holds() -> None:
    table = made((1, 1, "a"))
    source = news((1, 0, "x"), (2, 0, "x"), (3, 5, "y"), (4, 7, "z"), (5, None, "n"))
    merge = table.merge(source, ["id"]).when_not_matched_insert({"id": "id", "note": "'small'"}, "more < 6")
    merge = merge.when_not_matched_insert({"id": "id", "other": "more", "note": "text"}, "more > 4")
    assert merge.execute().rows_inserted == 3
    assert state(table) == [(1, 1, "a"), (2, None, "small"), (3, None, "small"), (4, 7, "z")]
    merge = table.merge(source, ["id"]).when_not_matched_insert({"id": "id"}, "more = 100")
    assert merge.execute().rows_inserted == 0


TRACKED = {"row-tracking.enabled": "true"}
KINDS: dict[str, dict[str, Any]] = {
    "copies": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "tracked": {"options": TRACKED},
    "tracked vectors": {"options": TRACKED | {"deletion-vectors.enabled": "true"}},
    "evolution": {"options": TRACKED | {"data-evolution.enabled": "true"}},
    "buckets": {"options": {"bucket": "2", "bucket-key": "other"}},
    "key": {"options": {"bucket": "1", "changelog-producer": "input"}, "primary_key": ["id"]},
    "elsewhere": {"options": {"data-file.path-directory": "data", "data-file.prefix": "mine-"}},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bytes_at_once", [1, 40, 64 << 20])
def test_a_source_may_be_taken_in_portions(bytes_at_once: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "PIECE_BYTES", bytes_at_once)
    table = made(*((n, n, "old") for n in range(8)), **KINDS[kind])
    source = news(*((n, 0, f"long text {n}" * (n % 3)) for n in range(4, 12)))
    merge = table.merge(source, ["id"]).when_matched_update({"note": "text"})
    merge = merge.when_not_matched_insert({"id": "id", "note": "text"})
    if kind != "evolution":
        merge = merge.when_not_matched_by_source_delete("other = 3")
    receipt = merge.when_not_matched_by_source_update({"note": "'alone'"}).execute()
    found = {row["id"]: row["note"] for row in table.to_arrow().to_pylist()}
    texts = {n: f"long text {n}" * (n % 3) for n in range(4, 12)}
    deletes = kind != "evolution"
    assert found == dict.fromkeys(range(3 if deletes else 4), "alone") | texts
    assert (receipt.rows_updated, receipt.rows_inserted, receipt.rows_deleted) == (8 - deletes, 4, int(deletes))
    if kind not in ("buckets", "key", "vectors", "tracked vectors"):
        assert list(found) == [*range(3 if deletes else 4), *range(4, 12)], "rows that stay keep their order"
    if kind == "elsewhere":
        keys = [info.key for info in table.store.list("") if info.key.endswith(".parquet")]
        assert keys and all(key.startswith("data/bucket-0/mine-") for key in keys)
    if kind.startswith("tracked"):
        ids = dict(state(table, "id", "_ROW_ID"))
        assert all(ids[n] == n for n in ids if n < 8) and len({*ids.values()}) == len(ids)
    assert table.verify("all", data=True) == []


def test_rows_that_become_large_one_by_one_keep_their_row_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read at once, and written elsewhere in several portions."""
    monkeypatch.setattr(sizes, "PIECE_BYTES", 1000)
    table = made(*((n, n, "old") for n in range(8)), **KINDS["tracked vectors"])
    source = news(*((n, 0, f"{n}" * 900) for n in range(2, 7)))
    assert table.merge(source, ["id"]).when_matched_update({"note": "text"}).execute().rows_updated == 5
    assert state(table, "id", "_ROW_ID") == [(n, n) for n in range(8)]
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("t.id > s.id", "table: id = 3"),
        ("t.id + 0 = s.id - s.id + 3", "table: id = 3"),
        ("t.id = s.id - s.id + 3 AND t.other = s.id - s.id", "table: id = 3, other = 0"),
        ("t.id - t.other = s.id - s.id + 3", "table: id = 3, other = 0"),
        ("t.id = s.id - s.id + 3 AND t.other < s.id", "table: id = 3"),
    ],
)
def test_a_row_that_two_rows_change_is_named_by_what_pairs_them(on: str, told: str) -> None:
    table = made((0, 0, "a"), (3, 0, "b"))
    merge = table.merge(news((1, 0, "x"), (2, 0, "y")), on).when_matched_update({"note": "text"})
    with pytest.raises(InvalidArgument, match=rf"{told} \("):
        merge.execute()
    assert state(table, "note") == [("a",), ("b",)]


@pytest.mark.parametrize("first", ["update", "update_all", "delete"])
def test_a_clause_behind_one_without_a_condition_is_refused_and_says_which(first: str) -> None:
    begun = made(*TABLE).merge(batch(*TABLE), ["id"])
    matched = {
        "update": begun.when_matched_update({"note": "s.note"}),
        "update_all": begun.when_matched_update_all(),
        "delete": begun.when_matched_delete(),
    }[first]
    with pytest.raises(InvalidArgument, match="rows that are matched: the clause before it has no condition"):
        matched.when_matched_delete("t.id = 1")
    absent = matched.when_not_matched_insert_all("s.id > 1").when_not_matched_insert_all()
    with pytest.raises(InvalidArgument, match="rows that are not matched: the clause"):
        absent.when_not_matched_insert({"id": "s.id"})
    alone = absent.when_not_matched_by_source_update({"note": "'x'"}, "t.id = 7").when_not_matched_by_source_delete()
    with pytest.raises(InvalidArgument, match="rows that are not matched by source: the clause"):
        alone.when_not_matched_by_source_delete()
    assert alone.execute().rows_inserted == 0, "what was begun before is as it was"


def test_a_merge_that_was_begun_can_be_continued_in_two_ways() -> None:
    table = made(*TABLE)
    begun = table.merge(news((1, 0, "x"), (7, 0, "y")), ["id"]).when_matched_update({"note": "'first'"}, "t.id > 1")
    one, two = begun.when_matched_delete(), begun.when_not_matched_insert({"id": "id"})
    assert (two.execute().rows_inserted, one.execute().rows_deleted) == (1, 1)
    assert begun.execute().rows_updated == 1


@pytest.mark.parametrize("condition", ["s.id", "t.id = 'x' || 1", "nothing = 1"])
def test_a_condition_that_does_not_fit_says_of_which_clause_it_is(condition: str) -> None:
    begun = made(*TABLE).merge(news(*SOURCE), ["id"])
    with pytest.raises(InvalidArgument, match="the condition of a clause for rows that are matched"):
        begun.when_matched_delete(condition).execute()


def test_names_need_no_table_where_only_one_has_a_row() -> None:
    table = made(*TABLE)
    source = batch((1, 0, "x"), (9, 4, "y"))
    merge = table.merge(source, ["id"]).when_not_matched_insert({"id": "id", "other": "other"}, "note = 'y'")
    merge.when_not_matched_by_source_update({"note": "note || '!'"}, "other = 5").execute()
    assert state(table) == sorted([(1, 1, "a"), (2, 5, "b!"), (3, 3, None), (4, 9, "d"), (9, 4, None)], key=repr)


def test_columns_are_added_only_for_clauses_that_take_all_columns_of_the_source() -> None:
    table = made(*TABLE)
    begun = table.merge(news((1, 7, "x"), (8, 8, "y")), ["id"], evolve=True)
    begun.when_matched_update({"note": "text"}).when_not_matched_insert({"id": "id"}).execute()
    begun.when_matched_delete("t.id = 1").execute()
    assert list(table.schema.names) == SCHEMA.names
    begun.when_not_matched_insert_all().execute()
    assert list(table.schema.names) == [*SCHEMA.names, "more", "text"]


def test_a_merge_that_only_adds_rows_is_an_append() -> None:
    """So readers of streams see its rows, and those that are there already need not be looked at."""
    table = made((1, 1, "a"))
    for known, kind in ((1, "APPEND"), (2, "OVERWRITE")):
        merge = table.merge(news((known, 1, "x"), (known + 1, 2, "y")), ["id"])
        merge = merge.when_matched_update({"note": "s.text"}, "t.id = 2").when_not_matched_insert({"id": "s.id"})
        receipt = merge.execute()
        snapshot = table.snapshot()
        assert snapshot is not None and (snapshot.commit_kind, snapshot.operation) == (kind, "MERGE")
        assert receipt.kind == kind


def test_new_rows_get_defaults_and_changed_rows_keep_their_values() -> None:
    table = made(*TABLE)
    table.alter(ll.update_default("note", "none"))
    merge = table.merge(news((1, 7, "x"), (8, 8, "y")), ["id"]).when_matched_update({"other": "more"})
    merge.when_not_matched_insert({"id": "id"}).execute()
    assert (1, 7, "a") in state(table) and (8, None, "none") in state(table)


def test_a_key_that_is_set_to_what_it_equals_leaves_rows_in_their_files() -> None:
    """Only rows that may belong elsewhere are placed anew, and then their file is not written as a whole."""
    table = made(*((n, 0, "old") for n in range(4)), partition_by=["id"], options={"deletion-vectors.enabled": "true"})
    plain = made(*((n, 0, "old") for n in range(4)), partition_by=["id"])
    for each in (table, plain):
        source = batch((1, 5, "x"), (2, 6, "y"))
        receipt = each.merge(source, ["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
        assert (receipt.rows_updated, receipt.rows_inserted, receipt.files_read) == (2, 0, 2)
        assert (receipt.files_rewritten, receipt.files_deleted) == ((0, 2) if each is table else (2, 0))
        assert state(each) == [(0, 0, "old"), (1, 5, "x"), (2, 6, "y"), (3, 0, "old")]


def test_what_was_made_of_the_source_does_not_travel() -> None:
    """Workers get a MERGE before and after it was used here."""
    table = made(*TABLE)
    merge = table.merge(news(*SOURCE), ["id"]).when_matched_update({"note": "text"}, "t.other < 5")
    operation = merge.when_not_matched_by_source_update({"note": "'alone'"}).operation(table.schema)
    rows = batch(*TABLE).combine_chunks().to_batches()[0]
    before = pickle.dumps(operation)
    found = operation.find(rows)
    new = operation.make(rows.take(pa.array(found.rows)), found.actions, found.sources)
    assert new.column("note").to_pylist() == ["a", "x", "alone"]
    assert operation.columns and operation.assigned and list(operation.parts(found.sources))
    after = pickle.dumps(operation)
    assert len(after) == len(before)
    again = pickle.loads(after)
    assert again.make(rows.take(pa.array(found.rows)), found.actions, found.sources) == new


@pytest.mark.parametrize("on", ["t.id = s.id", "t.id > s.id"])
def test_no_rows_are_looked_at_as_well_as_many(on: str) -> None:
    table = made(*TABLE)
    operation = table.merge(news(*SOURCE), on).when_matched_delete().operation(table.schema)
    found = operation.find(pa.RecordBatch.from_pylist([], SCHEMA))
    assert [list(part) for part in (found.rows, found.actions, found.sources, found.met)] == [[]] * 4
