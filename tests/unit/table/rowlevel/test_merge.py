"""MERGE: what its clauses mean, what it refuses before any row is read, and what becomes of concurrent commits."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument, Unsupported

_names = count()
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
VECTORS = {"deletion-vectors.enabled": "true"}


def made(options: dict[str, str] | None = None, key: list[str] | None = None, schema: pa.Schema = SCHEMA) -> Any:
    return ll.create_table(
        f"memory://merge/{next(_names)}",
        schema,
        primary_key=key or [],
        options=({"bucket": "1"} if key else {}) | (options or {}),
    )


def rows(*pairs: tuple[Any, Any]) -> pa.Table:
    return pa.table({"id": [p[0] for p in pairs], "note": [p[1] for p in pairs]}, SCHEMA)


def state(table: Any) -> list[tuple[Any, Any]]:
    return sorted(((r["id"], r["note"]) for r in table.to_arrow().to_pylist()), key=lambda r: (r[0] is None, r))


def test_the_first_clause_that_holds_wins() -> None:
    table = made()
    table.append(rows((1, "a"), (2, "b"), (3, "c"), (4, "d")))
    news = rows((1, "A"), (2, "B"), (3, "C"))
    merge = table.merge(news, on=["id"]).when_matched_update({"note": "'first'"}, "t.id < 2")
    merge = merge.when_matched_delete("t.id < 3").when_matched_update_all()
    receipt = merge.when_not_matched_by_source_update({"note": "note || '?'"}).execute()
    assert state(table) == [(1, "first"), (3, "C"), (4, "d?")]
    assert (receipt.rows_updated, receipt.rows_deleted, receipt.rows_inserted) == (3, 1, 0)


@pytest.mark.parametrize("key", [None, ["id"]])
def test_a_receipt_counts_what_was_done(key: list[str] | None) -> None:
    table = made(key=key)
    table.append(rows((1, "a"), (2, "b"))) if key is None else table.upsert(rows((1, "a"), (2, "b")))
    merge = table.merge(rows((2, "B"), (3, "C"), (4, "D")), on=["id"]).when_matched_update_all()
    receipt = merge.when_not_matched_insert_all().when_not_matched_by_source_delete().execute()
    assert (receipt.rows_updated, receipt.rows_deleted, receipt.rows_inserted) == (1, 1, 3 - 1)
    assert table.snapshot().operation == "MERGE"


def test_a_null_matches_nothing() -> None:
    table = made()
    table.append(rows((None, "a"), (1, "b")))
    merge = table.merge(rows((None, "n"), (1, None)), on=["id"]).when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    assert state(table) == [(1, None), (None, "a"), (None, "n")]


def test_keys_of_two_types_match_as_spark_compares_them() -> None:
    """A DECIMAL and a BIGINT become the doubles next to them; Arrow's own casts miss some, and refuse large integers."""
    cents = [Decimal(n).scaleb(-2) for n in range(1, 400)]
    table = made(schema=pa.schema([("id", pa.decimal128(10, 2)), ("note", pa.string())]))
    table.append(pa.table({"id": pa.array(cents, pa.decimal128(10, 2)), "note": ["old"] * len(cents)}))
    news = pa.table({"id": [float(cent) for cent in cents], "note": ["new"] * len(cents)})
    merge = table.merge(news, "t.id = s.id").when_matched_update({"note": "s.note"})
    receipt = merge.when_not_matched_insert({"note": "s.note"}).execute()
    assert (receipt.rows_updated, receipt.rows_inserted) == (len(cents), 0)

    large = made()
    large.append(rows((2**53 + 1, "old"), (5, "old")))
    merge = large.merge(pa.table({"id": [2.0**53, 5.0], "note": ["new"] * 2}), "t.id = s.id")
    assert merge.when_matched_update({"note": "s.note"}).execute().rows_updated == 2
    assert state(large) == [(5, "new"), (2**53 + 1, "new")]


