"""`Table.to_iceberg`: PyIceberg finds the rows that `to_arrow` gives, or the table is refused by name."""

from __future__ import annotations

import gc
import json
import operator
import os
import random
import shutil
import warnings
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_tables import packed, unpack
from values import assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, LakelatchError, Unsupported

NULL_LISTS = "PyIceberg shows a null list or map of ROWs as an empty one"


def same_rows(table: ll.Table, where: str = "") -> None:
    seen = table.to_iceberg().scan().to_arrow()
    assert_same_rows(encode_rows(seen, table.schema.fields), encode_rows(table.to_arrow(), table.schema.fields), where)


def folder_of(found: Any) -> Path:
    return Path(found.metadata_location.removeprefix("file:")).parent


# --------------------------------------------------------------------------------------------------- rows of all kinds

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 0, 127]),
    "small": (pa.int16(), [-32768, 5, 32767]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -1, 2**63 - 1]),
    "single": (pa.float32(), [-0.0, 1.5, float("inf")]),
    "double": (pa.float64(), [float("-inf"), -0.0, 2.5]),
    "dec": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999.99")]),
    "wide": (pa.decimal128(38, 10), [Decimal("-1.5"), Decimal("9" * 28 + ".5")]),
    "day": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "text": (pa.string(), ["", "a", "žluťoučký", "long " * 10, "\U0010ffff" * 20]),
    "millis": (pa.timestamp("ms"), [-1, 0, 1_700_000_000_123]),
    "micros": (pa.timestamp("us"), [-1, 0, 1_700_000_000_123_456]),
    "nanos": (pa.timestamp("ns"), [-1, 0, 1_700_000_000_123_456_789]),
    "instant": (pa.timestamp("us", "UTC"), [-1, 0, 1_700_000_000_123_456]),
}
VALUES_ALONE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bytes": (pa.binary(), [b"", b"\xff\x00"]),
    "list": (pa.list_(pa.int32()), [[], [1, None]]),
    "map": (pa.map_(pa.string(), pa.list_(pa.int64())), [[], [("k", [1])]]),
    "row": (pa.struct([("a b", pa.int8()), ("in.side", pa.list_(pa.string()))]), [{"a b": 1, "in.side": ["x"]}]),
    "not a number": (pa.float64(), [float("nan"), 1.0]),
}


def some_rows(chance: random.Random, columns: dict[str, tuple[pa.DataType, list[Any]]], count: int) -> pa.Table:
    return pa.table(
        {
            name: pa.array([None if chance.random() < 0.2 else chance.choice(values) for _ in range(count)], kind)
            for name, (kind, values) in columns.items()
        }
    )


@pytest.mark.parametrize("partition", [None, *(name for name in TYPES if name != "nanos")])
def test_rows_of_every_type_and_partitions_of_every_type(tmp_path: Path, partition: str | None) -> None:
    chance = random.Random(str(partition))
    columns = {**TYPES, **VALUES_ALONE}
    schema = some_rows(chance, columns, 1).schema
    table = ll.create_table(f"{tmp_path}/t", schema, partition_by=[partition] if partition else [])
    for _ in range(3):
        table.append(some_rows(chance, columns, 20))
    same_rows(table)
    seen = table.to_iceberg()
    for name in TYPES if partition is None else [partition]:
        nulls = seen.scan(row_filter=filter_of("IsNull", name), selected_fields=(name,)).to_arrow()
        assert nulls.num_rows == table.to_arrow([name], where=ll.col(name).is_null()).num_rows
        for value in TYPES[name][1]:
            if name in ("single", "nanos") or (value == 0 and isinstance(value, float)):
                continue  # PyIceberg takes a FLOAT's literal for a DOUBLE, compares no nanoseconds, and tells zeros apart
            for comparison, ours in OURS.items():
                found = seen.scan(row_filter=filter_of(comparison, name, value), selected_fields=(name,)).to_arrow()
                wanted = table.to_arrow([name], where=ours(ll.col(name), moment(name, value)))
                assert found.num_rows == wanted.num_rows, (name, comparison, value)


OURS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "LessThanOrEqual": operator.le,
}


def moment(name: str, value: Any) -> Any:
    """A value as a literal: of times, the Arrow scalar."""
    kind = TYPES[name][0]
    return pa.scalar(value, kind) if pa.types.is_timestamp(kind) else value


