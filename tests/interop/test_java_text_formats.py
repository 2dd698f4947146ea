"""Data files in CSV and JSON: lakelatch writes the bytes that Apache Paimon (Java) writes, and each reads the other's (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.domains import ATOMIC
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll

pytestmark = pytest.mark.java

NAMES = [name for name in ATOMIC if not name.startswith("tz")]
"""The file does not name the writer's zone, so times with local time zone are refused."""
CSV_TEXTS = [" ", "a ", "a,b", 'q"q', '"', "null", "ä😀", "\x00", "\t", "\u2028", '""', ',"', "straße " * 900]
NESTED: list[tuple[str, Any]] = [
    ("id", "INT"),
    ("a", {"type": "ARRAY", "element": "DATE"}),
    ("m", {"type": "MAP", "key": "STRING NOT NULL", "value": "BYTES"}),
    ("mi", {"type": "MAP", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "DOUBLE"}}),
    (
        "r",
        {
            "type": "ROW",
            "fields": [{"id": 10, "name": "x", "type": "TIME(3)"}, {"id": 11, "name": "y", "type": "DECIMAL(9, 2)"}],
        },
    ),
]
NESTED_ROWS: list[Row] = [
    [1, ["2020-01-01", None], [["", "0xff"], ["k", None]], [[-1, [1.5, "NaN", None]]], ["00:00:01.000", "1.50"]],
    [2, None, None, None, None],
    [3, [], [], [], [None, None]],
    [4, [None], [["x", "0x"]], [[7, []], [8, None]], ["23:59:59.999", None]],
]


def domain(name: str, file_format: str) -> list[Any]:
    """The values that the format holds: dates and times are of the years 1 to 9999."""
    values = [v for v in ATOMIC[name][1] if name[:2] not in ("dt", "ts") or (v[0] not in "+-" and v[:4] != "0000")]
    if file_format == "json" or name not in ("st", "vc", "ch"):
        return values if file_format == "json" else [v for v in values if v != "0x"]
    return CSV_TEXTS if name == "st" else [v for v in values if v]


def rows_of(file_format: str) -> list[Row]:
    """Every value of every domain; nulls everywhere, and a row of nothing else."""
    domains = [[*domain(name, file_format), None] for name in NAMES]
    rows = [[values[i % len(values)] for values in domains] for i in range(max(map(len, domains)))]
    return [*rows, [None] * len(NAMES)]


def data_of(path: Path) -> bytes:
    (file,) = path.rglob("data-*")
    return file.read_bytes()


@pytest.mark.parametrize(
    ("file_format", "codec"), [("csv", "none"), ("csv", "gzip"), ("json", "none"), ("json", "gzip")]
)
def test_every_type(file_format: str, codec: str, tmp_path: Path, paimon_java: Any) -> None:
    """G8: the same bytes, and the same rows, whoever writes and reads; also of single columns, and beside other formats."""
    columns, rows = [(n, ATOMIC[n][0]) for n in NAMES], rows_of(file_format)
    options = {"file.format": file_format, "file.compression": codec, "bucket": "-1"}
    paimon_java.create_table(tmp_path / "java", columns, options=options)
    paimon_java.commit_rows(tmp_path / "java", rows)
    ours = ll.create_table(str(tmp_path / "ours"), ll.Schema(columns), options=options)
    fields = ours.schema.fields
    ours.append(decode_rows(rows, fields))
    if codec == "none":
        assert data_of(tmp_path / "ours") == data_of(tmp_path / "java")
    theirs = ll.open_table(str(tmp_path / "java"))
    expected = paimon_java.rows(tmp_path / "java")
    for table in (ours, theirs):
        assert_same_rows(encode_rows(table.to_arrow(), fields), expected, table.url)
        assert table.verify(data="deep") == []
    assert_same_rows(paimon_java.rows(tmp_path / "ours"), expected, "Java")
    if file_format == "json":
        assert_same_rows(expected, rows, "all values come back")
    theirs.alter(
        ll.set_option("file.format", "parquet"), ll.set_option("file.compression", "zstd"), ll.drop_column("st")
    )
    theirs.append(theirs.to_arrow(limit=2))
    assert theirs.to_arrow(columns=["i32"], where="i32 = -1").num_rows >= 1
    both = paimon_java.rows(tmp_path / "java")
    assert_same_rows(encode_rows(theirs.to_arrow(), theirs.schema.fields), both, "formats side by side")


def test_nested_types_in_json(tmp_path: Path, paimon_java: Any) -> None:
    """G8: lists, maps and rows within rows."""
    options = {"file.format": "json", "file.compression": "none", "bucket": "-1"}
    paimon_java.create_table(tmp_path / "java", NESTED, options=options)
    paimon_java.commit_rows(tmp_path / "java", NESTED_ROWS)
    ours = ll.create_table(str(tmp_path / "ours"), ll.Schema(NESTED), options=options)
    fields = ours.schema.fields
    ours.append(decode_rows(NESTED_ROWS, fields))
    assert data_of(tmp_path / "ours") == data_of(tmp_path / "java")
    assert_same_rows(paimon_java.rows(tmp_path / "ours"), NESTED_ROWS, "Java")
    assert_same_rows(encode_rows(ll.open_table(str(tmp_path / "java")).to_arrow(), fields), NESTED_ROWS, "ours")


@pytest.mark.parametrize("thin", ["false", "true"])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_files_with_keys(file_format: str, thin: str, tmp_path: Path, paimon_java: Any) -> None:
    """G8: keys, sequence numbers and kinds come before the columns; a file that is read without a merge has them too."""
    columns = [("p", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("s", "STRING"), ("v", "BIGINT")]
    options = {"file.format": file_format, "file.compression": "none", "bucket": "1", "write-only": "true"}
    options["data-file.thin-mode"] = thin
    paimon_java.create_table(tmp_path / "t", columns, ["p"], ["p", "id"], options)
    paimon_java.commit_rows(tmp_path / "t", [["a", 1, 'x,"y"', 10], ["a", 2, None, None], ["b", 7, "alone", 7]])
    paimon_java.commit_rows(tmp_path / "t", [["a", 1, "z", None], ["a", 2, None, 1]], identifier=2, kinds=["+U", "-D"])
    table = ll.open_table(str(tmp_path / "t"))
    fields = table.schema.fields
    first = [["a", 1, 'x,"y"', 10], ["a", 2, None, None], ["b", 7, "alone", 7]]
    for snapshot, expected in ((1, first), (2, [["a", 1, "z", None], first[2]])):
        assert_same_rows(encode_rows(table.at(snapshot=snapshot).to_arrow(), fields), expected, f"snapshot {snapshot}")
        if file_format == "json":  # Java takes the keys of a CSV file that it does not merge for the columns
            assert_same_rows(paimon_java.rows(tmp_path / "t", snapshot=snapshot), expected, f"Java at {snapshot}")
    assert table.to_arrow(columns=["v"], where="p = 'b'").to_pylist() == [{"v": 7}]
    kinds = table.changes(1).read_all().select(["id", "s", "_row_kind"]).to_pylist()
    assert kinds == [{"id": 1, "s": "z", "_row_kind": "+U"}, {"id": 2, "s": None, "_row_kind": "-D"}]
    if file_format == "json":
        theirs = paimon_java.rows(tmp_path / "t", options={"incremental-between": "1,2"}, with_kind=True)
        assert [[row[0], row[2]] for row in theirs] == [["+U", 1], ["-D", 2]]
