"""Files of rows that the shell reads."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakelatch as ll


def test_an_arrow_file_whose_lengths_lie_is_refused(run: Any, tmp_path: Path) -> None:
    """pyarrow writes such ones of dictionaries in lists; the values would be those of other memory."""
    table = ll.create_table(str(tmp_path / "t"), {"x": "ARRAY<TINYINT>"})
    file = tmp_path / "x.arrow"
    rows = pa.record_batch({"x": pa.array([[1] * 5, [1] * 12340], pa.list_(pa.int8()))})
    with pa.ipc.new_file(file, rows.schema) as out:
        out.write_batch(rows)
    assert run("write", table.url, file).code == 0
    offsets = [struct.pack("<iii", 0, 5, last) for last in (12345, 99999)]
    assert file.read_bytes().count(offsets[0]) == 1
    file.write_bytes(file.read_bytes().replace(*offsets))
    refused = run("write", table.url, file)
    assert refused.code == 2 and "column 'x' is damaged" in refused.err
    assert len(table.snapshots()) == 1
