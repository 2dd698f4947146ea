"""Manifests as columns: many entries are examined at once, and become objects only if they are kept.

Owns: `EntryColumns`, which holds the columns of manifests and makes entries from their rows. Must not know: predicates, stores.
Source: format/manifests §3, §6. Invariants: The entry made from row i equals the result of `decode_manifest`. Manifests that
cannot be decoded as columns are decoded by `decode_manifest`, whose errors name the file and the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..avro.blocks import Irregular
from ..avro.columns import Columns
from ..avro.values import AvroColumn, ByteString, Kind, List, Long, Nullable
from ..errors import TableCorrupt
from ..typed import Array
from .data_file import EMPTY_ROW, DataFile, ManifestEntry, SimpleStats
from .manifest_schema import MANIFEST_VERSION

_LONG, _BYTES = Long(), ByteString()
_REQUIRED: dict[str, Kind] = {
    **dict.fromkeys(("_VERSION", "_KIND", "_BUCKET", "_TOTAL_BUCKETS"), _LONG),
    **dict.fromkeys((f"_FILE._{name}" for name in ("FILE_SIZE", "ROW_COUNT", "SCHEMA_ID", "LEVEL")), _LONG),
    **dict.fromkeys(("_FILE._MIN_SEQUENCE_NUMBER", "_FILE._MAX_SEQUENCE_NUMBER"), _LONG),
    **dict.fromkeys(("_PARTITION", "_FILE._FILE_NAME", "_FILE._MIN_KEY", "_FILE._MAX_KEY"), _BYTES),
    **{f"_FILE._{side}_STATS._{bound}_VALUES": _BYTES for side in ("KEY", "VALUE") for bound in ("MIN", "MAX")},
    "_FILE._EXTRA_FILES": List(_BYTES),
}
_OPTIONAL: dict[str, Kind] = {
    **dict.fromkeys((f"_FILE._{name}" for name in ("CREATION_TIME", "DELETE_ROW_COUNT", "FILE_SOURCE")), _LONG),
    "_FILE._FIRST_ROW_ID": _LONG,
    **dict.fromkeys(("_FILE._EMBEDDED_FILE_INDEX", "_FILE._EXTERNAL_PATH"), _BYTES),
    **dict.fromkeys(("_FILE._VALUE_STATS_COLS", "_FILE._WRITE_COLS"), List(_BYTES)),
    **dict.fromkeys((f"_FILE._{side}_STATS._NULL_COUNTS" for side in ("KEY", "VALUE")), List(_LONG)),
    "_FILE._WRITE_COLS_SEQUENCES": List(_LONG),
}
"""The columns that only some releases have. Any may be null."""


class EntryColumns:
    """The entries of manifests with the same layout; `data` are the bytes that spans point into. Raises Irregular."""

    def __init__(self, columns: Columns, names: Sequence[str]) -> None:
        self._columns, self._names = columns, names
        self.rows, self.data = columns.rows, columns.data
        for name, kind in (_REQUIRED | _OPTIONAL).items():
            if name not in columns and name in _REQUIRED:
                raise Irregular(f"there is no field {name}")
            if name in columns and not _is_like(
                columns.kind(name), kind, nullable=name in _OPTIONAL or isinstance(kind, List)
            ):
                raise Irregular(f"field {name} has another type")
        self.kind: Array = columns.column("_KIND").values
        self.schema_id: Array = columns.column("_FILE._SCHEMA_ID").values
        if (columns.column("_VERSION").values != MANIFEST_VERSION).any() or (self.kind >> 1).any():
            raise Irregular("an entry with an unknown version or kind")

    # ------------------------------------------------------------------------------------------------------- looking

    def spans(self, name: str) -> tuple[Array, Array]:
        """The offsets in `data` of the values of a text or bytes column, and their lengths."""
        column = self._columns.column(name)
        return column.values, column.sizes

    def is_null(self, name: str) -> Array:
        if name not in self._columns:
            return np.ones(self.rows, bool)
        valid = self._columns.column(name).valid
        return np.zeros(self.rows, bool) if valid is None else ~valid

    def partitions(self) -> tuple[list[bytes], Array]:
        return self._distinct("_PARTITION")

    def named(self, names: set[bytes]) -> Array:
        """A mask of the entries whose data file has one of these names."""
        if not names:
            return np.zeros(self.rows, bool)
        return np.array([name in names for name in self._slices("_FILE._FILE_NAME", None)], bool)

    def file_names(self, rows: Array) -> set[bytes]:
        return set(self._slices("_FILE._FILE_NAME", rows)) if rows.size else set()

    def locations(self) -> Iterator[tuple[bytes, int, str, Sequence[str], str | None]]:
        """Partition, bucket, name, names of files that belong to it, path elsewhere. Raises TableCorrupt."""
        partitions, places = self.partitions()
        try:
            yield from zip(
                map(partitions.__getitem__, places.tolist()),
                self._numbers("_BUCKET", None),
                self._texts("_FILE._FILE_NAME", None),
                (found or () for found in self._text_lists("_FILE._EXTRA_FILES", None)),
                self._texts("_FILE._EXTERNAL_PATH", None, optional=True),
                strict=True,
            )
        except UnicodeDecodeError as error:
            raise TableCorrupt(f"a name in one of {', '.join(self._names)} is not text: {error}") from error

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def values(self, name: str, rows: Array | None = None) -> AvroColumn | None:
        return self._columns.column(name, rows) if name in self._columns else None

    def _distinct(self, name: str) -> tuple[list[bytes], Array]:
        starts, lengths = self.spans(name)
        if not self.rows:
            return [], np.zeros(0, np.int64)
        width = int(lengths[0])
        if not width or (lengths != width).any():
            numbers: dict[bytes, int] = {}
            places = [numbers.setdefault(value, len(numbers)) for value in self._slices(name, None)]
            return list(numbers), np.array(places, np.int64)
        found = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(width), self.rows, [None, pa.py_buffer(self.data.cut(starts, width))]
        ).dictionary_encode()
        return found.dictionary.to_pylist(), found.indices.to_numpy()

    # ------------------------------------------------------------------------------------------------------- objects

    def entries(self, rows: Array | None = None) -> list[ManifestEntry]:
        """Entries as objects: those at some ascending indices, or all. Raises TableCorrupt where a name is not text."""
        try:
            return list(self._entries(rows))
        except UnicodeDecodeError as error:
            raise TableCorrupt(f"a name in one of {', '.join(self._names)} is not text: {error}") from error

    def _entries(self, rows: Array | None) -> Iterator[ManifestEntry]:
        files = map(
            DataFile,
            self._texts("_FILE._FILE_NAME", rows),
            self._numbers("_FILE._FILE_SIZE", rows),
            self._numbers("_FILE._ROW_COUNT", rows),
            self._shared("_FILE._MIN_KEY", rows),
            self._shared("_FILE._MAX_KEY", rows),
            self._stats("_FILE._KEY_STATS", rows),
            self._stats("_FILE._VALUE_STATS", rows),
            self._numbers("_FILE._MIN_SEQUENCE_NUMBER", rows),
            self._numbers("_FILE._MAX_SEQUENCE_NUMBER", rows),
            self._numbers("_FILE._SCHEMA_ID", rows),
            self._numbers("_FILE._LEVEL", rows),
            (found or () for found in self._text_lists("_FILE._EXTRA_FILES", rows)),
            self._numbers("_FILE._CREATION_TIME", rows, optional=True),
            self._numbers("_FILE._DELETE_ROW_COUNT", rows, optional=True),
            self._slices("_FILE._EMBEDDED_FILE_INDEX", rows, optional=True),
            self._numbers("_FILE._FILE_SOURCE", rows, optional=True),
            self._text_lists("_FILE._VALUE_STATS_COLS", rows, optional=True),
            self._texts("_FILE._EXTERNAL_PATH", rows, optional=True),
            self._numbers("_FILE._FIRST_ROW_ID", rows, optional=True),
            self._text_lists("_FILE._WRITE_COLS", rows, optional=True),
            self._number_lists("_FILE._WRITE_COLS_SEQUENCES", rows, optional=True),
        )
        return map(
            ManifestEntry,
            self._numbers("_KIND", rows),
            self._shared("_PARTITION", rows),
            self._numbers("_BUCKET", rows),
            self._numbers("_TOTAL_BUCKETS", rows),
            files,
        )

    def _picked(self, name: str, rows: Array | None, optional: bool) -> AvroColumn | None:
        if optional and name not in self._columns:
            return None
        column = self._columns.column(name, rows)
        return None if optional and column.is_empty else column

    def _nones(self, rows: Array | None) -> list[None]:
        return [None] * (self.rows if rows is None else len(rows))

    def _numbers(self, name: str, rows: Array | None, optional: bool = False) -> Sequence[Any]:
        column = self._picked(name, rows, optional)
        return self._nones(rows) if column is None else column.numbers()

    def _slices(self, name: str, rows: Array | None, optional: bool = False) -> Sequence[Any]:
        column = self._picked(name, rows, optional)
        return self._nones(rows) if column is None else column.slices(self.data)

    def _shared(self, name: str, rows: Array | None) -> Iterator[bytes]:
        """Values of a bytes column. Equal values share one object, because most are equal."""
        seen: dict[bytes, bytes] = {EMPTY_ROW: EMPTY_ROW}
        return (seen.setdefault(value, value) for value in self._slices(name, rows))

    def _texts(self, name: str, rows: Array | None, optional: bool = False) -> Iterator[str | None]:
        return (None if value is None else value.decode() for value in self._slices(name, rows, optional))

    def _number_lists(self, name: str, rows: Array | None, optional: bool = False) -> Sequence[Any]:
        column = self._picked(name, rows, optional)
        return self._nones(rows) if column is None else column.lists(_items(column).numbers())

    def _text_lists(self, name: str, rows: Array | None, optional: bool = False) -> Sequence[Any]:
        column = self._picked(name, rows, optional)
        if column is None:
            return self._nones(rows)
        return column.lists([value.decode() for value in _items(column).slices(self.data)])

    def _stats(self, name: str, rows: Array | None) -> Iterator[SimpleStats]:
        counts = self._number_lists(f"{name}._NULL_COUNTS", rows, optional=True)
        low, high = self._slices(f"{name}._MIN_VALUES", rows), self._slices(f"{name}._MAX_VALUES", rows)
        nothing: dict[Any, SimpleStats] = {}
        for least, most, nulls in zip(low, high, counts, strict=True):
            if least == EMPTY_ROW == most:
                if nulls not in nothing:
                    nothing[nulls] = SimpleStats(EMPTY_ROW, EMPTY_ROW, nulls)
                yield nothing[nulls]
            else:
                yield SimpleStats(least, most, nulls)


def _is_like(found: Kind, wanted: Kind, nullable: bool) -> bool:
    """Does a column have this type, or its nullable form? The items of a list may always be nullable."""
    if isinstance(found, Nullable):
        return nullable and _is_like(found.inner, wanted, False)
    if isinstance(found, List) and isinstance(wanted, List):
        return _is_like(found.item, wanted.item, True)
    return found == wanted


def _items(column: AvroColumn) -> AvroColumn:
    assert column.items is not None
    return column.items
