"""Tables with a primary key and fixed buckets are written: upserts, deletes, kinds of rows, overwrites, changelogs (H14)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.metadata.manifest import decode_manifest
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import POSTPONED
from lakelatch.core.metadata.sorted_runs.sequence_numbers import LARGEST_NUMBER, first_number
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.core.rows.binary.binary_row import decode_row
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.core.statistics.collect import ColumnStats, StatsMode, decode_stats
from lakelatch.table.compaction.plan import target_bytes_of
from lakelatch.table.writing.beginning import Beginning
from lakelatch.table.writing.files import sink
from lakelatch.table.writing.files.data_writer import FileSettings
from lakelatch.table.writing.files.key_files import KeyFileSettings, KeyFileWriter, arrow_rows
from lakelatch.table.writing.row_kinds import kinds_of

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string()), ("n", pa.int64())])
BIGINT = AtomicType("BIGINT")
_names = itertools.count()


def made(
    options: Mapping[str, str] | None = None, schema: Any = SCHEMA, keys: tuple[str, ...] = ("p", "k")
) -> ll.Table:
    partition_by = ["p"] if "p" in schema.names else []
    about = {"bucket": "2", **(options or {})}
    return ll.create_table(
        f"memory://key-tables/{next(_names)}", schema, partition_by=partition_by, primary_key=keys, options=about
    )


def rows(*values: tuple[int, int, str | None, int | None], **more: list[Any]) -> pa.Table:
    columns = dict(zip(SCHEMA.names, zip(*values, strict=True), strict=True))
    return pa.table({**{name: list(column) for name, column in columns.items()}, **more}).cast(
        pa.schema([*SCHEMA, *(pa.field(name, pa.string()) for name in more)])
    )


def held(table: ll.Table) -> dict[tuple[int, int], tuple[Any, Any]]:
    found = table.to_arrow().to_pylist()
    assert len({(r["p"], r["k"]) for r in found}) == len(found)
    return {(r["p"], r["k"]): (r["v"], r["n"]) for r in found}


def changelog(table: ll.Table) -> list[tuple[int, int, str | None]]:
    """(kind, key, v) of the rows in the changelog files of the last snapshot, in their order."""
    snapshot = table.snapshot()
    assert snapshot is not None
    if snapshot.changelog_manifest_list is None:
        return []
    out = []
    for manifest in table.timeline.manifest_list(snapshot.changelog_manifest_list):
        name = manifest.file_name
        for entry in decode_manifest(table.store.get(f"manifest/{name}"), name):
            assert entry.file.file_name.startswith("changelog-")
            key = f"p=1/bucket-{entry.bucket}/{entry.file.file_name}"
            found = pq.read_table(pa.BufferReader(table.store.get(key)), partitioning=None).to_pylist()
            out += [(row["_VALUE_KIND"], row["k"], row["v"]) for row in found]
    return out


def test_an_upsert_replaces_the_rows_with_its_keys_and_a_delete_removes_them() -> None:
    table = made()
    table.append(rows((1, 1, "a", 1), (1, 2, "b", 2), (2, 1, "c", 3)))
    table.upsert(rows((1, 2, "B", None), (2, 9, "new", 0)))
    assert held(table) == {(1, 1): ("a", 1), (1, 2): ("B", None), (2, 1): ("c", 3), (2, 9): ("new", 0)}
    table.delete(keys=pa.table({"k": [1, 77], "p": [2, 2]}))
    assert held(table) == {(1, 1): ("a", 1), (1, 2): ("B", None), (2, 9): ("new", 0)}
    assert table.at(snapshot=1).to_arrow().num_rows == 3
    assert table.verify(data=True) == []


def test_a_commit_writes_one_row_per_key_and_the_last_one_counts() -> None:
    table = made()
    with table.transaction() as tx:
        tx.upsert(rows((1, 5, "first", 1), (1, 3, "x", 1), (1, 5, "second", 2)))
        tx.delete(pa.table({"p": [1], "k": [3]}))
        tx.upsert(rows((1, 4, "y", 1)))
        tx.append(rows((1, 4, "z", 1)))
    assert held(table) == {(1, 5): ("second", 2), (1, 4): ("z", 1)}
    files = [e.file for e in table.entries()]
    assert sum(f.row_count for f in files) == 3
    assert sum(f.delete_row_count or 0 for f in files) == 1
    assert {f.level for f in files} == {0}
    span = max(f.max_sequence_number for f in files) - min(f.min_sequence_number for f in files)
    assert span < 6  # rows are numbered in the order in which they came, by bucket


def test_all_kinds_of_rows_are_taken_from_a_column() -> None:
    """As texts of the format or of Debezium, in a column that the table need not have."""
    table = made()
    kinds = ["+I", "+u", "c", "r", "U"]
    table.upsert(rows(*((1, i, "v", i) for i in range(5)), op=kinds), row_kind="op")
    assert set(held(table)) == {(1, i) for i in range(5)}
    table.upsert(rows(*((1, i, "v", i) for i in range(3)), op=["-D", "-u", "d"]), row_kind="op")
    assert set(held(table)) == {(1, 3), (1, 4)}
    as_dictionary = rows((1, 3, "v", 3), op=["-D"])
    table.upsert(as_dictionary.set_column(4, "op", as_dictionary["op"].dictionary_encode()), row_kind="op")
    assert set(held(table)) == {(1, 4)}


def test_each_kind_has_its_number() -> None:
    kinds = pa.array(["+I", "-U", "+U", "-D", "c", "r", "u", "d", "+i", "-d", "C"])
    for texts in (kinds, kinds.cast(pa.large_string()), kinds.cast(pa.string_view()), kinds.dictionary_encode()):
        assert kinds_of(texts, "op").to_pylist() == [0, 1, 2, 3, 0, 0, 2, 3, 0, 3, 0]


@pytest.mark.parametrize(("kind", "named"), [("+X", "'+X'"), (None, "null"), ("", "''")])
def test_what_is_no_row_kind_is_refused_by_its_value(kind: str | None, named: str) -> None:
    table = made()
    with pytest.raises(InvalidArgument, match=f"column 'op': {named.replace('+', '[+]')} is no row kind"):
        table.upsert(rows((1, 1, "a", 1), (1, 2, "b", 2), op=["+I", kind]), row_kind="op")
    with pytest.raises(InvalidArgument, match="no column 'kind'"):
        table.upsert(rows((1, 1, "a", 1)), row_kind="kind")
    with pytest.raises(InvalidArgument, match="int64, which cannot name row kinds"):
        table.upsert(rows((1, 1, "a", 1)), row_kind="n")
    assert table.snapshot() is None


def test_the_table_may_name_the_column_of_row_kinds() -> None:
    """Option `rowkind.field`: the column is stored too, and deletes by key fill it."""
    schema = pa.schema([("k", pa.int64()), ("op", pa.string())])
    table = made({"rowkind.field": "op"}, schema, ("k",))
    table.append(pa.table({"k": [1, 2, 3], "op": ["+I", "+U", "+I"]}))
    table.append(pa.table({"k": [2], "op": ["-D"]}))
    table.delete(keys=pa.table({"k": [3]}))
    assert table.to_arrow().to_pylist() == [{"k": 1, "op": "+I"}]
    with pytest.raises(InvalidArgument, match="takes the kinds of its rows from column 'op'"):
        table.upsert(pa.table({"k": [1], "op": ["+I"]}), row_kind="k")


def test_rows_that_the_options_ignore_are_not_written() -> None:
    table = made({"ignore-delete": "true"})
    table.upsert(rows((1, 1, "a", 1), (1, 2, "b", 1), (1, 3, "c", 1), op=["+I", "+I", "-U"]), row_kind="op")
    table.upsert(rows((1, 1, None, None), (1, 2, "B", 2), op=["-D", "+U"]), row_kind="op")
    assert held(table) == {(1, 1): ("a", 1), (1, 2): ("B", 2)}
    assert all(e.file.delete_row_count == 0 for e in table.entries())
    with pytest.raises(InvalidArgument, match="ignore-delete"):
        table.delete(keys=pa.table({"p": [1], "k": [1]}))
    table = made({"ignore-update-before": "true"})
    table.upsert(rows((1, 1, "a", 1), (1, 1, "a", 1), (1, 2, "b", 1), op=["+I", "-U", "-D"]), row_kind="op")
    assert held(table) == {(1, 1): ("a", 1)}


def test_a_null_in_the_key_is_refused() -> None:
    table = made()
    data = pa.table({"p": [1], "k": pa.array([None], pa.int64()), "v": ["a"], "n": [1]})
    for write in (table.append, table.upsert, table.delete):
        with pytest.raises(InvalidArgument, match="column 'k' has 1 nulls, but it is NOT NULL"):
            write(data)
    with pytest.raises(InvalidArgument, match="no column 'k', which is part of the primary key"):
        table.delete(keys=pa.table({"p": [1]}))


def test_a_delete_fills_columns_that_must_not_be_null() -> None:
    kinds = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    schema = pa.schema(
        [pa.field("k", pa.int64()), pa.field("t", pa.string(), nullable=False), pa.field("s", kinds, nullable=False)]
    )
    table = made({}, schema, ("k",))
    table.append(pa.Table.from_pylist([{"k": 1, "t": "a", "s": {"x": 1}}, {"k": 2, "t": "b", "s": {"x": 2}}], schema))
    table.delete(keys=pa.table({"k": [1]}))
    assert table.to_arrow().to_pylist() == [{"k": 2, "t": "b", "s": {"x": 2}}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"merge-engine": "first-row"}, "first-row takes no rows that delete"),
        ({"merge-engine": "partial-update"}, "partial-update takes no rows that delete"),
        ({"merge-engine": "aggregation"}, "aggregation.remove-record-on-delete"),
        ({"merge-engine": "partial-update", "fields.n.sequence-group": "v"}, "cannot be deleted by key"),
        ({"sequence.field": "n"}, "no column 'n', which is part of what orders the rows of a key"),
    ],
)
def test_deletes_that_would_have_no_meaning_are_refused(options: dict[str, str], said: str) -> None:
    """Once written, such rows would make the table unreadable, or would not delete anything."""
    table = made(options)
    with pytest.raises(InvalidArgument) as refused:
        table.delete(keys=pa.table({"p": [1], "k": [1]}))
    assert said in str(refused.value)
    assert table.snapshot() is None


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "fields.v.ignore-retract": "true"},
    ],
)
def test_rows_that_delete_are_refused_where_no_option_says_what_they_mean(options: dict[str, str]) -> None:
    table = made(options)
    with pytest.raises(InvalidArgument, match="takes no rows that delete"):
        table.upsert(rows((1, 1, "a", 1), kind=["-D"]), row_kind="kind")
    assert table.snapshot() is None
    table.upsert(rows((1, 1, "a", 1), kind=["+I"]), row_kind="kind")
    assert held(table) == {(1, 1): ("a", 1)}


def test_an_aggregation_that_removes_records_has_deletes_by_key() -> None:
    table = made({"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"})
    table.upsert(rows((1, 1, "a", 1), (1, 2, "b", 2)))
    table.delete(keys=pa.table({"p": [1], "k": [1]}))
    assert held(table) == {(1, 2): ("b", 2)}


def test_a_delete_is_ordered_by_the_sequence_field() -> None:
    table = made({"sequence.field": "n"})
    table.append(rows((1, 1, "a", 5), (1, 2, "b", 5)))
    table.delete(keys=pa.table({"p": [1, 1], "k": [1, 2], "n": [4, 6]}))
    assert held(table) == {(1, 1): ("a", 5)}
    table.upsert(rows((1, 1, "newer", 9), (1, 1, "older", 7)))  # in one commit too
    assert held(table) == {(1, 1): ("newer", 9)}
    falling = made({"sequence.field": "n", "sequence.field.sort-order": "descending"})
    falling.upsert(rows((1, 1, "a", 7), (1, 1, "b", 9)))
    assert held(falling) == {(1, 1): ("a", 7)}  # in one commit too
    falling.upsert(rows((1, 1, "c", 8)))
    assert held(falling) == {(1, 1): ("a", 7)}
    falling.upsert(rows((1, 1, "d", 6)))
    assert held(falling) == {(1, 1): ("d", 6)}


def test_the_buffer_merges_as_the_engine_does() -> None:
    """Several rows of one key in one commit, and then in several."""
    for options, merged in (
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, ("c", 7)),
        ({"merge-engine": "partial-update"}, ("c", 4)),
        ({"merge-engine": "deduplicate"}, ("c", None)),
    ):
        data = rows((1, 1, "a", 3), (1, 1, None, 4), (1, 1, "c", None))
        table, again = made(options), made(options)
        table.append(data)
        assert [e.file.row_count for e in table.entries()] == [1]
        assert held(table) == {(1, 1): merged}
        for i in range(3):
            again.append(data.slice(i, 1))
        assert held(again) == {(1, 1): merged}


def test_memory_is_bounded_by_the_write_buffer() -> None:
    """Full buffers become sorted runs of their own, and the later run is the newer one."""
    table = made({"write-buffer-size": "200 kb", "bucket": "1", "write-only": "true"})
    batches = [rows(*((1, k, f"round {r}", r) for k in range(1000))) for r in range(20)]
    for data in (batches, pa.concat_tables(batches).combine_chunks()):  # a batch may be larger than the buffer itself
        table.overwrite(data, partition={})
        files = [e.file for e in table.entries()]
        assert 2 < len(files) < 21
        spans = sorted((f.min_sequence_number, f.max_sequence_number) for f in files)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))
        assert set(held(table).values()) == {("round 19", 19)}


def test_files_of_several_row_groups_are_described_as_a_whole(tmp_path: Path) -> None:
    """A run of 40 000 rows in files of a few row groups each, which follow one another in the order of their keys."""
    schema = new_schema(
        from_arrow_schema(pa.schema([("k", pa.int64()), ("v", pa.string())])),
        primary_keys=["k"],
        options={"bucket": "1", "target-file-size": "50 kb", "file.format": "avro"},
    )
    writer = KeyFileWriter(LocalStore(str(tmp_path)), schema, "bucket-0/", "data-x", level=3, source=1)
    for start in range(0, 40_000, 8_000):
        keys = np.arange(start, start + 8_000)
        kinds = np.where(keys % 100 == 0, 3, 0).astype(np.int8)
        values = pa.array(["the same text"] * 8_000)
        columns = [pa.array(50_000 - keys), pa.array(kinds), pa.array(keys), values]
        writer.write(pa.RecordBatch.from_arrays(columns, schema=arrow_rows(schema)))
    writer.finish()
    spans = [(decode_row(f.min_key, [BIGINT], "")[0], decode_row(f.max_key, [BIGINT], "")[0]) for f in writer.files]
    assert len(spans) > 1 and max(f.row_count for f in writer.files) > 4_000
    assert [first for first, _ in spans] == [0, *(last + 1 for _, last in spans[:-1])]
    for file, (first, last) in zip(writer.files, spans, strict=True):
        assert file.row_count == last - first + 1
        assert (file.min_sequence_number, file.max_sequence_number) == (50_000 - last, 50_000 - first)
        assert file.delete_row_count == sum(k % 100 == 0 for k in range(first, last + 1))
        assert (file.level, file.file_source) == (3, 1)
        assert decode_stats(file.key_stats, [Field(0, "k", BIGINT)])[0] == ColumnStats(first, last, 0)


def test_a_job_is_above_all_rows_of_its_base_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """H14: a job that begins after another one has ended counts as the newer one, also on a machine whose clock is behind."""
    table = made({"bucket": "1"})
    table.append(rows((1, 1, "ahead", 1)))
    (first,) = [e.file for e in table.entries()]
    monkeypatch.setattr(Beginning, "now", lambda: Beginning(1, 0.5))  # 1970
    for job, name in ((table, "behind"), (ll.open_table(table.url), "another"), (table, "the last")):
        job.append(rows((1, 1, name, 2), (1, 2, "x", 2)))
    assert held(table) == {(1, 1): ("the last", 2), (1, 2): ("x", 2)}
    spans = sorted((e.file.min_sequence_number, e.file.max_sequence_number) for e in table.entries())
    last = first.max_sequence_number
    assert spans == [(last, last), (last + 1, last + 2), (last + 3, last + 4), (last + 5, last + 6)]


def test_jobs_that_begin_at_the_same_time_share_no_numbers() -> None:
    """H14: by the clock alone, without a look at the table."""
    began = [Beginning.now() for _ in range(100)]
    assert sorted(began, key=lambda b: b.first_number(-1)) == began
    assert len({b.began_ms for b in began}) == 100
    assert first_number(-1, 7, 0.5) - first_number(-1, 7, 0.25) == 1 << 20
    assert first_number(first_number(-1, 8, 0.0), 7, 0.5) == first_number(-1, 8, 0.0) + 1
    assert first_number(-1, 1 << 60, 0.0) < LARGEST_NUMBER - (1 << 40)
    with pytest.raises(InvalidArgument, match="sequence number"):
        first_number(LARGEST_NUMBER, 0, 0.0)


@pytest.mark.parametrize("more", [{}, {"write-buffer-size": "1 kb"}], ids=["one run", "several runs"])
@pytest.mark.parametrize("travelling_bytes", [4 << 20, 0], ids=["travelling", "stored"])
def test_jobs_that_share_numbers_are_numbered_again(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, str], travelling_bytes: int
) -> None:
    """H14: jobs of two machines that began in the same part of a millisecond. The one that lands last wins."""
    table = made({"bucket": "2", "changelog-producer": "input", "write-only": "true", **more})
    began = Beginning(Beginning.now().began_ms, 0.5)
    later = [Beginning(began.began_ms + 1 + i, 0.5) for i in range(9)]
    monkeypatch.setattr(sink, "TRAVELLING_BYTES", travelling_bytes)
    other = ll.open_table(table.url)
    with table.transaction() as tx, other.transaction() as beaten:
        for job, name in ((tx, "first"), (beaten, "last")):
            monkeypatch.setattr(Beginning, "now", lambda: began)
            for part in range(3):
                job.upsert(rows(*((p, k, f"{name} {part}", part) for p in (1, 2) for k in range(50))))
        monkeypatch.setattr(Beginning, "now", lambda: later.pop(0))
    assert (beaten.receipt.snapshot_id, tx.receipt.snapshot_id) == (1, 2)
    assert set(held(table).values()) == {("first 2", 2)}
    assert len(later) == 8
    spans: dict[Any, list[tuple[int, int]]] = {}
    for e in table.entries():
        spans.setdefault((e.partition, e.bucket), []).append((e.file.min_sequence_number, e.file.max_sequence_number))
    assert all(before[1] < after[0] for found in spans.values() for before, after in itertools.pairwise(sorted(found)))
    assert table.verify(data=True) == []
    table.committer.settle()
    other.committer.settle()
    stored = {info.key.rpartition("/")[2] for info in table.store.list("") if "/data-" in info.key}
    assert stored == {e.file.file_name for e in table.entries()}


def test_the_changelog_of_the_input_has_every_row_before_it_is_merged() -> None:
    """Sorted by key and age, with the kinds that were given; an overwrite has none."""
    options = {"changelog-producer": "input", "bucket": "1", "changelog-file.stats-mode": "none"}
    table = made(options)
    table.upsert(
        rows((1, 2, "a", 1), (1, 1, "b", 1), (1, 2, "c", 1), (1, 2, "d", 1), op=["+I", "+I", "-U", "+U"]), row_kind="op"
    )
    assert changelog(table) == [(0, 1, "b"), (0, 2, "a"), (1, 2, "c"), (2, 2, "d")]
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.changelog_record_count == 4
    assert held(table) == {(1, 1): ("b", 1), (1, 2): ("d", 1)}
    table.overwrite(rows((1, 5, "x", 1)), partition={"p": 1})
    assert changelog(table) == []
    assert sum("changelog-" in info.key for info in table.store.list("p=1/")) == 1


def test_an_overwrite_writes_the_highest_level() -> None:
    table = made()
    table.append(rows((1, 1, "a", 1), (2, 1, "b", 1)))
    table.overwrite(rows((1, 2, "c", 1), (1, 2, "d", 1), (1, 3, "e", 1)), partition={"p": 1})
    assert held(table) == {(2, 1): ("b", 1), (1, 2): ("d", 1), (1, 3): ("e", 1)}
    levels = {(e.partition, e.file.level) for e in table.entries()}
    assert sorted(level for _, level in levels) == [0, 5]
    table.overwrite(rows((2, 7, "z", 1)), dynamic=True)
    assert held(table) == {(2, 7): ("z", 1), (1, 2): ("d", 1), (1, 3): ("e", 1)}
    table.append(rows((1, 2, "over", 1)))
    assert held(table)[1, 2] == ("over", 1)
    assert table.verify(data=True) == []
    overlapping = made({"write-buffer-size": "1 b", "bucket": "1"})
    overlapping.overwrite([rows((1, 2, "c", 1), (1, 9, "c", 1)), rows((1, 2, "d", 1))], partition={})
    assert [e.file.level for e in overlapping.entries()] == [0, 0]
    assert held(overlapping) == {(1, 2): ("d", 1), (1, 9): ("c", 1)}
    plain = made({"overwrite-upgrade": "false", "num-levels": "3"})
    plain.overwrite(rows((1, 2, "c", 1)), partition={})
    assert [e.file.level for e in plain.entries()] == [0]


def test_an_overwrite_leaves_postponed_rows_where_a_compaction_finds_them() -> None:
    """They are in no order yet, and have no level but the first."""
    table = made({"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"})
    table.overwrite(rows((1, 2, "c", 1)), partition={"p": 1})
    assert [(e.bucket, e.file.level) for e in table.entries()] == [(POSTPONED, 0)]
    table.compact()
    assert held(ll.open_table(table.url)) == {(1, 2): ("c", 1)}


def test_levels_and_changelogs_have_formats_and_statistics_of_their_own() -> None:
    """An option by level comes before that of all files; a changelog's own comes before both."""
    by_level = {"file.format.per.level": "0:avro,5:orc", "metadata.stats-mode.per.level": "5:none"}
    of_changelogs = {"changelog-file.format": "parquet", "changelog-file.stats-mode": "counts"}
    schema, of = made({**by_level, **of_changelogs}).schema, KeyFileSettings.of
    chosen = [of(schema).files, of(schema, level=1).files, of(schema, level=5).files, of(schema, changelog=True).files]
    assert [files.suffix for files in chosen] == [".avro", ".parquet", ".orc", ".parquet"]
    assert [files.modes["v"].kind for files in chosen] == ["truncate", "truncate", "none", "counts"]