@pytest.mark.parametrize("key", [None, ["id"]])
def test_two_rows_of_the_source_for_one_row_are_an_error_that_names_the_key(key: list[str] | None) -> None:
    table = made(key=key)
    table.append(rows((1, "a"), (7, "b")))
    news = rows((7, "x"), (1, "y"), (7, "z"))
    before = table.snapshot().id
    with pytest.raises(InvalidArgument, match="change the same row of the table: id = 7"):
        table.merge(news, on=["id"]).when_matched_update_all().execute()
    assert table.snapshot().id == before
    table.merge(news, on=["id"]).when_matched_update_all("s.note <> 'z'").execute()
    assert state(table) == [(1, "y"), (7, "x")], "only rows that change it count"


@pytest.mark.parametrize(
    ("on", "clauses", "problem"),
    [
        ("id", {}, r"write on=\['id'\]"),
        ([], {}, "on is empty"),
        (["nothing"], {}, "has no column 'nothing'"),
        ("t.id = s.nothing", {}, "no column 's.nothing'"),
        ("id = 1", {}, "'id' is ambiguous"),
        ("t.id = s.note", {}, "'=' does not fit"),
        ("t.id + s.id", {}, "a condition is true or false"),
        (["id"], {"set": {"zz": "1"}}, "no column 'zz'"),
        (["id"], {"set": {"id": "s.note"}}, "column 'id' is of type int64"),
        (["id"], {"set": {"note": "s.id + t.note"}}, "column 'note': '\\+' does not fit"),
        (["id"], {"condition": "s.id"}, "a condition is true or false"),
        (["id"], {"condition": "t.id >"}, "a value is expected"),
    ],
)
def test_names_and_types_are_checked_before_any_row_is_read(on: Any, clauses: dict[str, Any], problem: str) -> None:
    table = made()
    table.append(rows((1, "a")))
    merge = table.merge(rows((1, "b")), on=on)
    given = {"set": {"note": "s.note"}} | clauses
    with pytest.raises(InvalidArgument, match=problem):
        merge.when_matched_update(**given).execute()
    assert table.snapshot().id == 1


def test_a_clause_sees_only_rows_that_it_has() -> None:
    table = made()
    merge = table.merge(rows((1, "b")), on=["id"])
    with pytest.raises(InvalidArgument, match="column of the target, which has no row here"):
        merge.when_not_matched_insert({"id": "t.id"}).execute()
    with pytest.raises(InvalidArgument, match="column of the source, which has no row here"):
        merge.when_not_matched_by_source_delete("s.id = 1").execute()
    with pytest.raises(InvalidArgument, match="this one never applies"):
        merge.when_matched_delete().when_matched_update_all()
    with pytest.raises(InvalidArgument, match="no clause"):
        merge.execute()


def test_only_files_that_may_match_are_opened() -> None:
    table = made()
    for first in (0, 10, 20):
        table.append(rows(*((first + i, "a") for i in range(3))))
    receipt = table.merge(rows((11, "x"), (12, "y")), on=["id"]).when_matched_update_all().execute()
    assert (receipt.files_read, receipt.files_rewritten) == (1, 1)
    many = pa.table({"id": range(20, 520), "note": ["z"] * 500}, SCHEMA)
    receipt = table.merge(many, on="s.id = t.id").when_matched_update_all().execute()
    assert (receipt.files_read, receipt.rows_updated) == (1, 3)


def test_columns_of_the_source_are_added_where_that_is_asked_for() -> None:
    table = made()
    table.append(rows((1, "a")))
    news = pa.table({"id": [1, 2], "more": [1.5, 2.5]})
    with pytest.raises(InvalidArgument, match="evolve=True"):
        table.merge(news, on=["id"]).when_matched_update_all().execute()
    table.merge(news, on=["id"], evolve=True).when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "note": "a", "more": 1.5},
        {"id": 2, "note": None, "more": 2.5},
    ]


def test_a_replayed_merge_reads_nothing() -> None:
    table = made()
    table.append(rows((1, "a")))
    for replayed in (False, True):
        merge = table.merge(rows((1, "b")), on=["id"], commit_user="job", identifier=3)
        receipt = merge.when_matched_update({"note": "t.note || s.note"}).execute()
        assert receipt.replayed is replayed
    assert state(table) == [(1, "ab")]


# ---------------------------------------------------------------------------------------------------- tables with a key


