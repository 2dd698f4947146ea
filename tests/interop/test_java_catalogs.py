"""Apache Paimon's file-system catalog and ours on one warehouse, and Java on tables that were migrated, cloned and exported."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from interop.agreement import our_rows
from jpype import JClass, JException
from values import assert_same_rows

import lakelatch as ll

pytestmark = pytest.mark.java

FIELDS = pa.schema([("id", pa.int32()), ("p", pa.string())])
PLAIN = pa.table(
    {
        "i": pa.array([5, None, -3], pa.int64()),
        "s": ["a" * 40, None, "ü"],
        "d": [date(2024, 2, 29), date(1970, 1, 1), None],
        "dec": [Decimal("1.25"), None, Decimal("-7.50")],
        "f": [float("nan"), -0.0, 2.5],
        "b": [True, None, False],
        "l": [[1, 2], None, []],
    }
)


class JavaCatalog:
    """Apache Paimon's `FileSystemCatalog` on a local folder."""

    def __init__(self, warehouse: Path) -> None:
        path = JClass("org.apache.paimon.fs.Path")(str(warehouse))
        io = JClass("org.apache.paimon.fs.local.LocalFileIO").create()
        self.java = JClass("org.apache.paimon.catalog.FileSystemCatalog")(io, path)
        self._identifier = JClass("org.apache.paimon.catalog.Identifier").fromString

    def databases(self) -> list[str]:
        return sorted(map(str, self.java.listDatabases()))

    def tables(self, database: str) -> list[str]:
        return [str(name) for name in self.java.listTables(database)]

    def create(self, name: str) -> None:
        types, builder = (
            JClass("org.apache.paimon.types.DataTypes"),
            JClass("org.apache.paimon.schema.Schema").newBuilder(),
        )
        builder.column("id", types.INT())
        builder.column("p", types.STRING())
        self.java.createTable(self._identifier(name), builder.build(), False)

    def opens(self, name: str) -> list[str]:
        return [str(field) for field in self.java.getTable(self._identifier(name)).rowType().getFieldNames()]

    def rename(self, name: str, new: str) -> None:
        self.java.renameTable(self._identifier(name), self._identifier(new), False)

    def drop(self, name: str) -> None:
        self.java.dropTable(self._identifier(name), False)


def test_both_catalogs_see_the_same_warehouse(tmp_path: Path, paimon_java: Any) -> None:
    """G8: each lists, opens, renames and drops what the other one made."""
    ours, java = ll.open_catalog(str(tmp_path)), JavaCatalog(tmp_path)
    ours.create_database("air")
    java.java.createDatabase("sea", False)
    assert ours.databases() == java.databases() == ["air", "sea"]
    ours.create_table("air.flights", FIELDS).append(pa.table({"id": [1], "p": ["a"]}, schema=FIELDS))
    ours.create_table("air.dotted.name", FIELDS)
    java.create("sea.ships")
    for database in ("air", "sea"):
        assert ours.tables(database) == java.tables(database)
    assert java.opens("air.flights") == java.opens("air.dotted.name") == ["id", "p"]
    ours["sea.ships"].append(pa.table({"id": [2], "p": ["b"]}, schema=FIELDS))
    assert_same_rows(paimon_java.rows(ours.url_of("sea.ships")), [[2, "b"]])

    java.rename("air.flights", "air.trips")
    assert ours["air.trips"].to_arrow().num_rows == 1
    assert ours.rename_table("air.trips", "sea.trips").to_arrow().num_rows == 1
    assert java.tables("sea") == ours.tables("sea") == ["ships", "trips"]
    paimon_java.commit_rows(ours.url_of("sea.trips"), [[3, "c"]])
    ours.drop_table("sea.ships")
    java.drop("sea.trips")
    assert java.tables("sea") == ours.tables("sea") == []
    java.drop("air.dotted.name")
    ours.drop_database("sea")
    java.java.dropDatabase("air", False, False)
    assert ours.databases() == java.databases() == []
    ours.create_database("air")
    java.java.createDatabase("air", True)
    with pytest.raises(JException):
        java.java.createDatabase("air", False)
    with pytest.raises(ll.InvalidArgument):
        ours.create_database("air")
    ours.drop_database("air")


