"""UPDATE, DELETE and MERGE of tables with a primary key: what is written, and what would not be done by the merge engine."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, Unsupported

_names = count()
SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.int64()), ("w", pa.int64())])


def made(partition_by: tuple[str, ...] = (), key: tuple[str, ...] = ("p", "k"), **options: str) -> ll.Table:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return ll.create_table(
        f"memory://key-changes/{next(_names)}",
        SCHEMA,
        primary_key=list(key),
        partition_by=list(partition_by),
        options={"bucket": "1", "write-only": "true"} | texts,
    )


def rows(*values: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("pkvw", row, strict=False)) for row in values], SCHEMA)


def state(table: ll.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in ll.open_table(table.url).to_arrow().to_pylist())


def changes(table: ll.Table) -> list[tuple[Any, ...]]:
    last = table.snapshot().id
    told = ll.open_table(table.url).changes(last - 1, last).read_all().to_pylist()
    return [(row["_row_kind"], row["p"], row["k"], row["v"]) for row in told]


def test_a_merge_writes_what_changes_and_counts_it() -> None:
    table = made(("p",))
    table.upsert(rows(*((p, k, 0, 0) for p in "ab" for k in range(6))))
    source = rows(("a", 1, 10, 1), ("a", 2, 20, 1), ("b", 1, 10, 2), ("b", 9, 90, 3), ("c", 9, 91, 4))
    merge = table.merge(source, ["p", "k"]).when_matched_delete("s.w = 2").when_matched_update({"v": "s.v + t.k"})
    merge = merge.when_not_matched_insert_all("s.w < 4").when_not_matched_by_source_delete("t.k = 5")
    receipt = merge.when_not_matched_by_source_update({"w": "7"}, "t.k = 0").execute()
    assert (receipt.rows_updated, receipt.rows_deleted, receipt.rows_inserted, receipt.files_read) == (4, 3, 1, 2)
    assert state(table) == [
        *(("a", 0, 0, 7), ("a", 1, 11, 0), ("a", 2, 22, 0), ("a", 3, 0, 0), ("a", 4, 0, 0)),
        *(("b", 0, 0, 7), ("b", 2, 0, 0), ("b", 3, 0, 0), ("b", 4, 0, 0), ("b", 9, 90, 3)),
    ]
    written = [e.file for e in table.entries() if e.file.max_sequence_number > 0][-2:]
    assert sum(file.row_count for file in written) == 8, "rows that do not change are not written"


@pytest.mark.parametrize("options", [{}, {"deletion_vectors__enabled": "true"}], ids=["plain", "vectors"])
def test_a_change_by_key_writes_rows_and_neither_replaces_nor_marks_files(options: dict[str, str]) -> None:
    table = made(**options)
    table.upsert(rows(("a", 1, 1, 0), ("a", 2, 2, 0), ("a", 3, 3, 0)))
    table.compact(full=True)
    receipt = table.update("k = 1", set={"v": "v + 1"})
    assert (receipt.rows_updated, receipt.files_read) == (1, 1)
    assert (receipt.files_rewritten, receipt.files_deleted, receipt.files_marked) == (0, 0, 0)
    receipt = table.delete(where="k = 3")
    assert (receipt.rows_deleted, receipt.rows_updated, receipt.rows_inserted) == (1, 0, 0)
    assert (receipt.files_rewritten, receipt.files_deleted, receipt.files_marked) == (0, 0, 0)


def test_two_new_rows_with_one_key_are_an_error_that_names_it() -> None:
    table = made()
    table.upsert(rows(("a", 1, 0, 0)))
    source = rows(("a", 2, 1, 1), ("a", 3, 1, 1), ("b", 2, 1, 1), ("a", 3, 2, 2))
    with pytest.raises(InvalidArgument, match=r"inserted with the same primary key: p = 'a', k = 3 \(leave one row"):
        table.merge(source, ["p", "k"]).when_not_matched_insert_all().execute()
    assert state(table) == [("a", 1, 0, 0)]
    table.merge(source, ["p", "k"]).when_not_matched_insert_all("s.w = 1").execute()
    assert len(state(table)) == 4


@pytest.mark.parametrize("ignores", [False, True])
def test_a_changelog_of_the_input_has_each_row_before_and_after(ignores: bool) -> None:
    table = made(changelog_producer="input", ignore_update_before=str(ignores).lower())
    table.upsert(rows(("a", 1, 1, 0), ("a", 2, 2, 0), ("a", 3, 3, 0)))
    merge = table.merge(rows(("a", 1, 10, 0), ("a", 2, 20, 0), ("a", 9, 90, 0)), ["p", "k"])
    merge = merge.when_matched_delete("t.k = 2").when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    expected = [("-U", "a", 1, 1), ("+U", "a", 1, 10), ("-D", "a", 2, 2), ("+I", "a", 9, 90)]
    assert sorted(changes(table), key=lambda row: row[1:]) == [row for row in expected if not ignores or row[0] != "-U"]


def test_without_a_changelog_only_the_row_after_is_written() -> None:
    table = made()
    table.upsert(rows(("a", 1, 1, 0)))
    table.update("k = 1", set={"v": "v + 1"})
    assert [e.file.row_count for e in table.entries()] == [1, 1] and state(table) == [("a", 1, 2, 0)]


def test_a_table_that_stores_the_kind_of_a_row_gets_it_in_its_column() -> None:
    schema = pa.schema([("k", pa.int64()), ("op", pa.string()), ("v", pa.int64())])
    options = {"bucket": "1", "rowkind.field": "op"}
    table = ll.create_table(f"memory://key-changes/{next(_names)}", schema, primary_key=["k"], options=options)
    table.upsert(pa.table({"k": [1, 2], "op": ["+I", "+I"], "v": [1, 2]}, schema))
    assert table.update("k = 1", set={"v": "v + 1"}).rows_updated == 1
    assert table.delete(where="k = 2").rows_deleted == 1
    found = [(row["k"], row["op"], row["v"]) for row in ll.open_table(table.url).to_arrow().to_pylist()]
    assert found == [(1, "+U", 2)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"merge_engine": "first-row"}, "'merge-engine' = first-row cannot be updated"),
        ({"merge_engine": "aggregation"}, "'merge-engine' = aggregation cannot be updated"),
        (
            {"merge_engine": "partial-update", "fields__v__sequence_group": "w"},
            "partial-update with sequence groups or aggregate functions cannot be updated",
        ),
        (
            {"merge_engine": "partial-update", "fields__w__aggregate_function": "last_non_null_value"},
            "partial-update with sequence groups or aggregate functions cannot be updated",
        ),
    ],
)
def test_an_engine_that_makes_a_row_of_all_cannot_update_one(options: dict[str, str], told: str) -> None:
    table = made(**options)
    table.upsert(rows(("a", 1, 1, 1)))
    with pytest.raises(Unsupported, match=told):
        table.update("k = 1", set={"v": "5"})
    with pytest.raises(Unsupported, match=told):
        table.merge(rows(("a", 1, 7, 7)), ["p", "k"]).when_matched_update_all().execute()
    table.merge(rows(("a", 2, 7, 7)), ["p", "k"]).when_not_matched_insert_all().execute()
    table.compact(full=True)
    assert state(table) == [("a", 1, 1, 1), ("a", 2, 7, 7)], "new rows do no harm"


def test_a_partial_update_may_set_what_it_does_not_make_null() -> None:
    table = made(merge_engine="partial-update")
    table.upsert(rows(("a", 1, None, 1), ("a", 2, 2, None)))
    table.update(set={"v": "v + 1"})
    assert sorted(state(table), key=repr) == [("a", 1, None, 1), ("a", 2, 3, None)], "what was null may stay null"
    with pytest.raises(Unsupported, match="column 'v' cannot become null"):
        table.update(set={"v": "nullif(v, 3)"})


@pytest.mark.parametrize(("descending", "given"), [(False, [7, 5, None]), (True, [3, 5, None])])
def test_the_column_that_orders_rows_may_stay_or_become_newer(descending: bool, given: list[int | None]) -> None:
    options = {"sequence__field__sort_order": "descending"} if descending else {}
    table = made(sequence__field="w", **options)
    table.upsert(rows(("a", 1, 0, 5), ("a", 2, 0, None)))
    newer, same, unknown = given
    table.update("k = 1", set={"w": newer, "v": "v + 1"})
    table.update("k = 2", set={"w": same, "v": "v + 1"})
    assert state(table) == [("a", 1, 1, newer), ("a", 2, 1, same)]
    with pytest.raises(InvalidArgument, match=r"column 'w' .* would become older"):
        table.update("k = 1", set={"w": unknown})
    table.update("k = 1", set={"v": "9"})
    assert state(table)[0] == ("a", 1, 9, newer)


@pytest.mark.parametrize("column", ["p", "k"])
def test_no_part_of_a_key_gets_another_value(column: str) -> None:
    table = made()
    table.upsert(rows(("a", 1, 0, 0), ("b", 2, 0, 0)))
    value = {"p": "p || 'x'", "k": "k + 1"}[column]
    with pytest.raises(InvalidArgument, match=f"column '{column}' is part of the primary key"):
        table.update("v = 0", set={column: value})
    table.update("v = 0", set={"p": "p", "k": "k", "v": "1"})
    assert state(table) == [("a", 1, 1, 0), ("b", 2, 1, 0)]


def test_rows_of_a_fallback_branch_are_not_changed_from_here() -> None:
    table = made(("p",))
    table.upsert(rows(("a", 1, 0, 0)))
    table.create_branch("old")
    table.branch("old").upsert(rows(("z", 1, 0, 0)))
    table.alter(ll.set_option("scan.fallback-branch", "old"))
    table = ll.open_table(table.url)
    with pytest.raises(Unsupported, match=r"rows of branch 'old' \(option 'scan.fallback-branch'\) are concerned"):
        table.update("k = 1", set={"v": "1"})
    table.update("p = 'a'", set={"v": "1"})
    assert state(table) == [("a", 1, 1, 0), ("z", 1, 0, 0)]


@pytest.mark.parametrize(("where", "plans"), [("k = 1", 1), ("p = 'a'", 1), ("k >= 0", 2), ("v = 0", 2), (None, 2)])
def test_only_conditions_on_keys_tell_that_rows_of_others_do_not_matter(where: str | None, plans: int) -> None:
    table = made()
    table.upsert(rows(("a", 1, 0, 0), ("a", 2, 5, 0)))
    commit, others = table.committer.commit, [rows(("b", 50, 9, 9))]

    def after_others(request: Any) -> Any:
        if others:
            ll.open_table(table.url).upsert(others.pop())
        return commit(request)

    table.committer.commit = after_others  # type: ignore[method-assign]
    assert table.update(where, set={"w": "w + 1"}, isolation="snapshot").plans == plans
    assert ("a", 1, 0, 1) in state(table) and len(state(table)) == 3
