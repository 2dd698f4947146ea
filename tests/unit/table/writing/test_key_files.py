"""Files of tables with a primary key: which statistics their columns have, and what is said of the rows in them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.data_file import SOURCE_APPEND, SOURCE_COMPACT
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.core.rows.binary.binary_row import decode_row
from lakelatch.core.statistics.collect import ColumnStats, decode_stats
from lakelatch.table.writing.files import data_writer
from lakelatch.table.writing.files.key_files import KeyFileSettings, KeyFileWriter, arrow_rows

_names = itertools.count()
COLUMNS = pa.schema([("p", pa.int32()), ("v", pa.string()), ("k", pa.int64()), ("n", pa.int64())])
KINDS = ("+I", "-U", "+U", "-D")


def schema_of(**options: str) -> TableSchema:
    texts = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    fields = from_arrow_schema(COLUMNS)
    return new_schema(fields, partition_keys=["p"], primary_keys=["p", "k"], options={"bucket": "1"} | texts)


STORED = {
    ("parquet", False): ["p", "v", "k", "n"],
    ("parquet", True): ["p", "v", "n"],
    ("orc", False): ["p", "v", "k", "n"],
    ("avro", False): ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "p", "v", "k", "n"],
    ("avro", True): ["_SEQUENCE_NUMBER", "_VALUE_KIND", "p", "v", "k", "n"],
}
"""The columns that Apache Paimon counts, by format and whether keys are stored once. Others are keys, which have long bounds."""


@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize(("file_format", "thin"), STORED)
def test_only_the_first_columns_have_statistics_where_an_option_says_how_many(
    file_format: str, thin: bool, first: int
) -> None:
    options = {"metadata__stats_mode": "counts", "metadata__stats_keep_first_n_columns": str(first)}
    schema = schema_of(file__format=file_format, data_file__thin_mode=str(thin).lower(), **options)
    settings, counted = KeyFileSettings.of(schema), STORED[file_format, thin][:first]
    expected = {name: "counts" if name in counted else "none" for name in COLUMNS.names}
    if (file_format, thin) == ("parquet", True):
        expected["k"] = "truncate"
    assert {name: mode.kind for name, mode in settings.files.modes.items()} == expected
    (stored,) = settings.stored_keys
    assert stored.name == ("k" if thin else "_KEY_k") and settings.is_thin == thin
    of_key = "truncate" if file_format != "avro" else "counts" if stored.name in counted else "none"
    mode = settings.key_modes[stored.name]
    assert (mode.kind, mode.length) == (of_key, 128 if of_key == "truncate" else 0)


@pytest.mark.parametrize("thin", ["true", "false"])
def test_a_column_may_have_a_mode_of_its_own(thin: str) -> None:
    own = {"fields__k__stats_mode": "none", "fields__n__stats_mode": "full", "metadata__stats_mode": "counts"}
    settings = KeyFileSettings.of(schema_of(data_file__thin_mode=thin, **own))
    assert [settings.files.modes[name].kind for name in COLUMNS.names] == ["counts", "counts", "none", "full"]
    ((_, mode),) = settings.key_modes.items()
    assert mode.kind == ("none" if thin == "true" else "truncate")
    one_less = KeyFileSettings.of(
        schema_of(data_file__thin_mode=thin, metadata__stats_keep_first_n_columns="3", fields__k__stats_mode="counts")
    )
    assert one_less.files.modes["n"].kind == "none", "a column with a mode of its own counts"


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_a_file_says_of_its_rows_what_is_true_of_them(file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random rows in several row groups and files: the first and last key, the numbers, the rows that delete."""
    monkeypatch.setattr(data_writer, "ROW_GROUP_BYTES", 1 << 16)
    schema = schema_of(file__format=file_format, target_file_size="100 kb", file__compression="none")
    store, dice = MemoryStore(f"memory://key-files/{next(_names)}"), random.Random(file_format)
    rows = [
        (dice.randrange(1 << 40), dice.randrange(4), 1, f"{dice.random()}", 3 * key, dice.randrange(99))
        for key in range(12_000)
    ]
    writer = KeyFileWriter(store, schema, "p=1/bucket-0/", "data-x", level=2, source=SOURCE_COMPACT)
    for start in range(0, 12_000, 1500):
        columns = zip(*rows[start : start + 1500], strict=True)
        arrays = [pa.array(column, f.type) for column, f in zip(columns, arrow_rows(schema), strict=True)]
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=arrow_rows(schema)))
    writer.finish()
    done, types = 0, [schema.by_name["k"].type]
    for file in writer.files:
        here = rows[done : done + file.row_count]
        done += file.row_count
        assert (
            decode_row(file.min_key, types, "")[0] == here[0][4]
            and decode_row(file.max_key, types, "")[0] == here[-1][4]
        )
        numbers = [row[0] for row in here]
        assert (file.min_sequence_number, file.max_sequence_number) == (min(numbers), max(numbers))
        assert file.delete_row_count == sum(KINDS[row[1]] in ("-U", "-D") for row in here)
        assert (file.level, file.file_source) == (2, SOURCE_COMPACT)
        (key,) = decode_stats(file.key_stats, [schema.by_name["k"]])
        assert key == ColumnStats(here[0][4], here[-1][4], 0)
    assert done == 12_000 and len(writer.files) > 2


def test_rows_with_other_columns_are_refused() -> None:
    schema = schema_of()
    writer = KeyFileWriter(MemoryStore(f"memory://key-files/{next(_names)}"), schema, "bucket-0/", "x")
    batch = pa.record_batch({"p": [1], "v": ["a"], "k": [1], "n": [1]})
    with pytest.raises(InvalidArgument, match=r"rows with a key have the columns.*_SEQUENCE_NUMBER"):
        writer.write(batch)
    assert writer.files == [] and writer.held_bytes == 0


def test_what_options_say_of_a_level_and_of_changelogs() -> None:
    """Their own option, then that of the level, then that of all files; a changelog has no index."""
    schema = schema_of(
        file__format="orc",
        file__format__per__level="0:avro,3:parquet",
        file__compression="zstd",
        file__compression__per__level="3:snappy",
        changelog_file__format="parquet",
        metadata__stats_mode="full",
        metadata__stats_mode__per__level="0:none",
        file_index__bloom_filter__columns="v",
    )
    found: dict[Any, Any] = {}
    for level, changelog in ((0, False), (1, False), (3, False), (0, True), (3, True)):
        files = KeyFileSettings.of(schema, level=level, changelog=changelog).files
        found[level, changelog] = (
            files.suffix.rpartition(".")[2],
            files.modes["n"].kind,
            files.schema.option_texts["file.compression"],
            len(files.indexes),
        )
    assert found == {
        (0, False): ("avro", "none", "zstd", 1),
        (1, False): ("orc", "full", "zstd", 1),
        (3, False): ("parquet", "full", "snappy", 1),
        (0, True): ("parquet", "none", "zstd", 0),
        (3, True): ("parquet", "full", "snappy", 0),
    }
    default = KeyFileWriter(MemoryStore("memory://key-files/default"), schema, "bucket-0/", "x")
    assert (default._level, default._source) == (0, SOURCE_APPEND)
    assert default._keyed.files.suffix.endswith(".avro")
