"""Tables with file indexes: reads skip files and rows, and never miss a row, whatever happens to the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from file_indexes import answer
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_rows import mark
from predicates import FIELDS, evaluate, predicates, tables, values_of
from pyroaring import BitMap
from unit.coordinator.maintenance.test_expire import expired

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, TableCorrupt
from lakelatch.core.expressions.binding import bind
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.tree import Predicate, columns_of
from lakelatch.core.file_index.asking import IndexedColumn
from lakelatch.core.file_index.options import KINDS, takes
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.types import AtomicType, Field, parse_atomic, string
from lakelatch.table.formats.parquet import reader as parquet_reader
from lakelatch.table.scan import index_pruning
from lakelatch.table.table import Table
from lakelatch.table.writing.files import data_writer

COUNTER = itertools.count()
BESIDE = {"file-index.in-manifest-threshold": "1 b"}
BLIND = {"metadata.stats-mode": "none"}
"""No column statistics, so that files can be distinguished only by their indexes."""


def table_of(fields: list[Field], options: dict[str, str], partition_keys: Iterable[str] = ()) -> Table:
    store = MeteredStore(MemoryStore(f"memory://indexed-{next(COUNTER)}/t"))
    schema = new_schema(fields, options={**BLIND, **options}, partition_keys=tuple(partition_keys))
    store.put("schema/schema-0", schema.to_json())
    return Table(store, schema)


def numbers(options: dict[str, str], *files: Iterable[int | None], kind: str = "bitmap") -> Table:
    """A table of one column with an index, and its files."""
    table = table_of([Field(0, "x", AtomicType("INT"))], {f"file-index.{kind}.columns": "x", **options})
    for values in files:
        table.append(pa.table({"x": pa.array(list(values), pa.int32())}))
    return table


def found(table: Table, where: Predicate) -> list[Any]:
    return sorted(table.to_arrow(where=where)["x"].to_pylist())


def keys(table: Table, ending: str = "") -> set[str]:
    return {info.key for info in table.store.list("") if info.key.endswith(ending)}


# ------------------------------------------------------------------------------------------------------------- reading


@settings(max_examples=25, deadline=None)
@given(
    table=tables(12).filter(len),
    conditions=st.lists(predicates(), min_size=4, max_size=4),
    kinds=st.sets(st.sampled_from(KINDS), min_size=1),
    file_format=st.sampled_from(["parquet", "orc", "avro"]),
    threshold=st.sampled_from(["1 b", "1 mb"]),
)
def test_the_rows_are_those_without_an_index(
    table: pa.Table, conditions: list[Any], kinds: set[str], file_format: str, threshold: str
) -> None:
    """G4: any predicate, any kinds, in the manifest or beside the file, in every format."""
    fields = [f for f in FIELDS if f.name not in "at" or file_format == "parquet"]  # years that other formats lack
    options = {
        "file.format": file_format,
        "file-index.in-manifest-threshold": threshold,
        **{
            f"file-index.{kind}.columns": ",".join(f.name for f in fields if takes(kind, f.type) and f.name != "n")
            for kind in kinds
        },
        **{f"file-index.bloom-filter.{f.name}.items": "9" for f in fields if takes("bloom-filter", f.type)},
    }
    if "bloom-filter" not in kinds:
        options = {k: v for k, v in options.items() if not k.endswith(".items")}
    made = table_of(fields, options)
    half = table.num_rows // 2
    for part in (table.slice(0, half), table.slice(half)):
        if part.num_rows:
            made.append(part.select([f.name for f in fields]))
    names = {f.name for f in fields}
    rows = values_of(table)
    for condition in conditions:
        bound = bind(condition, FIELDS)
        if not columns_of(bound) <= names:
            continue
        wanted = sum(evaluate(bound, row) is True for row in rows)
        assert made.to_arrow(where=bound).num_rows == wanted, str(bound)
    assert made.verify("all", data=True) == []


def test_files_are_left_out_by_the_index_in_their_manifest() -> None:
    table = numbers({}, [1, 2], [2, 3], [None])
    plan = table.plan(col("x") == 3)
    assert (plan.files_considered, plan.files_pruned_by_index, plan.file_count) == (3, 2, 1)
    assert plan.to_dict()["files_pruned_by_index"] == 2 and "; 2 ruled out by file index" in str(plan)
    assert table.plan(col("x").is_null()).file_count == 1
    assert table.plan((col("x") == 7) | (col("x") == 1)).file_count == 1
    assert table.plan(~(col("x") != 2)).file_count == 2
    assert found(table, col("x") == 2) == [2, 2]


def test_statistics_are_used_before_indexes() -> None:
    """The index of a file is not read if bounds rule the file out."""
    table = numbers({"metadata.stats-mode": "full"}, [1, 2], [5, 9])
    plan = table.plan(col("x") == 7)
    assert (plan.files_pruned_by_statistics, plan.files_pruned_by_index) == (1, 1)


def test_data_files_that_an_index_beside_them_rules_out_are_not_opened() -> None:
    table = numbers(BESIDE, range(0, 100, 2), range(1, 100, 2))
    assert all(entry.file.embedded_file_index is None for entry in table.entries())
    (odd,) = [e.file.file_name for e in table.entries() if has_odd(table, e.file)]
    table.store.delete_many([f"bucket-0/{odd}"])
    assert found(table, col("x") == 8) == [8]
    with pytest.raises(TableCorrupt, match="missing"):
        found(table, col("x") < 8)


def has_odd(table: Table, file: DataFile) -> bool:
    index = index_pruning.beside(table.store, f"bucket-0/{file.file_name}.index", file)
    return bool(answer(index, col("x") == 1, {"x": IndexedColumn("x", AtomicType("INT"))}))


def test_an_index_beside_a_file_costs_one_request() -> None:
    table = numbers(BESIDE, range(1000))
    usage = []
    for where in (col("x") == 2000, col("x") == 5):
        table.plan(where)
        table.store.reset()
        table.plan(where)
        planning = table.store.snapshot().requests
        table.store.reset()
        assert len(found(table, where)) == (where == (col("x") == 5))
        usage.append((table.store.snapshot().requests - planning, table.store.snapshot().by_operation.get("get_range")))
    assert usage == [(1, 1), (2, 1)]


@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap", "bsi", "bloom-filter"])
def test_a_large_index_is_read_in_parts(kind: str) -> None:
    """After its first bytes, only the needed ranges of a sidecar are fetched, and only once its size is known."""
    options = {**BESIDE, "file-index.bloom-filter.x.items": "900000"} if kind == "bloom-filter" else BESIDE
    values = [(i * 7919) % 60_000 - 500 for i in range(60_000)]
    table = numbers(options, values, kind=kind)
    (sidecar,) = keys(table, ".index")
    assert table.store.head(sidecar).size > 2 * index_pruning.HEAD_BYTES
    for wanted in ([-500], [59_000], [3, 59_499, 70_000]):
        assert found(table, col("x").is_in(wanted)) == [v for v in wanted if v in set(values)]
    assert table.verify(data=True) == []


@pytest.mark.parametrize("hits", [{11_111}, {3_000, 11_111}])
def test_row_groups_without_a_wanted_row_are_not_read(hits: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are the file's, in every row group."""
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 4096)
    # Each row group has small and large values, so that its bounds say nothing.
    values = [5000 if i in hits else (i * 7919) % 10_000 // 5000 * 9999 for i in range(20_000)]
    table = numbers(BESIDE, values)
    read: list[int] = []
    original = parquet_reader.ParquetFile._group
    monkeypatch.setattr(
        parquet_reader.ParquetFile,
        "_group",
        lambda self, group, *rest: read.append(group) or original(self, group, *rest),
    )
    assert found(table, col("x") == 5000) == [5000] * len(hits)
    assert len(read) == len(hits)
    table.alter(ll.set_option("file-index.read.enabled", "false"))
    assert found(table, col("x") == 5000) == [5000] * len(hits)
    assert len(read) > 10


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("bits", [32, 64])
def test_with_deleted_rows(file_format: str, bits: int) -> None:
    """G8: indexes include deleted rows. Deletion vectors of both kinds are applied to the rows that an index leaves."""
    values = [i % 10 for i in range(5000)]
    table = numbers({**BESIDE, "file.format": file_format}, values)
    deleted = set(range(0, 5000, 3))
    mark(table, {table.entries()[0].file.file_name: sorted(deleted)}, bits)
    for value in (0, 3, 7):
        kept = [i for i, v in enumerate(values) if v == value and i not in deleted]
        assert table.to_arrow(where=col("x") == value).num_rows == len(kept)
    assert table.to_arrow(where=col("x") != 3).num_rows == sum(v != 3 for i, v in enumerate(values) if i not in deleted)


def test_a_column_of_partitions_beside_one_with_an_index() -> None:
    fields = [Field(0, "p", AtomicType("INT")), Field(1, "x", AtomicType("INT"))]
    table = table_of(fields, {"file-index.bitmap.columns": "p,x"}, ["p"])
    table.append(pa.table({"p": pa.array([1, 1, 2], pa.int32()), "x": pa.array([1, 2, 3], pa.int32())}))
    assert table.to_arrow(where=(col("p") == 2) | (col("x") == 1)).num_rows == 2
    assert table.to_arrow(where=(col("p") == 1) & (col("x") == 3)).num_rows == 0
    assert table.plan((col("p") == 1) & (col("x") == 3)).file_count == 0


# --------------------------------------------------------------------------------------------------- columns that change


def test_an_index_is_used_for_the_columns_that_its_file_has() -> None:
    """Columns are matched by field id. The index is used for a widened type, but not for a changed type or a reused name."""
    fields = [Field(0, "a", AtomicType("INT")), Field(1, "b", AtomicType("INT")), Field(2, "c", AtomicType("FLOAT"))]
    table = table_of(fields, {"file-index.bitmap.columns": "a,b,c"})
    old = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([7, 8], pa.int32()), "c": pa.array([0.5, 1.5])})
    table.append(old)
    table.alter(ll.rename_column("a", "t"), ll.rename_column("b", "a"), ll.rename_column("t", "b"))
    assert table.schema.option_texts["file-index.bitmap.columns"] == "b,a,c"
    assert table.plan(col("a") == 1).file_count == 0
    assert table.to_arrow(where=col("b") == 1).num_rows == table.to_arrow(where=col("a") == 8).num_rows == 1
    table.alter(ll.update_type("b", "BIGINT"), ll.update_type("c", "DOUBLE"))
    assert table.plan(col("b") == 2**40).file_count == 0
    assert table.to_arrow(where=col("b") < 2**40).num_rows == 2
    assert table.to_arrow(where=(col("c") > 0.1) & (col("c") < 0.7)).num_rows == 1
    table.alter(ll.update_type("a", "STRING"))
    assert table.to_arrow(where=col("a") == "8").num_rows == 1
    table.append(pa.table({"b": [1, 5], "a": ["x", "8"], "c": [0.1, 0.2]}))
    assert table.to_arrow(where=col("a") == "8").num_rows == 2
    assert table.plan(col("a") == "nothing").file_count == 1
    assert table.verify("all", data=True) == []


