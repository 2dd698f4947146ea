"""Dates and times before the year 1 and after 9999, which Python's `datetime` cannot hold (G8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden_filters import golden_predicate
from interop.agreement import our_rows
from interop.filters import filters_of, kept, order_of
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll
from lakelatch.cli.main import main

pytestmark = pytest.mark.java

DATES = ["0000-12-30", "0001-01-01", "9999-12-31", "-0001-03-04", "+10000-01-01", "-5877641-06-23", "+5881580-07-11"]
"""The first is what Spark makes of 0001-01-01 in some of its calendars; the last two are the ends of the type."""
TIMES = [f"{day}T12:34:56.789000000" for day in DATES[:5]]
COLUMNS = [("i", "INT"), ("d", "DATE"), ("t", "TIMESTAMP(3)"), ("z", "TIMESTAMP(3) WITH LOCAL TIME ZONE")]


def rows_of(file_format: str) -> list[Row]:
    times: list[Any] = TIMES if file_format != "orc" else [None] * len(TIMES)  # ORC files: format/data-files §3
    padded = [*times, None, None]
    return [[i, d, t, t and f"{t}Z"] for i, (d, t) in enumerate(zip(DATES, padded, strict=True))] + [
        [9, None, None, None]
    ]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_as_columns(tmp_path: Path, paimon_java: Any, capsys: Any, file_format: str) -> None:
    """Each row in a file of its own, by both writers: read by both, filtered by bounds, checked, printed."""
    path, rows = tmp_path / "t", rows_of(file_format)
    table = ll.create_table(str(path), ll.Schema(COLUMNS), options={"file.format": file_format})
    for row in rows:
        table.append(decode_rows([row], table.schema.fields))
    paimon_java.commit_rows(path, rows)
    table = ll.open_table(str(path))
    assert_same_rows(our_rows(table), rows * 2, "lakelatch")
    assert_same_rows(paimon_java.rows(path), rows * 2, "Java")
    assert table.verify("all", data=True) == []
    types = {f.name: f.type for f in table.schema.fields}
    for position, name in ((1, "d"), (2, "t"), (3, "z")):
        field = table.schema.by_name[name]
        values = sorted({row[position] for row in rows} - {None}, key=order_of(field))
        for wanted in filters_of(field, values[:3]) if values else ():
            where = golden_predicate(wanted, types)
            found = encode_rows(table.to_arrow(where=where), table.schema.fields)
            assert_same_rows(found, kept(rows * 2, wanted, table.schema.fields), f"{wanted}")
    assert table.plan(where="d = '0000-12-30'").file_count == 2
    assert table.to_arrow(where="d < '0001-01-01' OR d > '9999-12-31'").num_rows == 10
    assert main(["read", str(path), "--where", "d = '-0001-03-04'", "--columns", "d,t", "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = None if file_format == "orc" else "-0001-03-04T12:34:56.789"
    assert printed == [{"d": "-0001-03-04", "t": expected}] * 2


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_as_partitions(tmp_path: Path, paimon_java: Any, capsys: Any, legacy: str) -> None:
    """The directories are Java's; partitions are read, filtered, dropped and listed."""
    rows, folders = [row for row in rows_of("parquet") if row[2] or row[1] is None], []
    for writer in ("java", "ours"):
        path = tmp_path / writer
        table = ll.create_table(
            str(path), ll.Schema(COLUMNS), partition_by=["d", "t", "z"], options={"partition.legacy-name": legacy}
        )
        if writer == "java":
            paimon_java.commit_rows(path, rows)
        else:
            table.append(decode_rows(rows, table.schema.fields))
        folders.append({str(file.parent.relative_to(path)) for file in path.rglob("data-*")})
        table = ll.open_table(str(path))
        assert_same_rows(our_rows(table), rows, "lakelatch")
        assert_same_rows(paimon_java.rows(path), rows, "Java")
        assert table.verify("all", data=True) == []
        assert table.plan(where="d = '0000-12-30'").file_count == 1
        assert table.plan(where="t < '0001-01-01 00:00:00'").file_count == 2
        assert main(["files", str(path)]) == 0
        assert "0000-12-30" in capsys.readouterr().out
        table.drop_partitions([{"d": "0000-12-30"}])
        table.overwrite(decode_rows(rows[3:4], table.schema.fields), dynamic=True)
        table.compact(min_files=2)
        assert_same_rows(paimon_java.rows(path), rows[1:], "Java, without a partition")
    assert folders[0] == folders[1]
