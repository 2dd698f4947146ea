"""The page on rows shows the rules that the code has, and its code runs. Run as a program, this prints the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pages import blocks, run_python

from lakelatch.core.rows.type_text import parse_sql_type
from lakelatch.core.rows.types import AtomicType
from lakelatch.table.conforming.rules import MEANINGS, rule_of

PAGE = Path("docs/rows-in.md")
COLUMNS = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DECIMAL(10, 2)": "DECIMAL",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "DATE": "DATE",
    "TIME(3)": "TIME(3)",
    "TIMESTAMP(6)": "TIMESTAMP(6)",
    "TIMESTAMP_LTZ(6)": "TIMESTAMP_LTZ(6)",
}
SOURCES = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.decimal128(38, 10)),
    *(pa.string(), pa.binary(), pa.binary(16), pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
    *(pa.duration("us"), pa.month_day_nano_interval(), pa.uuid(), pa.json_()),
]


def table() -> str:
    lines = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for source in SOURCES:
        words = [rule_of(source, atom(column)) for column in COLUMNS]
        cells = ["–" if word == "refused" else word for word in words]
        lines.append(f"| `{source}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def atom(column: str) -> AtomicType:
    found = parse_sql_type(column, "x")
    assert isinstance(found, AtomicType)
    return found


def test_the_table_is_that_of_the_code() -> None:
    text = PAGE.read_text()
    shown = text.partition("<!-- rules -->\n")[2].partition("\n<!-- /rules -->")[0]
    assert shown == table()
    for word, meaning in MEANINGS.items():
        assert f"| {word} | {meaning} |" in text or word == "refused"


def test_the_page_runs(tmp_path: Path) -> None:
    assert "taken" in run_python("\n".join([*blocks(str(PAGE), "python"), "print('taken')"]), tmp_path)


if __name__ == "__main__":
    print(table())