def test_a_key_never_gets_another_value() -> None:
    table = made(key=["id"])
    table.upsert(rows((1, "a")))
    with pytest.raises(InvalidArgument, match="column 'id' is part of the primary key"):
        table.update("id = 1", set={"id": "id + 1"})
    table.update("id = 1", set={"id": "id + 0", "note": "'b'"})
    assert state(table) == [(1, "b")]


@pytest.mark.parametrize(
    ("options", "change", "names"),
    [
        ({"merge-engine": "first-row"}, "update", "first-row"),
        ({"merge-engine": "first-row"}, "delete", "first-row"),
        ({"merge-engine": "aggregation", "fields.note.aggregate-function": "max"}, "update", "aggregation"),
        ({"merge-engine": "aggregation", "fields.note.aggregate-function": "max"}, "delete", "aggregation"),
        ({"merge-engine": "partial-update"}, "delete", "partial-update"),
        ({"merge-engine": "partial-update"}, "null", "partial-update"),
        ({"ignore-delete": "true"}, "delete", "ignore-delete"),
    ],
)
def test_an_engine_that_cannot_do_it_is_named(options: dict[str, str], change: str, names: str) -> None:
    table = made(options, key=["id"])
    table.upsert(rows((1, "a")))
    table.compact(full=True)
    before = state(table)
    with pytest.raises(Unsupported, match=names):
        table.delete(where="id = 1") if change == "delete" else table.update(
            "id = 1", set={"note": None if change == "null" else "'b'"}
        )
    assert state(table) == before == [(1, "a")]


def test_partial_updates_update_what_is_not_null() -> None:
    table = made({"merge-engine": "partial-update"}, key=["id"])
    table.upsert(rows((1, "a"), (2, None)))
    table.update(set={"note": "coalesce(note, '-') || '!'"})
    assert state(table) == [(1, "a!"), (2, "-!")]


def test_a_row_does_not_become_older_than_it_was() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("note", pa.string())])
    table = made({"sequence.field": "at"}, ["id"], schema)
    table.upsert(pa.table({"id": [1], "at": [5], "note": ["a"]}, schema))
    assert table.update(set={"note": "'b'"}).rows_updated == 1
    with pytest.raises(InvalidArgument, match=r"column 'at' .* would become older"):
        table.update(set={"at": "at - 1"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "at": 5, "note": "b"}]
    assert table.delete(where="note = 'b'").rows_deleted == 1
    assert table.count() == 0


def test_where_the_smaller_value_counts_a_row_does_not_get_a_larger_one() -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("note", pa.string())])
    table = made({"sequence.field": "at", "sequence.field.sort-order": "descending"}, ["id"], schema)
    table.upsert(pa.table({"id": [1], "at": [5], "note": ["a"]}, schema))
    with pytest.raises(InvalidArgument, match=r"column 'at' .* would become older"):
        table.update(set={"at": "at + 1"})
    assert table.update(set={"at": "at - 1"}).rows_updated == 1
    assert table.to_arrow().to_pylist() == [{"id": 1, "at": 4, "note": "a"}]


def test_the_changelog_has_the_rows_before_and_after() -> None:
    table = made({"changelog-producer": "input"}, ["id"])
    table.upsert(rows((1, "a"), (2, "b")))
    table.update("id = 1", set={"note": "'A'"})
    table.delete(where="id = 2")
    told = [(r["_row_kind"], r["id"], r["note"]) for r in table.changes(1).read_all().to_pylist()]
    assert told == [("-U", 1, "a"), ("+U", 1, "A"), ("-D", 2, "b")]


# ---------------------------------------------------------------------------------------------------------- concurrency


class _Beside:
    """A table of which another writer commits something just before each of our first commits."""

    def __init__(self, table: Any, *commits: Any, forgets: bool = False) -> None:
        self.table, self.left, self.forgets = table, list(commits), forgets
        self._committer = table.committer
        self._commit = self._committer.commit

    def __enter__(self) -> _Beside:
        self._committer.commit = self._after
        return self

    def __exit__(self, *_: object) -> None:
        self._committer.commit = self._commit

    def _after(self, request: Any) -> Any:
        if self.left:
            self.left.pop(0)(ll.open_table(self.table.url))
        if self.forgets:  # so that no snapshot is sent that loses, after which no file could be deleted
            self._committer._knows.newest.forget()
        return self._commit(request)


