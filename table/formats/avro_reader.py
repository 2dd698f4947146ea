"""Read one Avro data file into the columns of a projection.

Owns: decoding blocks of records into Arrow arrays of plain values. Must not know: splits, partitions, predicates.
Source: format/data-files §3. fastavro decodes: about half a million values a second and core, ten times slower than Parquet; no
library goes from these schemas (maps with any key, decimals, swapped time zones) to columns.

Invariants: The table's schema decides what a number means (time, date, decimal), because the format uses Avro's logical types
the other way round. Memory holds a few blocks. A record takes at least one byte, which bounds the number of records in a block.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from itertools import count
from operator import itemgetter
from typing import Any

import pyarrow as pa

from ...core.avro.blocks import CODECS, FileBlocks
from ...core.avro.checksum import NO_CHECKSUM, place_of
from ...core.avro.records import check_sizes, long_bytes
from ...core.errors import Unsupported
from ..projection.plan import ProjectionPlan
from .data_source import BATCH_ROWS, DataSource
from .streamed import StreamedFile

_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 4 << 20
_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.binary(),
}
_UNITS = {
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


class AvroFile(StreamedFile):
    """An Avro file; see `OpenDataFile`."""

    def __init__(self, source: DataSource, projection: ProjectionPlan) -> None:
        import fastavro

        super().__init__(source, projection)
        with source.blamed():
            self._blocks = FileBlocks.of(io.BufferedReader(source.open(), _BUFFER_BYTES))
            written = json.loads(self._blocks.schema)
            check_sizes(written)
            record, kind = _PlainSchema().of(fastavro.parse_schema(written))
            if not pa.types.is_struct(kind):
                raise ValueError("it holds no records")
            self._rows = fastavro.parse_schema({"type": "array", "items": record})
        self._kinds = {field.name: field.type for field in kind}
        self._names = [c.source for c in projection.columns if c.source is not None and c.source in self._kinds]

    @property
    def has_columns(self) -> bool:
        return bool(self._names)

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        rows: list[Any] = []
        size = 0
        while True:
            with self._source.blamed():
                block = self._next_block()
                if block is not None:
                    rows += self._records(*block)
                    size += len(block[1])
            if rows and (block is None or size > _BATCH_BYTES or len(rows) >= BATCH_ROWS):
                with self._source.blamed():
                    columns = [pa.array(map(itemgetter(name), rows), self._kinds[name]) for name in self._names]
                    batch = pa.RecordBatch.from_arrays(columns, self._names)
                yield batch
                rows, size = [], 0
            if block is None:
                return

    def _next_block(self) -> tuple[int, bytes] | None:
        if self._blocks.codec not in CODECS:
            raise Unsupported(
                f"{self._source.where}: codec {self._blocks.codec.decode(errors='replace')!r} is not supported",
                next_step="exclude the rows of this file",
            )
        return self._blocks.next()

    def _records(self, count: int, block: bytes) -> list[dict[str, Any]]:
        """All records of the block, decoded at once as an array: only the counts around the bytes differ."""
        import fastavro

        data = b"".join((long_bytes(count), block, b"\0"))
        encoded = io.BytesIO(data)
        found: list[dict[str, Any]] = fastavro.schemaless_reader(encoded, self._rows, None)
        if encoded.tell() != len(data):
            raise ValueError("a block has more bytes than its records")
        return found


def check_checksum(source: DataSource) -> None:
    """Compare a file with the checksum that lakelatch wrote into it; files without one pass."""
    with source.blamed():
        opened = source.open()
        part = bytes(opened.read(_BUFFER_BYTES))
        place = place_of(part)
        if place is None:
            return
        end = place + len(NO_CHECKSUM)
        said = part[place:end].decode()
        if said == NO_CHECKSUM:
            return
        found, part = zlib.crc32(part[:place] + NO_CHECKSUM.encode()), part[end:]
        while part:
            found = zlib.crc32(part, found)
            part = bytes(opened.read(_BUFFER_BYTES))
        if said != f"{found:08x}":
            raise ValueError("its bytes do not have the checksum in its header")


class _PlainSchema:
    """A file's schema, changed so that fastavro returns plain values, without Python code for each value.

    It describes the same bytes, without logical types: numbers stay numbers, decimals and texts are bytes, maps arrays of pairs.
    """

    def __init__(self) -> None:
        self._records: dict[str, tuple[str, Any]] = {}
        self._numbers = count()

    def of(self, schema: Any) -> tuple[Any, Any]:
        """(Avro schema, Arrow type) for a type of the file's schema, which fastavro has parsed."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in self._records:
                return self._records[schema]
            schema = {"type": schema}
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.of(kind)
        if kind in _PRIMITIVES:
            arrow = _UNITS.get(schema.get("logicalType")) if kind == "long" else None
            return "bytes" if kind == "string" else kind, arrow or _PRIMITIVES[kind]
        if kind == "record":
            return self._record(schema)
        if kind == "array":
            items, arrow = self.of(schema["items"])
            return {"type": "array", "items": items}, pa.list_(arrow)
        if kind == "map":
            parts = [{"name": "key", "type": "string"}, {"name": "value", "type": schema["values"]}]
            return self.of({"type": "array", "items": {"type": "record", "name": "", "fields": parts}})
        raise ValueError(f"it holds values of type {kind!r}")

    def _union(self, branches: list[Any]) -> tuple[Any, Any]:
        others = [branch for branch in branches if branch != "null"]
        if len(branches) != 2 or len(others) != 1:
            raise ValueError(f"it holds a union of {len(branches)} types")
        plain, arrow = self.of(others[0])
        return ["null" if branch == "null" else plain for branch in branches], arrow

    def _record(self, schema: Any) -> tuple[Any, Any]:
        fields = [(field["name"], *self.of(field["type"])) for field in schema["fields"]]
        if not fields:
            raise ValueError("it holds records without fields")
        name = f"r{next(self._numbers)}"
        arrow = pa.struct([(field, kind) for field, _, kind in fields])
        self._records[schema["name"]] = name, arrow
        plain = [{"name": field, "type": kind} for field, kind, _ in fields]
        return {"type": "record", "name": name, "fields": plain}, arrow
