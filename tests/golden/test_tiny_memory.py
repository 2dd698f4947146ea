"""The golden tables with a primary key, merged in the smallest ranges of keys: the same rows as at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from golden_tables import packed, unpack
from values import assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.table.reading.arrow import SplitReader
from lakelatch.table.scan.fallback import file_schemas_of


@pytest.mark.parametrize("table_id", packed("pk_"))
def test_a_golden_table_in_tiny_ranges(table_id: str, tmp_path: Path) -> None:
    table = ll.open_table(str(unpack(table_id, tmp_path).path))
    whole, fields = table.to_arrow(), table.schema.fields
    plan = table.plan()
    schemas = file_schemas_of(table.timeline, table.schema, plan.splits)
    reader = SplitReader(table.schema, None, None, schemas, merge_memory=1)
    found = pa.Table.from_batches(reader.batches(table.store, plan.splits), schema=whole.schema)
    assert_same_rows(encode_rows(found, fields), encode_rows(whole, fields), table_id)