def filter_of(comparison: str, name: str, *value: Any) -> Any:
    import pyiceberg.expressions as of
    from pyiceberg.expressions import literals

    kind = TYPES[name][0]
    given = list(value)
    if given and pa.types.is_timestamp(kind):
        micros = {"ms": given[0] * 1000, "us": given[0], "ns": given[0]}[kind.unit]
        given = [literals.LongLiteral(micros).to(_time_of(kind))]
    if given and pa.types.is_decimal(kind):
        given = [given[0].quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=50))]
    return getattr(of, comparison)(name, *given)


def _time_of(kind: pa.DataType) -> Any:
    from pyiceberg import types

    if kind.unit == "ns":
        return types.TimestampNanoType()
    return types.TimestamptzType() if kind.tz else types.TimestampType()


def test_statistics_leave_out_files(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64()), ("p", pa.string())]), partition_by=["p"])
    for n in range(5):
        table.append(pa.table({"k": [10 * n, 10 * n + 1], "p": [f"p{n}", f"p{n}"]}))
    seen = table.to_iceberg()
    assert len(list(seen.scan(row_filter="k = 20").plan_files())) == 1
    assert len(list(seen.scan(row_filter="p = 'p3'").plan_files())) == 1
    assert len(list(seen.scan(row_filter="k > 20 and p = 'p0'").plan_files())) == 0
    assert len(list(seen.scan().plan_files())) == 5


def test_nan_is_no_bound(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("x", pa.float64())]))
    table.append(pa.table({"x": [1.0, float("nan")]}))
    table.append(pa.table({"x": [float("nan")]}))
    files = table.to_iceberg().inspect.files().to_pylist()
    assert sorted((len(f["lower_bounds"]), len(f["upper_bounds"])) for f in files) == [(0, 0), (1, 0)]
    same_rows(table)


# ------------------------------------------------------------------------------------------------ changes of the table


def test_columns_that_were_renamed_widened_added_and_dropped(tmp_path: Path) -> None:
    struct = pa.struct([("x", pa.int32()), ("y", pa.string())])
    table = ll.create_table(
        f"{tmp_path}/t", pa.schema([("a", pa.int32()), ("b", pa.float32()), ("c", pa.string()), ("r", struct)])
    )
    table.append(pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([0.5, None], pa.float32()), "c": ["x", "y"],
                           "r": pa.array([{"x": 1, "y": "z"}, None], struct)}))  # fmt: skip
    table.alter(ll.rename_column("a", "k"), ll.update_type("k", pa.int64()), ll.update_type("b", pa.float64()))
    table.alter(ll.drop_column("c"), ll.add_column("c", pa.int64()), ll.rename_column("r.x", "new"))
    table.append(
        pa.table({"k": [2**40], "b": [1e300], "c": [7], "r": pa.array([{"new": 5, "y": "q"}], struct_of("new"))})
    )
    same_rows(table)
    seen = table.to_iceberg()
    assert seen.scan(row_filter="k = 1").to_arrow().num_rows == 1
    assert seen.scan(row_filter="k > 2").to_arrow()["c"].to_pylist() == [7]
    assert seen.scan(row_filter="c is null").to_arrow().num_rows == 2


def struct_of(name: str) -> pa.DataType:
    return pa.struct([(name, pa.int32()), ("y", pa.string())])