def test_how_large_files_become() -> None:
    """128 MiB with a primary key and 256 without, as in Apache Paimon, if no option says otherwise."""
    plain = ll.create_table(f"memory://key-tables/{next(_names)}", SCHEMA)
    for table, mib in ((made(), 128), (plain, 256)):
        assert FileSettings.of(table.schema).target_bytes == target_bytes_of(table.schema) == mib << 20
    assert FileSettings.of(made({"target-file-size": "1 mb"}).schema).target_bytes == 1 << 20
    assert [target_bytes_of(plain.schema, size) for size in ("3 kb", 1)] == [3 << 10, 1]
    with pytest.raises(InvalidArgument, match="target_size is 0 bytes"):
        target_bytes_of(plain.schema, 0)


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_statistics_of_key_columns_that_are_stored_once(file_format: str) -> None:
    """In Parquet they are as long as those of keys; in Avro they are those of the table's first columns."""
    options = {"data-file.thin-mode": "true", "metadata.stats-mode": "counts", "file.format": file_format}
    modes = KeyFileSettings.of(made(options).schema).files.modes
    expected = StatsMode.parse("counts" if file_format == "avro" else "truncate(128)", "")
    assert {name: modes[name] for name in ("k", "v")} == {"k": expected, "v": StatsMode.parse("counts", "")}