def test_an_indexed_column_cannot_go_unnoticed() -> None:
    """Apache Paimon would fail at the next write."""
    table = numbers({}, [1])
    table.alter(ll.add_column("y", "STRING"))
    with pytest.raises(InvalidArgument, match=r"file-index\.bitmap\.columns"):
        table.alter(ll.drop_column("x"))
    table.alter(ll.remove_option("file-index.bitmap.columns"), ll.drop_column("x"))
    table.append(pa.table({"y": ["a"]}))
    assert table.to_arrow(where=col("y") == "a").num_rows == 1


def test_char_in_orc() -> None:
    """Readers of ORC drop the blanks at a CHAR's end; its index has them."""
    char = parse_atomic("CHAR(4)")
    for file_format in ("orc", "parquet"):
        table = table_of([Field(0, "x", char)], {"file.format": file_format, "file-index.bitmap.columns": "x"})
        table.append(pa.table({"x": ["a", "a  ", "b", None]}))
        shown = table.to_arrow()["x"].to_pylist()
        for text in ("a", "a  ", "b", "c"):
            for where in (col("x") == text, col("x") != text, col("x") <= text):
                bound = bind(where, table.schema.fields)
                kept = [v for v in shown if evaluate(bound, {"x": v}) is True]
                assert found(table, where) == sorted(kept), (file_format, str(where))
        assert table.plan(col("x") == "c").file_count == 0


