"""What rows have and a table lacks (`evolve=True`)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (pa.table({"K": [1]}), "column 'K' differs from the table's column 'k' only in the case"),
        (pa.table({"k": [1], "R": [{"a": 1}]}), "column 'R' differs from the table's column 'r' only in the case"),
        (
            pa.table({"k": [1], "r": [{"A": 1}]}),
            r"column 'r\.A' differs from the table's column 'r\.a' only in the case",
        ),
    ],
)
def test_a_name_that_differs_only_in_its_case_adds_no_column(rows: pa.Table, told: str, tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("r", pa.struct([("a", pa.int64())]))])
    table = ll.create_table(str(tmp_path / "t"), schema)
    with pytest.raises(InvalidArgument, match=told):
        table.append(rows, evolve=True)
    assert ll.open_table(str(tmp_path / "t")).arrow_schema == table.arrow_schema
    assert table.snapshot() is None
