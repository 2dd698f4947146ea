"""What a writer holds in memory, what it takes back, and how the rows of a bucket are numbered and named."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.sorted_runs.sequence_numbers import LARGEST_NUMBER
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.formats.reading import open_data_file
from lakelatch.table.projection.plan import plan_projection
from lakelatch.table.writing import key_writer, writer
from lakelatch.table.writing.buckets.postponed import PostponedForm
from lakelatch.table.writing.files import sink
from lakelatch.table.writing.key_writer import KeyBuffer, KeyForm
from lakelatch.table.writing.writer import TableWriter, check_writable

_names = itertools.count()
COLUMNS = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("t", pa.string())])


def schema_of(*keys: str, partitioned: bool = True, **options: str) -> TableSchema:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    about = {"partition_keys": ["p"] if partitioned else [], "primary_keys": keys}
    return new_schema(from_arrow_schema(COLUMNS), options=texts, **about)


def rows(part: int, count: int, first: int = 0) -> pa.RecordBatch:
    keys = range(first, first + count)
    return pa.record_batch({"p": [part] * count, "k": keys, "t": [f"text of the row {n}" for n in keys]}, COLUMNS)


def writer_of(schema: TableSchema, **about: Any) -> TableWriter:
    store = MemoryStore(f"memory://table-writer/{next(_names)}")
    return TableWriter(store, schema, "job", **about)


def held(made: TableWriter) -> list[int]:
    """The rows that the writer of each partition holds, in the order of the partitions."""
    return [sum(batch.num_rows for batch in each._held) for each in made._writers.values()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("at_once", [1, 4])
def test_of_the_rows_in_memory_those_of_the_fullest_places_are_written_first(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until as few are left as may be held, so that small files are as rare as can be."""
    monkeypatch.setattr(writer, "WRITE_THREADS", at_once)
    made = writer_of(schema_of())
    sizes = {1: 20, 2: 900, 3: 300, 4: 30, 5: 400, 6: 10}
    monkeypatch.setattr(made, "_most_held", sum(rows(part, n).nbytes for part, n in sizes.items()) - 1)
    for part, count in sizes.items():
        made.write_batch(rows(part, count))
    assert made.row_count == sum(sizes.values())
    assert len(made.partitions) == 6
    written = {1: [900], 4: [900, 400, 300, 30]}[at_once]
    assert held(made) == [0 if count in written else count for count in sizes.values()]
    monkeypatch.setattr(made, "_most_held", rows(1, 50).nbytes)
    made.write_batch(rows(1, 1))
    assert len(made.partitions) == 6 and sum(held(made)) <= 51
    files = [file for message in made.finish() for file in message.new_files]
    assert sum(file.row_count for file in files) == sum(sizes.values()) + 1 and len(files) == 6


def test_rows_wait_until_there_are_enough_to_be_sent_to_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of what may be held; a table of one place needs no sending."""
    made, one = writer_of(schema_of()), rows(1, 10)
    monkeypatch.setattr(made, "_most_held", 4 * 3 * one.nbytes)
    waiting = []
    for _ in range(8):
        made.write_batch(one)
        waiting.append(sum(batch.num_rows for batch in made._waiting))
    assert waiting == [10, 20, 30, 0, 10, 20, 30, 0]
    for schema, waits in (
        (schema_of(partitioned=False), False),
        (schema_of(partitioned=False, bucket="2", bucket_key="k"), True),
    ):
        made = writer_of(schema)
        made.write_batch(one)
        assert bool(made._waiting) == waits
        made.write_batch(one.slice(10))
        assert made.row_count == 10
        assert sum(m.new_files[0].row_count for m in made.finish()) == 10


def test_what_a_writer_cannot_take_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that are complete; rows that wait, and files that are being written, never were in the store."""
    monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    made = writer_of(schema_of(target_file_size="1 b"))
    monkeypatch.setattr(made, "_most_held", 1)
    for part in (1, 2):
        for turn in range(3):
            made.write_batch(rows(part, 5, 5 * turn))
    made._waiting.append(rows(3, 5))
    keys = sorted(made.written_keys)
    store = made._store
    assert len(keys) == 6 == len(list(store.list("")))
    delete, kept = store.delete_many, keys[2]

    def refuse(asked: Any) -> None:
        delete([key for key in asked if key != kept])
        raise DeletionRefused({kept: "a hold"})

    monkeypatch.setattr(store, "delete_many", refuse)
    assert made.abort() == [kept]
    assert [info.key for info in store.list("")] == [kept]
    monkeypatch.setattr(store, "delete_many", delete)
    assert made.abort() == [] and list(store.list("")) == []
    assert len(made.partitions) == 2, "rows that waited are forgotten"


def test_the_rows_of_a_place_have_the_number_of_its_buckets() -> None:
    made = writer_of(schema_of(bucket="3", bucket_key="k"), travelling=True)
    made.write(rows(1, 100))
    messages = made.finish()
    assert {(m.bucket, m.total_buckets, len(m.new_files), len(m.uploads)) for m in messages} == {
        (bucket, 3, 1, 1) for bucket in range(3)
    }
    assert all(m.hashes is None and m.changelog_files == () for m in messages)
    assert len({upload.key for m in messages for upload in m.uploads}) == 3