# ------------------------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("wide", [0, 600])
def test_the_location_of_an_index(wide: int) -> None:
    """Small ones in the manifest, larger ones beside the file, by the option's size."""
    table = table_of([Field(0, "x", string())], {"file-index.bitmap.columns": "x"})
    table.append(pa.table({"x": ["a" * wide]}))
    (entry,) = table.entries()
    beside = f"{entry.file.file_name}.index"
    assert entry.file.extra_files == ((beside,) if wide else ())
    assert (entry.file.embedded_file_index is None) is bool(wide)
    assert keys(table, ".index") == ({f"bucket-0/{beside}"} if wide else set())


def test_compaction_makes_indexes_anew() -> None:
    for options in ({}, BESIDE):
        table = numbers(options, *[[i, i + 10] for i in range(8)])
        before = keys(table, ".index")
        table.compact()
        (entry,) = table.entries()
        assert bool(entry.file.extra_files) is bool(options)
        assert before <= keys(table, ".index")
        assert found(table, col("x") == 13) == [13]
        assert table.to_arrow(where=col("x") == 100).num_rows == 0
        assert table.verify("all", data=True) == []


def test_expiry_takes_the_index_with_its_file() -> None:
    table = numbers(BESIDE, [1], [2])
    table.overwrite(pa.table({"x": pa.array([3], pa.int32())}))
    table.committer.settle()
    assert len(keys(table, ".index")) == 3
    expired(table, retain_max=1, retain_min=1)
    assert len(keys(table, ".parquet")) == len(keys(table, ".index")) == 1
    assert table.verify("all", data=True) == []