def test_an_upsert_lands_once() -> None:
    table = made()
    for _ in range(2):
        receipt = table.upsert(rows((1, 1, "a", 1)), commit_user="etl", identifier=1)
    assert receipt.replayed and receipt.snapshot_id == 1


def test_an_upsert_can_bring_new_columns() -> None:
    table = made()
    data = rows((1, 1, "a", 1), extra=["e"], op=["+I"])
    table.upsert(data, row_kind="op", evolve=True)
    assert table.to_arrow().column_names == ["p", "k", "v", "n", "extra"]


def test_csv_files_with_keys_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="CSV files of a table with a primary key"):
        made({"file.format": "csv"}).append(rows((1, 1, "a", 1)))


def test_a_table_without_a_key_has_no_upserts() -> None:
    table = ll.create_table(f"memory://key-tables/{next(_names)}", SCHEMA)
    for change in (lambda: table.upsert(rows((1, 1, "a", 1))), lambda: table.delete(keys=rows((1, 1, "a", 1)))):
        with pytest.raises(InvalidArgument, match="needs a table with a primary key"):
            change()


def test_a_delete_needs_keys_or_a_condition() -> None:
    for given in ({}, {"keys": rows((1, 1, "a", 1)), "where": "k = 1"}):
        with pytest.raises(InvalidArgument, match="keys= or where="):
            made().delete(**given)
