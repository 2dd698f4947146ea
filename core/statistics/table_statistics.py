"""Statistics of a whole table, as `analyze` makes them: rows, bytes; of each column distinct values, bounds, nulls and lengths.

Owns: `TableStatistics`, `ColumnStatistics`, their file's JSON. Must not know: how they are computed, where the file is.
Source: format/snapshot §6; format/statistics §1. Invariant: Apache Paimon reads the file, and a file that it wrote is written
back with the same values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import TableCorrupt
from ..html_text import ShownAsText
from ..json_text import parse_json

_NUMBERS = {"distinct_count": "distinctCount", "null_count": "nullCount", "avg_len": "avgLen", "max_len": "maxLen"}


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known of a column; None is unknown.

    Attributes:
        column_id: the column's field id.
        distinct_count: about how many different values it has, without null.
        min, max: as text: a DATE as the number of its day, a TIME in milliseconds, a TIMESTAMP as `2024-07-05 12:30:00.000`.
        null_count: the number of nulls.
        avg_len, max_len: of texts in characters and of bytes in bytes; of other types the size of a value.
    """

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True)
class TableStatistics(ShownAsText):
    """Statistics of one snapshot. Prints as a few lines.

    Attributes:
        snapshot_id, schema_id: what was analyzed.
        row_count: the number of rows, after rows with the same key were merged.
        size: the bytes of the files that hold them; of a table with a primary key, in proportion.
        columns: by name.
    """

    snapshot_id: int
    schema_id: int
    row_count: int | None = None
    size: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"snapshot {self.snapshot_id}: {self.row_count} rows, {self.size} bytes"]
        for name, column in self.columns.items():
            facts = {
                "distinct": column.distinct_count,
                "nulls": column.null_count,
                "min": column.min,
                "max": column.max,
            }
            told = ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None)
            lines.append(f"  {name}: {told}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The statistics with stable keys, ready for JSON."""
        columns = {name: {"column_id": c.column_id, **_known(c)} for name, c in self.columns.items()}
        return {
            "snapshot_id": self.snapshot_id,
            "schema_id": self.schema_id,
            "row_count": self.row_count,
            "size": self.size,
            "columns": columns,
        }

    def to_json(self) -> bytes:
        out: dict[str, Any] = {"snapshotId": self.snapshot_id, "schemaId": self.schema_id}
        if self.row_count is not None:
            out["mergedRecordCount"] = self.row_count
        if self.size is not None:
            out["mergedRecordSize"] = self.size
        order = ("distinct_count", "min", "max", "null_count", "avg_len", "max_len")
        out["colStats"] = {
            name: {"colId": c.column_id}
            | {_NUMBERS.get(key, key): getattr(c, key) for key in order if getattr(c, key) is not None}
            for name, c in self.columns.items()
        }
        return json.dumps(out, indent=2, separators=(",", " : "), ensure_ascii=False).encode()


def _known(column: ColumnStatistics) -> dict[str, Any]:
    return {key: getattr(column, key) for key in ("distinct_count", "min", "max", "null_count", "avg_len", "max_len")}


def parse_statistics(data: bytes, where: str) -> TableStatistics:
    """Raises TableCorrupt, which names the file.

    >>> parse_statistics(b'{"snapshotId": 1, "schemaId": 0, "colStats": {"a": {"colId": 0, "min": "x"}}}', "").columns["a"].min
    'x'
    """
    try:
        raw = parse_json(data)
        columns = {
            str(name): ColumnStatistics(
                int(c["colId"]),
                **{key: _number(c, told) for key, told in _NUMBERS.items()},
                min=None if c.get("min") is None else str(c["min"]),
                max=None if c.get("max") is None else str(c["max"]),
            )
            for name, c in (raw.get("colStats") or {}).items()
        }
        return TableStatistics(
            int(raw["snapshotId"]),
            int(raw["schemaId"]),
            _number(raw, "mergedRecordCount"),
            _number(raw, "mergedRecordSize"),
            columns,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableCorrupt(f"{where} is not a file of statistics: {error!r}") from error


def _number(raw: Mapping[str, Any], key: str) -> int | None:
    return None if raw.get(key) is None else int(raw[key])
