"""Files with keys are described as Apache Paimon (Java) describes its own: the rows of its files, written again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_filters import golden_folder

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.metadata.schema import TableSchema
from lakelatch.core.metadata.schemas.merge_rules import row_fields
from lakelatch.core.places import FileKeys
from lakelatch.core.rows.types import AtomicType
from lakelatch.core.statistics.collect import decode_stats, file_stats_fields
from lakelatch.table.reading.run_reader import RunReader
from lakelatch.table.writing.files.key_files import KeyFileWriter, arrow_rows

LEAST_FILES = 90


def is_int96(data_type: AtomicType) -> bool:
    return data_type.root.startswith("TIMESTAMP") and data_type.precision > 6


def facts(file: DataFile, schema: TableSchema) -> dict[str, Any]:
    """What a manifest says of a file, but for names, sizes, times, and statistics that Java lacks (nested columns, INT96)."""
    fields = file_stats_fields(schema.fields, None, file.value_stats_cols)
    assert fields is not None
    statistics = zip(fields, decode_stats(file.value_stats, fields), strict=True)
    left_out = {"file_name", "file_size", "creation_time", "extra_files", "value_stats", "value_stats_cols"}
    return {
        **{name: value for name, value in file._asdict().items() if name not in left_out},
        "indexes beside": len(file.extra_files),
        "statistics": {
            f.name: found for f, found in statistics if isinstance(f.type, AtomicType) and not is_int96(f.type)
        },
    }


def written_again(table: ll.Table, file: DataFile, key: str, schema: TableSchema, to: LocalStore) -> list[DataFile]:
    """The files that our writer makes of the rows of a file."""
    wanted = arrow_rows(schema)
    reader = RunReader(row_fields(schema), {schema.id: schema}, schema.options)
    writer = KeyFileWriter(to, schema, "bucket-0/", "data-x", level=file.level, source=file.file_source or 0)
    for _, rows in reader.rows({file: (LocalStore(table.url.removeprefix("file://")), key)}, None, True):
        batch = pa.Table.from_arrays([pa.chunked_array([rows.column(name)]) for name in wanted.names], schema=wanted)
        for part in batch.combine_chunks().to_batches():
            writer.write(part)
    writer.finish()
    return writer.files


@pytest.mark.given
def test_files_with_keys_are_described_as_java_describes_them(tmp_path: Path) -> None:
    """Keys, statistics, sequence numbers, rows that delete, levels: for every format, key type and option there is."""
    to, count = LocalStore(str(tmp_path / "again")), 0
    for folder in sorted(golden_folder(tmp_path).glob("paimon-java-1.4.2/*pk*/table")):
        table = ll.open_table(str(folder))
        schemas = {schema.id: schema for schema in table.schemas()}
        known = {e.file.file_name: e for s in table.snapshots()[::3] for e in table.entries(s) if e.bucket >= 0}
        for entry in known.values():
            file, schema = entry.file, schemas[entry.file.schema_id]
            again = written_again(table, file, FileKeys(schema).data(entry)[0], schema, to)
            if len(again) == 1:  # the sizes at which files of a small target size end are ours
                assert facts(again[0], schema) == facts(file, schema), (folder.parent.name, file.file_name)
            assert sum(f.row_count for f in again) == file.row_count
            assert (again[0].min_key, again[-1].max_key) == (file.min_key, file.max_key)
            count += 1
    assert count > LEAST_FILES