@pytest.mark.parametrize("options", [{}, VECTORS])
def test_a_concurrent_append_is_seen_if_it_may_concern_the_change(options: dict[str, str]) -> None:
    table = made(options)
    table.append(rows((1, "a"), (2, "b")))
    with _Beside(table, lambda other: other.append(rows((1, "late"), (9, "z")))):
        receipt = table.update("id = 1", set={"note": "'new'"})
    assert (receipt.plans, receipt.rows_updated) == (2, 2)
    assert state(table) == [(1, "new"), (1, "new"), (2, "b"), (9, "z")]
    with _Beside(table, lambda other: other.append(rows((5, "far")))):
        assert table.delete(where="id = 1").plans == 1, "statistics prove that the new file does not matter"
    with _Beside(table, lambda other: other.append(rows((2, "kept")))):
        assert table.delete(where="id = 2", isolation="snapshot").plans == 1
    assert state(table) == [(2, "kept"), (5, "far"), (9, "z")]


def test_a_row_that_another_commit_inserted_is_not_inserted_again() -> None:
    for key in (None, ["id"]):
        table = made(key=key)
        table.append(rows((1, "a")))
        merge = table.merge(rows((2, "mine")), on=["id"]).when_not_matched_insert_all()
        with _Beside(table, lambda other: other.append(rows((2, "theirs")))):
            receipt = merge.execute()
        assert (receipt.plans, receipt.rows_inserted) == (2, 0)
        assert state(table) == [(1, "a"), (2, "theirs")]


@pytest.mark.parametrize("options", [{}, VECTORS])
def test_two_changes_of_one_row_land_one_after_the_other(options: dict[str, str]) -> None:
    for key in (None, ["id"]):
        table = made(options if key is None else {}, key)
        table.append(rows((1, "a"), (2, "b")))
        with _Beside(table, lambda other: other.update("id = 1", set={"note": "note || '1'"})):
            receipt = table.update("id < 3", set={"note": "note || '2'"})
        assert receipt.plans == 2
        assert state(table) == [(1, "a12"), (2, "b2")]
        assert [str(f) for f in table.verify(snapshots="all", data="deep")] == []


