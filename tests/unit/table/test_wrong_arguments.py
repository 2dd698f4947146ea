"""Arguments of another type than a call takes are refused by name, not by the line that stumbles over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

SCHEMA = pa.schema([("v", pa.int64())])
WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "open": (lambda table: ll.open_table(None), "URL None is not text"),  # type: ignore[arg-type]
    "create": (lambda table: ll.create_table(5, SCHEMA), "URL 5 is not text"),  # type: ignore[arg-type]
    "catalog": (lambda table: ll.open_catalog(b"x"), "URL b'x' is not text"),  # type: ignore[arg-type]
    "clone": (lambda table: table.clone(None, reference=True), "URL None is not text"),
    "export": (lambda table: table.export(None), "URL None is not text"),
    "branch": (lambda table: table.branch(7), "branch 7 is not text"),
    "tag": (lambda table: table.delete_tag(7), "tag 7 is not text"),
    "consumer": (lambda table: table.set_consumer(None, next_snapshot=1), "consumer None is not text"),
    "undo text": (lambda table: table.undo("1"), "'1' is not a commit"),
    "undo half": (lambda table: table.undo(("etl",)), "('etl',) is not a commit"),
    "undo true": (lambda table: table.undo(True), "True is not a commit"),
    "retain": (lambda table: table.expire(retain_max="2"), "retain_max '2' is not a number"),
    "retain least": (lambda table: table.expire(retain_min=1.5), "retain_min 1.5 is not a number"),
    "deletes": (lambda table: table.expire(max_deletes=True), "max_deletes True is not a number"),
    "partitions": (lambda table: table.expire_partitions(older_than="7 days ago"), "older_than is of type TIMESTAMP"),
    "expire": (lambda table: table.expire(older_than="x"), "older_than is of type TIMESTAMP"),
    "clean": (lambda table: table.clean(older_than="yesterday"), "older_than is of type TIMESTAMP"),
    "changed column": (lambda table: table.alter(ll.drop_column(["v"])), "column ['v'] is not text"),
    "new name": (lambda table: table.alter(ll.rename_column("v", None)), "column None is not text"),
    "new type": (lambda table: table.alter(ll.add_column("w", 5)), "column 'w': 5 is no type"),
    "option": (lambda table: table.alter(ll.set_option({}, "x")), "option {} is not text"),
    "comment": (lambda table: table.alter(ll.set_comment(5)), "comment 5 is not text"),
    "change": (lambda table: table.alter("v INT"), "'v INT' is no change of a schema"),
    "is_in": (lambda table: table.count(ll.col("v").is_in(5)), "column 'v': is_in of 5 is not a list"),
    "columns of a schema": (lambda table: ll.Schema({"v": "INT"}), "columns {'v': 'INT'} is not a list"),
    "a column of a schema": (lambda table: ll.Schema(["v INT"]), "'v INT' is no pair of a name and a type"),
    "recover": (lambda table: ll.recover(None), "URL None is not text"),
    "batch size": (lambda table: list(table.to_batches(batch_size=0)), "batch_size 0 is not a number"),
    "schema and like": (lambda table: ll.create_table("n", SCHEMA, like=table), "create_table takes schema or like"),
    "options": (lambda table: ll.create_table("n", SCHEMA, options=["a"]), "options of type list is not a mapping"),
    "consumers": (lambda table: table.expire_consumers(older_than="a day"), "older_than is of type TIMESTAMP"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    table = ll.create_table("t", SCHEMA)
    table.append(pa.table({"v": [1]}))
    call, told = WRONG[name]
    with pytest.raises(InvalidArgument) as raised:
        call(table)
    assert raised.value.message.startswith(told)
    assert [path.name for path in tmp_path.iterdir()] == ["t"], "no folder of a strange name is made"


def test_a_path_is_taken_wherever_a_url_is(tmp_path: Path) -> None:
    table = ll.create_table(tmp_path / "t", SCHEMA)  # type: ignore[arg-type]
    table.append(pa.table({"v": [1]}))
    table.clone(tmp_path / "whole")  # type: ignore[call-overload]
    table.clone(tmp_path / "sharing", reference=True)  # type: ignore[call-overload]
    table.export(tmp_path / "plain")  # type: ignore[arg-type]
    ll.migrate(tmp_path / "plain", tmp_path / "migrated")  # type: ignore[arg-type]
    ll.rename_table(tmp_path / "whole", tmp_path / "renamed")  # type: ignore[arg-type]
    for name in ("t", "sharing", "migrated", "renamed"):
        assert ll.open_table(tmp_path / name).count() == 1  # type: ignore[arg-type]
    assert ll.open_catalog(tmp_path).databases() == []  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, (), [], "day", ["day"]])
def test_the_columns_of_a_new_table_are_one_name_several_or_none(tmp_path: Path, given: Any) -> None:
    """As Spark's writers take them, so that a job can pass its own argument on."""
    rows = pa.schema([pa.field("day", pa.int64(), nullable=False), ("v", pa.int64())])
    parts = ll.create_table(str(tmp_path / "parts"), rows, partition_by=given)
    lake = ll.open_catalog(str(tmp_path / "lake"))
    lake.create_database("db")
    keyed = lake.create_table("db.t", rows, primary_key=given, options={"bucket": "1"} if given else {})
    wanted = ("day",) if given else ()
    assert (parts.schema.partition_keys, keyed.schema.primary_keys) == (wanted, wanted)


def test_a_number_may_be_one_of_numpy(tmp_path: Path) -> None:
    """As a job takes them out of a frame: in identities, ids of snapshots and times."""
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    rows, one = pa.table({"v": [1]}), np.int64(1)
    assert table.append(rows, commit_user="etl", identifier=one).identifier == 1  # type: ignore[arg-type]
    assert table.append(rows, commit_user="etl", identifier=one).replayed  # type: ignore[arg-type]
    with table.transaction(commit_user="etl", identifier=np.uint8(2)) as tx:  # type: ignore[arg-type]
        tx.append(rows)
    assert table.at(snapshot=one).count() == 1  # type: ignore[arg-type]
    assert "etl" in str(table.explain(one)) and "etl" in str(table.explain(("etl", one)))
    assert table.to_arrow(limit=one).num_rows == 1
    assert table.undo(np.int32(2), commit_user="etl", identifier=np.int64(3)).identifier == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["1", True, 1.5, b"1", [1]])
def test_an_identifier_is_a_whole_number(tmp_path: Path, given: Any) -> None:
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    table.append(pa.table({"v": [1]}), commit_user="etl", identifier=1)
    with pytest.raises(InvalidArgument, match="is not a whole number"):
        table.append(pa.table({"v": [1]}), commit_user="etl", identifier=given)
    with pytest.raises(InvalidArgument, match="is not a whole number"):
        table.update("v = 1", set={"v": "2"}, commit_user="etl", identifier=given)
    assert table.count() == 1
