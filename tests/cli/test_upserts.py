"""The commands `upsert` and `delete`, and what `files` and `show` say of tables with a primary key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll


@pytest.fixture
def orders(run: Any, tmp_path: Path) -> str:
    """A table that was made by commands alone: its location."""
    url = str(tmp_path / "orders")
    columns = ("--column", "id:BIGINT", "--column", "note:STRING", "--primary-key", "id", "--option", "bucket=1")
    assert run("create", url, *columns, "--option", "changelog-producer=input").code == 0
    return url


def test_upsert_and_delete(run: Any, orders: str, tmp_path: Path) -> None:
    """Rows are replaced and deleted by key; kinds of rows come from a column that the table does not have."""
    (tmp_path / "a.csv").write_text("id,note\n1,a\n2,b\n3,c\n")
    done = run("upsert", orders, tmp_path / "a.csv", "--commit-user", "etl", "--identifier", 1, "--json").json
    assert (done["snapshot_id"], done["rows"], done["replayed"]) == (1, 3, False)
    (tmp_path / "b.jsonl").write_text('{"id": 1, "note": "A", "op": "u"}\n{"id": 3, "op": "d"}\n')
    assert run("upsert", orders, tmp_path / "b.jsonl", "--row-kind", "op").code == 0
    (tmp_path / "keys.csv").write_text("id\n2\n")
    planned = run("delete", orders, "--keys", tmp_path / "keys.csv")
    assert "1 rows are to be deleted" in planned.out and "--apply" in planned.err
    assert ll.open_table(orders).to_arrow().num_rows == 2, "without --apply nothing is deleted"
    assert "1 rows of keys to delete" in run("delete", orders, "--keys", tmp_path / "keys.csv", "--apply").err
    assert ll.open_table(orders).to_arrow().to_pylist() == [{"id": 1, "note": "A"}]
    assert run("upsert", orders, tmp_path / "a.csv", "--commit-user", "etl", "--identifier", 1, "--json").json[
        "replayed"
    ]


def test_what_cannot_be_upserted_is_named(run: Any, orders: str, tmp_path: Path, flights: ll.Table) -> None:
    (tmp_path / "a.csv").write_text("id,op\n1,insert\n")
    refused = run("upsert", orders, tmp_path / "a.csv", "--row-kind", "op", "--json")
    assert refused.code == 2
    assert "column 'op': 'insert' is no row kind" in refused.error["message"]
    (tmp_path / "x.csv").write_text("carrier\nAA\n")
    assert "needs a table with a primary key" in run("upsert", flights.url, tmp_path / "x.csv").err
    assert run("delete", orders).code == 2


def test_files_and_show_know_sorted_runs(run: Any, orders: str, tmp_path: Path) -> None:
    """Levels, spans of sequence numbers, rows that delete, and how many rows the changelog has."""
    (tmp_path / "a.jsonl").write_text('{"id": 1, "op": "+I"}\n{"id": 2, "op": "-D"}\n{"id": 1, "op": "+U"}\n')
    assert run("upsert", orders, tmp_path / "a.jsonl", "--row-kind", "op").code == 0
    (file,) = run("files", orders, "--json").lines
    assert (file["level"], file["record_count"], file["delete_row_count"]) == (0, 2, 1)
    told = run("show", orders, 1, "--json").json
    assert (told["added_levels"], told["delete_rows"], told["changelog_rows"]) == ("0", 1, 3)
    assert (told["min_sequence_number"], told["max_sequence_number"]) == (
        file["min_sequence_number"],
        file["max_sequence_number"],
    )
    assert told["max_sequence_number"] - told["min_sequence_number"] == 1
    assert {"max_sequence_number", "delete_row_count"} <= set(run("files", orders).out.split())
    assert [m["list"] for m in told["manifests"]] == ["delta", "changelog"]


def test_rows_are_deleted_and_updated_by_condition(run: Any, orders: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,note\n1,a\n2,b\n3,c\n")
    assert run("upsert", orders, tmp_path / "a.csv").code == 0
    identity = ("--commit-user", "etl", "--identifier", 1)
    update = ("update", orders, "--where", "length(note) = id OR id = 2", "--set", "note = note || '='", "--json")
    assert run(*update, *identity).json == {"applied": False, "rows_updated": 2}
    assert ll.open_table(orders).snapshots()[-1].id == 1, "without --apply nothing is changed"
    done = run(*update, *identity, "--apply").json
    assert (done["applied"], done["rows_updated"], done["rows_deleted"], done["replayed"]) == (True, 2, 0, False)
    assert run("update", orders, "--set", "note = 'x'", *identity, "--apply", "--json").json["replayed"]
    delete = ("delete", orders, "--where", "note LIKE 'b%' OR id = 3")
    assert run(*delete).out.strip() == "2 rows are to be deleted"
    assert "2 deleted" in run(*delete, "--apply").out
    assert ll.open_table(orders).to_arrow().to_pylist() == [{"id": 1, "note": "a="}]
    refused = run("update", orders, "--set", "nothing = 1", "--json")
    assert refused.code == 2 and "no column 'nothing'" in refused.error["message"]
    assert run("delete", orders, "--where", "id = 1", "--keys", tmp_path / "a.csv").code == 2


def test_errors_of_text_files_name_the_column_the_row_and_the_option(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2.5\n2,NA\n")
    (tmp_path / "like.csv").write_text("id,x\n1,2.5\n")
    assert run("create", tmp_path / "t", "--like", tmp_path / "like.csv").code == 0
    assert ll.open_table(str(tmp_path / "t")).arrow_schema.names == ["id", "x"]
    said = run("write", tmp_path / "t", tmp_path / "a.csv").err
    assert "row 3, column 'x'" in said.lower() and "--null 'NA'" in said
    assert run("write", tmp_path / "t", tmp_path / "a.csv", "--null", "NA").code == 0
    (tmp_path / "b.jsonl").write_text('{"id": 1}\n{"id": "z"}\n')
    assert "line 2: column 'id'" in run("write", tmp_path / "t", tmp_path / "b.jsonl").err