def test_earlier_states_branches_and_tables_without_rows(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64())]))
    empty = table.to_iceberg()
    assert empty.scan().to_arrow().num_rows == 0
    assert empty.schema().column_names == ["k"]
    table.append(pa.table({"k": [1]}))
    table.create_branch("dev")
    table.branch("dev").append(pa.table({"k": [5]}))
    table.append(pa.table({"k": [2]}))
    assert table.at(snapshot=1).to_iceberg().scan().to_arrow()["k"].to_pylist() == [1]
    assert sorted(table.to_iceberg().scan().to_arrow()["k"].to_pylist()) == [1, 2]
    assert table.branch("dev").to_iceberg().scan().to_arrow()["k"].to_pylist()[-1] == 5
    one, two = (table.to_iceberg().metadata for _ in range(2))
    assert one.table_uuid == two.table_uuid == empty.metadata.table_uuid
    others = (table.at(snapshot=1), table.branch("dev"), ll.open_table(table.url))
    assert {other.to_iceberg().metadata.table_uuid for other in others} == {one.table_uuid}
    table.expire(retain_min=1, retain_max=1)
    same_rows(table)


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.bitmap64": "true"}])
def test_deleted_rows_of_an_append_table(tmp_path: Path, options: dict[str, str]) -> None:
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32())])
    table = ll.create_table(
        f"{tmp_path}/t", schema, partition_by=["p"], options={"deletion-vectors.enabled": "true", **options}
    )
    for n in range(3):
        table.append(pa.table({"k": range(10 * n, 10 * n + 10), "p": pa.array([n % 2] * 10, pa.int32())}))
    table.delete(where="k % 3 = 0")
    seen = table.to_iceberg()
    assert seen.metadata.format_version == 3
    assert sorted(seen.scan().to_arrow()["k"].to_pylist()) == [k for k in range(30) if k % 3]
    assert sorted(seen.scan(row_filter="p = 1").to_arrow()["k"].to_pylist()) == [k for k in range(10, 20) if k % 3]
    table.update(where="k > 20", set={"k": "k + 100"})
    same_rows(table)


def keyed(path: Path, **options: str) -> ll.Table:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    return ll.create_table(f"{path}/t", schema, primary_key=["k"], options={"bucket": "2", **options})


def test_rows_that_must_be_merged_are_refused_with_advice_that_works(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    table.upsert(pa.table({"k": range(10), "v": ["a"] * 10}))
    table.compact(full=True)
    same_rows(table)
    table.upsert(pa.table({"k": [3], "v": ["b"]}))
    with pytest.raises(Unsupported, match=r"rows of the same keys.*compact\(full=True\).*read_optimized=True"):
        table.to_iceberg()
    older = table.to_iceberg(read_optimized=True).scan().to_arrow()
    assert set(older["v"].to_pylist()) == {"a"} and older.num_rows == 10
    table.compact(full=True)
    same_rows(table)
    assert table.to_iceberg().scan(row_filter="k = 3").to_arrow()["v"].to_pylist() == ["b"]


def test_keys_with_vectors_show_what_batch_reads_show(tmp_path: Path) -> None:
    table = keyed(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.upsert(pa.table({"k": range(50), "v": ["a"] * 50}))
    table.compact()
    table.upsert(pa.table({"k": [3, 7], "v": ["b", "b"]}))
    table.compact()
    table.delete_keys(pa.table({"k": [4]})) if hasattr(table, "delete_keys") else table.delete(where="k = 4")
    table.compact()
    same_rows(table)
    assert table.to_iceberg().scan(row_filter="v = 'b'").to_arrow().num_rows == 2


def test_files_of_another_table_and_of_a_migrated_one(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64()), ("p", pa.string())]), partition_by=["p"])
    table.append(pa.table({"k": [1, 2], "p": ["a b/%41", ""]}))
    table.clone(f"{tmp_path}/clone", reference=True)
    same_rows(ll.open_table(f"{tmp_path}/clone"))
    source = tmp_path / "hive" / "m=1"
    source.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), source / "part-0.parquet")
    ll.migrate(str(source.parent), f"{tmp_path}/migrated")
    migrated = ll.open_table(f"{tmp_path}/migrated")
    migrated.alter(ll.rename_column("a", "c"))
    same_rows(migrated)
    assert migrated.to_iceberg().scan(row_filter="m = 1").to_arrow()["c"].to_pylist() == [1, 2]


# ------------------------------------------------------------------------------------------------------------ refusals


def follow(refused: Unsupported, table: ll.Table) -> None:
    """Do what an error advises, to the letter."""
    exec(str(refused).partition("written again: ")[2].removesuffix(")"), {"table": table})


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("at", pa.time32("ms")),
        ("inst", pa.timestamp("ns", "UTC")),
        ("deep", pa.list_(pa.struct([("t", pa.time32("ms"))]))),
    ],
)
def test_types_that_readers_of_iceberg_lack(tmp_path: Path, column: str, kind: pa.DataType) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64()), (column, kind)]))
    table.append(pa.table({"k": [1], column: pa.array([None], kind)}))
    with pytest.raises(Unsupported, match=f"column '{column}' is .*for which Iceberg's readers have no type"):
        table.to_iceberg()
    table.alter(ll.drop_column(column))
    with pytest.raises(Unsupported, match=f"files of schema 0: column '{column}'") as refused:
        table.to_iceberg()
    follow(refused.value, table)
    same_rows(table)


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_files_that_are_not_parquet(tmp_path: Path, form: str) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64())]), options={"file.format": form})
    table.append(pa.table({"k": [1]}))
    with pytest.raises(Unsupported, match=rf"\.{form} is no Parquet file.*file.format") as refused:
        table.to_iceberg()
    table.alter(ll.set_option("file.format", "parquet"))
    follow(refused.value, table)
    same_rows(table)