@pytest.mark.parametrize("about", [{"row_kind": "t"}, {"deletes": True}], ids=lambda about: next(iter(about)))
def test_rows_without_keys_replace_and_delete_nothing(about: dict[str, Any]) -> None:
    made = writer_of(schema_of())
    with pytest.raises(InvalidArgument, match="has no rows that could be replaced or deleted by key"):
        made.write(rows(1, 3), **about)
    assert made.finish() == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bucket": "0"}, "'bucket' = 0: for a table without a primary key it must be -1 or above 0"),
        ({"bucket": "-2"}, "'bucket' = -2: for a table without a primary key it must be -1 or above 0"),
        ({"bucket": "2"}, "'bucket' = 2 and without 'bucket-key'"),
        ({"blob_view_field": "t"}, "'blob-view-field'"),
        ({"vector__file__format": "lance"}, "'vector.file.format'"),
        ({"bucket": "1"}, None),
        ({"bucket": "-1"}, None),
        ({"bucket": "2", "bucket_key": "k"}, None),
        ({"blob_view_field": ""}, None),
    ],
)
def test_which_tables_without_a_key_can_be_written(options: dict[str, str], told: str | None) -> None:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    schema = replace(schema_of(), option_texts=texts)  # as another engine may have made it
    if told is None:
        check_writable(schema)
        check_writable(schema, keyed=True)
        return
    for keyed in (False, True):
        with pytest.raises(Unsupported, match=re.escape(told)):
            check_writable(schema, keyed=keyed)


def buffer_of(schema: TableSchema, first: int, *, changelog: bool = True) -> KeyBuffer:
    store = MemoryStore(f"memory://table-writer/{next(_names)}")
    return KeyBuffer(store, KeyForm.of(schema, changelog), "bucket-0/", "x", False, lambda: first)


def keyed_rows(*keys: int) -> pa.RecordBatch:
    batch = rows(1, len(keys)).set_column(1, COLUMNS.field("k"), pa.array(keys, pa.int64()))
    kinds = pa.array(np.zeros(len(keys), np.int8))
    return pa.RecordBatch.from_arrays([kinds, *batch.columns], ["_VALUE_KIND", *COLUMNS.names])


def test_the_last_numbers_can_be_given_and_none_above_them() -> None:
    schema = schema_of("p", "k", bucket="1")
    last = buffer_of(schema, LARGEST_NUMBER - 3)
    last.write(keyed_rows(5, 4, 6))
    last.finish()
    (file,) = last.files
    assert (file.min_sequence_number, file.max_sequence_number) == (LARGEST_NUMBER - 3, LARGEST_NUMBER - 1)
    last.write(keyed_rows(1))
    with pytest.raises(InvalidArgument, match=f"there are no sequence numbers for 1 rows from {LARGEST_NUMBER} on"):
        last.flush()
    over = buffer_of(schema, LARGEST_NUMBER - 2)
    over.write(keyed_rows(5, 4, 6))
    with pytest.raises(InvalidArgument, match="no sequence numbers for 3 rows"):
        over.finish()


@pytest.mark.parametrize("steps", [1, 2, 3, 1 << 16])
def test_a_changelog_has_all_rows_in_order_in_however_many_steps(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By key, and those of a key as they came; the next run goes on with the numbers."""
    monkeypatch.setattr(key_writer, "_STEP_ROWS", steps)
    schema = schema_of("p", "k", bucket="1", changelog_producer="input")
    buffer = buffer_of(schema, 100)
    for keys in ((5, 4, 5, 9, 4, 1), (1, 1)):
        buffer.write(keyed_rows(*keys))
        assert buffer.held_bytes == keyed_rows(*keys).nbytes
        buffer.flush()
        assert buffer.held_bytes == 0
    buffer.finish()
    assert [(f.row_count, f.min_sequence_number, f.max_sequence_number) for f in buffer.files] == [
        (4, 102, 105),
        (1, 107, 107),
    ]
    found = []
    for file in buffer.changelog_files:
        fields = KeyForm.of(schema).files.files.fields
        plan = plan_projection(fields, fields, "")
        opened = open_data_file(buffer._data._store, f"bucket-0/{file.file_name}", file, plan, schema.options)
        found.append([key for _, batch in opened.batches() for key in batch.column("k").to_pylist()])
        assert file.file_name.startswith("changelog-x")
    assert found == [[1, 4, 4, 5, 5, 9], [1, 1]]
    assert sorted(buffer.written_keys) == sorted(
        f"bucket-0/{file.file_name}" for file in (*buffer.files, *buffer.changelog_files)
    )
    assert buffer_of(schema, 0, changelog=False).changelog_files == []
    assert KeyForm.of(schema_of("p", "k", bucket="1", changelog_producer="lookup")).changelog is None


def test_the_files_of_a_job_that_sets_rows_aside_have_a_number_that_java_can_read() -> None:
    """And that no other job of the user has."""
    schema, numbers = schema_of("p", "k", bucket="-2"), set[int]()
    for job in range(500):
        prefix = PostponedForm.of(schema, "etl", f"job-{job}").prefix
        assert prefix == PostponedForm.of(schema, "etl", f"job-{job}").prefix
        found = re.fullmatch(r"data--u-etl-s-(\d+)-w-", prefix)
        assert found is not None
        numbers.add(int(found[1]))
    assert len(numbers) == 500 and max(numbers) < 1 << 31 and max(numbers) > 1 << 30