def test_java_keeps_out_while_a_table_is_being_dropped(tmp_path: Path, paimon_java: Any) -> None:
    """Decision 58: a drop that was cut off leaves a schema, so that Java makes no table among the remains either."""
    from lakelatch.core.metadata.schemas.dropped import marked_dropped

    ours, java = ll.open_catalog(str(tmp_path)), JavaCatalog(tmp_path)
    ours.create_database("air")
    ours.create_table("air.a", FIELDS).append(pa.table({"id": [1], "p": ["a"]}, schema=FIELDS))
    first = tmp_path / "air.db/a/schema/schema-0"
    first.write_bytes(marked_dropped(first.read_bytes(), 7))
    assert java.opens("air.a") == ["id", "p"]
    with pytest.raises(JException):
        java.create("air.a")
    ours.drop_table("air.a")
    java.create("air.a")
    assert paimon_java.rows(ours.url_of("air.a")) == []


@pytest.mark.parametrize("files", ["copy", "reference"])
def test_java_reads_filters_and_writes_on_a_migrated_table(tmp_path: Path, paimon_java: Any, files: Any) -> None:
    """G8: rows, the mode without buckets, statistics that leave out no row; compacted by Java, expired by us."""
    for month in (1, 2):
        (tmp_path / f"plain/month={month}/p=x%2Fy").mkdir(parents=True)
        pq.write_table(PLAIN, tmp_path / f"plain/month={month}/p=x%2Fy/a.parquet", row_group_size=2)
    (tmp_path / "plain/month=2/p=__HIVE_DEFAULT_PARTITION__").mkdir()
    pq.write_table(PLAIN, tmp_path / "plain/month=2/p=__HIVE_DEFAULT_PARTITION__/b.parquet")
    path = tmp_path / "table"
    ll.migrate(str(tmp_path / "plain"), str(path), files=files)
    table = ll.open_table(str(path))
    rows = paimon_java.rows(path)
    assert_same_rows(rows, our_rows(table))
    assert len(rows) == 9 and sorted({row[-2] for row in rows}) == [1, 2]
    assert str(paimon_java.open(path).bucketMode()) == "BUCKET_UNAWARE"
    for wanted, where in (
        (["=", "i", 5], "i = 5"),
        ([">", "i", 5], "i > 5"),
        (["=", "s", "ü"], "s = 'ü'"),
        (["is_null", "s"], "s IS NULL"),
        (["=", "month", 2], "month = 2"),
        (["is_null", "p"], "p IS NULL"),
    ):  # not of floats: Java believes the bounds in the footers, which leave out NaN
        assert len(paimon_java.rows(path, predicate=wanted)) == table.to_arrow(where=where).num_rows, where
    paimon_java.commit_rows(path, [[9, "z", None, None, None, None, None, 1, "q"]])
    assert table.count() == 10
    table.compact(min_files=2, full=True)
    assert_same_rows(paimon_java.rows(path), our_rows(table))
    assert table.verify("all", data=True) == []


def test_java_reads_a_migrated_folder_of_orc_files(tmp_path: Path, paimon_java: Any) -> None:
    (tmp_path / "plain").mkdir()
    orc.write_table(pa.table({"v": [1, None], "s": ["a", "b"]}), tmp_path / "plain/x.orc")
    ll.migrate(str(tmp_path / "plain"), str(tmp_path / "table"), format="orc")
    assert_same_rows(paimon_java.rows(tmp_path / "table"), [[1, "a"], [None, "b"]])


def test_java_reads_every_snapshot_and_tag_of_a_clone(tmp_path: Path, paimon_java: Any) -> None:
    """Also of a table that Java made: keys, buckets, deletion vectors, changelog files."""
    path, copy = tmp_path / "t", tmp_path / "copy"
    options = {"bucket": "2", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
    paimon_java.create_table(path, [("k", "INT NOT NULL"), ("v", "STRING")], primary_keys=["k"], options=options)
    for turn in range(3):
        paimon_java.commit_rows(path, [[k, f"{turn}"] for k in range(turn, turn + 4)], identifier=turn + 1)
    paimon_java.create_tag(path, "eod", 2)
    ll.open_table(str(path)).clone(str(copy))
    for snapshot in paimon_java.snapshots(path):
        there = paimon_java.rows(copy, snapshot=snapshot["id"])
        assert_same_rows(there, paimon_java.rows(path, snapshot=snapshot["id"]))
    assert_same_rows(paimon_java.rows(copy, tag="eod"), paimon_java.rows(path, tag="eod"))
    paimon_java.commit_rows(copy, [[100, "new"]], identifier=9)
    assert len(paimon_java.rows(copy)) == len(paimon_java.rows(path)) + 1
    assert ll.open_table(str(copy)).verify("all", data=True) == []