def test_a_changed_type_that_iceberg_lacks(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("v", pa.int32())]))
    table.append(pa.table({"v": pa.array([1], pa.int32())}))
    table.alter(ll.update_type("v", pa.string()))
    with pytest.raises(Unsupported, match=r"files of schema 0 hold column 'v' as INT; .* as STRING") as refused:
        table.to_iceberg()
    follow(refused.value, table)
    same_rows(table)


def test_a_partition_column_that_manifests_cannot_tell(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("ns"))])
    table = ll.create_table(f"{tmp_path}/t", schema, partition_by=["at"])
    with pytest.raises(Unsupported, match=r"partition column 'at' is TIMESTAMP\(9\)"):
        table.to_iceberg()


def test_places_that_the_caller_did_not_allow(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    table.clone(f"{tmp_path}/clone", reference=True)
    shutil.copytree(tmp_path / "clone", tmp_path / "copy")
    copy = ll.open_table(f"{tmp_path}/copy")
    with pytest.raises(InvalidArgument, match="allow") as refused:
        copy.to_arrow()
    with pytest.raises(InvalidArgument) as same:
        copy.to_iceberg()
    assert str(same.value) == str(refused.value)


def test_a_store_that_others_cannot_open() -> None:
    table = ll.create_table("memory://iceberg-tests/t", pa.schema([("k", pa.int64())]))
    with pytest.raises(Unsupported, match="readers of Iceberg cannot open this store"):
        table.to_iceberg()


@pytest.mark.parametrize("folder", ["a b", "a%20b", "a:b", "ü;'&", "a#b", "a?b"])
def test_folders_with_signs_of_urls(tmp_path: Path, folder: str) -> None:
    table = ll.create_table(
        f"{tmp_path}/{folder}/t", pa.schema([("k", pa.int64()), ("p", pa.string())]), partition_by=["p"]
    )
    table.append(pa.table({"k": [1], "p": ["#?% é/"]}))
    if {"#", "?"}.isdisjoint(folder):
        same_rows(table)
        return
    with pytest.raises(Unsupported, match="readers of Iceberg take what follows"):
        table.to_iceberg()
    table.clone(f"{tmp_path}/plain")
    same_rows(ll.open_table(f"{tmp_path}/plain"))


def test_columns_of_one_row_in_several_files(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64()), ("v", pa.int64())]), options=options)
    table.append(pa.table({"k": [1, 2], "v": [1, 2]}))
    same_rows(table)
    table.update_columns(pa.table({"_ROW_ID": [0], "v": [7]}))
    with pytest.raises(Unsupported, match="hold columns of the same rows") as refused:
        table.to_iceberg()
    follow(refused.value, table)
    same_rows(table)
    assert sorted(table.to_arrow()["v"].to_pylist()) == [2, 7]


# ---------------------------------------------------------------------------------------------- the folder of metadata


def test_the_folder_lives_as_long_as_the_last_scan(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    scan = table.to_iceberg().scan()
    folder = folder_of(table.to_iceberg())
    gc.collect()
    assert not folder.exists()
    assert scan.to_arrow().num_rows == 1
    seen = table.to_iceberg()
    child = os.fork()
    if child == 0:
        folder = folder_of(seen)
        del seen
        gc.collect()
        os._exit(0 if folder.exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert folder_of(seen).exists()


def test_a_refused_table_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("v", pa.time32("ms"))]))
    with pytest.raises(Unsupported):
        table.to_iceberg()
    assert not list((tmp_path / "tmp").iterdir())


def test_null_lists_of_rows_are_warned_of(tmp_path: Path) -> None:
    """A fault of PyIceberg 0.12; when this test fails, the warning can go."""
    kind = pa.list_(pa.struct([("a", pa.int64())]))
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("v", kind)]))
    table.append(pa.table({"v": pa.array([None, []], kind)}))
    with pytest.warns(UserWarning, match=f"{NULL_LISTS}, in column 'v'"):
        seen = table.to_iceberg()
    assert seen.scan().to_arrow()["v"].to_pylist() == [[], []]