@pytest.mark.parametrize("options", [{}, VECTORS])
def test_what_is_known_of_files_that_did_not_change_is_used_again(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakelatch.table.rowlevel.file_change import FileChanger

    opened = []
    change = FileChanger.change
    monkeypatch.setattr(FileChanger, "change", lambda *a: opened.append(a[1].keys) or change(*a))
    table = made(options)
    for first in (0, 10, 20):
        table.append(rows(*((first + i, "a") for i in range(3))))
    table.delete(where="id = 12")
    with _Beside(table, lambda other: other.delete(where="id = 11"), forgets=True):
        opened.clear()
        receipt = table.update("id % 10 = 1", set={"note": "'b'"})
    assert (receipt.plans, receipt.rows_updated) == (2, 2)
    mine = [keys for keys in opened if len(keys) == 1]
    assert len(mine) <= 3 + 1 + 1, "three files at first, one by the other commit, and the one that it changed"
    assert state(table) == [(0, "a"), (1, "b"), (2, "a"), (10, "a"), (20, "a"), (21, "b"), (22, "a")]
    assert [str(f) for f in table.verify(snapshots="all", data="deep")] == []
    held = list(table.store.list("bucket-0/"))
    assert len(held) == len({e.file.file_name for s in table.snapshots() for e in table.entries(s)}), (
        "no file is left over"
    )


def test_a_compaction_beside_it_is_followed() -> None:
    table = made()
    for first in (0, 10, 20):
        table.append(rows(*((first + i, "a") for i in range(3))))
    with _Beside(table, lambda other: other.compact(full=True)):
        assert table.update("id = 11", set={"note": "'b'"}).plans == 2
    assert (11, "b") in state(table) and len(state(table)) == 9


def test_conflicts_that_do_not_end_are_an_error_that_names_the_other_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelatch.table.rowlevel.run.MOST_PLANS", 3)
    table = made()
    table.append(rows((1, "a")))
    numbers = count()

    def other_commit(other: Any) -> None:
        other.append(rows((1, f"n{next(numbers)}")), commit_user="other-job", identifier=next(numbers))

    with (
        _Beside(table, *[other_commit] * 9, forgets=True),
        pytest.raises(CommitConflict, match=r"other-job.*planned 3 times"),
    ):
        table.update("id = 1", set={"note": "'b'"})
    held = list(table.store.list("bucket-0/"))
    assert len(held) == 4, "the files of the plans are gone"


def test_a_column_that_came_meanwhile_is_kept() -> None:
    table = made()
    table.append(rows((1, "a")))

    def widen(other: Any) -> None:
        other.alter(ll.add_column("more", "INT"))
        other.append(pa.table({"id": [1], "note": ["b"], "more": pa.array([7], pa.int32())}))

    with _Beside(table, widen):
        table.update("id = 1", set={"note": "'new'"})
    assert sorted(r["more"] or 0 for r in table.to_arrow().to_pylist()) == [0, 7]


def test_a_date_meets_the_time_at_which_it_begins() -> None:
    """Neither is a point in time: no time zone comes in."""
    columns = pa.schema([("at", pa.timestamp("us")), ("note", pa.string())])
    table = made(schema=columns)
    days = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 12)]
    table.append(pa.table({"at": days, "note": ["a", "b"]}, columns))
    news = pa.table({"day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "note": ["A", "B"]})
    table.merge(news, on="t.at = s.day").when_matched_update({"note": "s.note"}).execute()
    assert table.to_arrow().sort_by("at")["note"].to_pylist() == ["A", "b"]


@pytest.mark.parametrize("ours", [pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_a_time_of_the_clock_meets_the_point_in_time_that_it_is_in_the_zone(ours: pa.DataType) -> None:
    theirs = pa.timestamp("us", None if ours.tz else "UTC")
    clock, instant = dt.datetime(2024, 1, 1, 7), dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)
    columns = pa.schema([("at", ours), ("note", pa.string())])
    table = made(schema=columns)
    table.append(pa.table({"at": [instant if ours.tz else clock], "note": ["old"]}, columns))
    news = pa.table({"at": pa.array([clock if ours.tz else instant], theirs)})
    merge = table.merge(news, on="t.at = s.at").when_matched_update({"note": "'new'"})
    assert replace(merge, zone=ZoneInfo("America/New_York")).execute().rows_updated == 1
    with pytest.raises(InvalidArgument, match="only in a time zone, and none is given"):
        merge.execute()


def test_pairs_without_an_equality_are_looked_at_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelatch.table.rowlevel.merge._MOST_PAIRS", 2)
    table = made()
    table.append(rows(*((n, "old") for n in range(7))))
    merge = table.merge(rows((5, "new")), on="t.id >= s.id")
    assert merge.when_matched_update({"note": "s.note"}).execute().rows_updated == 2
    assert state(table) == [(n, "new" if n >= 5 else "old") for n in range(7)]


def test_an_assigned_column_may_be_named_with_its_table() -> None:
    table = made()
    table.append(rows((1, "a")))
    table.merge(rows((1, "b")), on=["id"]).when_matched_update({"t.note": "s.note"}).execute()
    assert state(table) == [(1, "b")]
    merge = table.merge(rows((1, "c")), on=["id"])
    with pytest.raises(InvalidArgument, match=r"no column 's\.note'"):
        merge.when_matched_update({"s.note": "'x'"}).execute()


def test_an_assigned_column_whose_name_has_dots_may_be_named_with_its_table() -> None:
    schema = pa.schema([("id", pa.int64()), ("unit.price", pa.int64())])
    table = made(schema=schema)
    table.append(pa.table({"id": [1], "unit.price": [5]}))
    table.merge(rows((1, "b")), on=["id"]).when_matched_update({"t.unit.price": "6"}).execute()
    table.merge(rows((1, "b")), on=["id"]).when_matched_update({"unit.price": "`unit.price` + 1"}).execute()
    assert table.to_arrow().to_pylist() == [{"id": 1, "unit.price": 7}]