def test_an_index_is_not_an_orphan() -> None:
    """G7: beside a file that a snapshot needs it stays; beside one that none needs it goes with it."""
    table = numbers(BESIDE, [1], [2])
    left = {"bucket-0/data-x-0.parquet": b"", "bucket-0/data-x-0.parquet.index": b""}
    for key, data in left.items():
        table.store.put(key, data)
    assert {info.key for info in plan_orphans(table.timeline, table.schema, 2**62).files} == set(left)


def test_a_write_that_fails_leaves_no_index() -> None:
    """G5: beside data files that are deleted their indexes are too, also those of a job that was handed in as messages."""
    table = numbers(BESIDE, [1])
    before = keys(table)
    with pytest.raises(ZeroDivisionError), table.transaction() as transaction:
        transaction.append(pa.table({"x": pa.array([5], pa.int32())}))
        transaction._rows._writer.finish()
        raise ZeroDivisionError
    assert keys(table) == before
    bsi = table_of([Field(0, "x", AtomicType("BIGINT"))], {"file-index.bsi.columns": "x"})
    with pytest.raises(InvalidArgument, match="column 'x'"):
        bsi.append(pa.table({"x": [-(2**63)]}))
    assert keys(bsi) == {"schema/schema-0"}


class Refusing(MemoryStore):
    """A store that fails to write indexes."""

    def put(self, key: str, data: bytes) -> None:
        if key.endswith(".index"):
            raise StoreUnavailable(f"{key} is refused")
        super().put(key, data)


def test_a_commit_needs_its_index() -> None:
    """G1: what a snapshot names is durable before it; a sidecar that is not there would fail every filtered read."""
    table = numbers(BESIDE, [1])
    refusing = Refusing(f"memory://indexed-{next(COUNTER)}/t")
    refusing.put("schema/schema-0", table.schema.to_json())
    broken = Table(refusing, table.schema)
    with pytest.raises(StoreUnavailable, match="refused"):
        broken.append(pa.table({"x": pa.array([1], pa.int32())}))
    assert broken.snapshot() is None


# -------------------------------------------------------------------------------------------------------------- damage


def test_a_missing_or_damaged_index_is_reported() -> None:
    """It does not mean "no row". The error names the file. A read without a filter, or with indexes disabled, succeeds."""
    table = numbers(BESIDE, [1, 2, 3])
    (sidecar,) = keys(table, ".index")
    whole = table.store.get(sidecar)
    for damaged in (None, b"", whole[:-3], whole[:9], b"\0" * len(whole), whole[:51] + b"\xff" + whole[52:]):
        if damaged is None:
            table.store.delete_many([sidecar])
        else:
            table.store.put(sidecar, damaged)
        with pytest.raises(TableCorrupt) as caught:
            found(table, (col("x") == 1) | (col("x") == 3))
        assert sidecar in str(caught.value)
        assert table.to_arrow().num_rows == 3
        told = [f for f in table.verify("all", data=True) if f.severity == "error"]
        assert told and all(f.file == sidecar for f in told)
    table.alter(ll.set_option("file-index.read.enabled", "false"))
    assert found(table, col("x") == 1) == [1]


def test_a_damaged_index_in_the_manifest_is_reported() -> None:
    table = numbers({}, [1, 2, 3])
    (entry,) = table.entries()
    broken = entry.file._replace(embedded_file_index=(entry.file.embedded_file_index or b"")[:-1])
    pruner = index_pruning.IndexPruner(col("x") == 1, table.schema, lambda _: table.schema)
    with pytest.raises(TableCorrupt, match=entry.file.file_name):
        pruner.may_match(broken)
    assert pruner.rows(table.store, f"bucket-0/{entry.file.file_name}", entry.file) == BitMap([0])


@pytest.mark.parametrize("name", ["../x.index", "a/b.index"])
def test_hostile_names(name: str) -> None:
    """H16: an index is never looked for outside of its file's folder; two of them are one too many."""
    table = numbers(BESIDE, [1])
    (entry,) = table.entries()
    pruner = index_pruning.IndexPruner(col("x") == 1, table.schema, lambda _: table.schema)
    for names, word in (((name,), "leave the table"), (("a.index", "b.index"), "2 file indexes")):
        with pytest.raises(TableCorrupt, match=word):
            pruner.rows(table.store, "bucket-0/" + entry.file.file_name, entry.file._replace(extra_files=names))