def test_the_document_names_its_snapshot(tmp_path: Path) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]))
    receipt = table.append(pa.table({"k": [1, 2], "v": ["a", "b"]}))
    seen = table.to_iceberg()
    document = json.loads((folder_of(seen) / "v1.metadata.json").read_text())
    assert document["current-snapshot-id"] == receipt.snapshot_id
    assert document["snapshots"][0]["timestamp-ms"] == table.snapshot().time_ms
    assert document["snapshots"][0]["summary"]["total-records"] == "2"
    assert [f["required"] for f in document["schemas"][0]["fields"]] == [True, False]


# ------------------------------------------------------------------------------------------------ a folder for others


def test_an_export_for_readers_of_iceberg(tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    schema = pa.schema([("k", pa.int64()), ("p", pa.string())])
    table = ll.create_table(f"{tmp_path}/t", schema, partition_by=["p"], options={"deletion-vectors.enabled": "true"})
    table.append(pa.table({"k": [1, 2, 3], "p": ["a", "a", "b"]}))
    table.create_tag("eod")
    table.delete(where="k = 2")
    done = table.export(f"{tmp_path}/out", format="iceberg")
    assert (done.snapshot_id, done.row_count) == (2, 2)
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {*done.files, "_SUCCESS"} and "metadata/version-hint.text" in found
    seen = StaticTable.from_metadata(f"{tmp_path}/out")  # PyIceberg follows the hint
    assert sorted(seen.scan().to_arrow()["k"].to_pylist()) == [1, 3]
    older = table.export(f"{tmp_path}/older", tag="eod", format="iceberg")
    assert older.row_count == StaticTable.from_metadata(f"{tmp_path}/older").scan().to_arrow().num_rows == 3
    assert seen.metadata.table_uuid == table.to_iceberg().metadata.table_uuid
    with pytest.raises(InvalidArgument, match="whole files"):
        table.export(f"{tmp_path}/none", format="iceberg", where="k = 1")
    with pytest.raises(InvalidArgument, match="holds a finished export"):
        table.export(f"{tmp_path}/out", format="iceberg")
    with pytest.raises(Unsupported, match="cannot open this store"):
        table.export("memory://iceberg-export/t", format="iceberg")


def test_a_refused_export_leaves_nothing(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    table.upsert(pa.table({"k": [1], "v": ["a"]}))
    table.upsert(pa.table({"k": [1], "v": ["b"]}))
    with pytest.raises(Unsupported, match="rows of the same keys"):
        table.export(f"{tmp_path}/out", format="iceberg")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    table.export(f"{tmp_path}/out")


def test_an_export_that_was_cut_off_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ll.create_table(f"{tmp_path}/t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("lakelatch.table.export.iceberg.document_of", interrupted)
        table.export(f"{tmp_path}/out", format="iceberg")
    assert list((tmp_path / "out" / "metadata").iterdir()) and not (tmp_path / "out" / "_SUCCESS").exists()
    (tmp_path / "out" / "metadata" / "left").write_text("by an earlier version")
    done = table.export(f"{tmp_path}/out", format="iceberg")
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {*done.files, "_SUCCESS"} and "metadata/left" not in found


def interrupted(*_: Any) -> bytes:
    raise KeyboardInterrupt


# --------------------------------------------------------------------------------------- tables of Apache Paimon itself


@pytest.mark.parametrize("name", packed())
def test_tables_of_apache_paimon_are_shown_right_or_refused(name: str, tmp_path: Path) -> None:
    table = ll.open_table(str(unpack(name, tmp_path).path))
    try:
        table.to_arrow()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            table.to_iceberg()
    except LakelatchError:
        return
    if any(NULL_LISTS in str(each.message) for each in warned):
        return
    if name in WITHOUT_IDS:
        with pytest.raises(ValueError, match="does not have field-ids"):
            table.to_iceberg().scan().to_arrow()
    else:
        same_rows(table, name)


WITHOUT_IDS = ("paimon-java-0.7.0-incubating/append_evolve",)
"""Files without field ids, in whose tables one name meant two columns in turn: no mapping can tell them apart."""
