"""Builds the indexes of a data file while the file is written.

Owns: `FileIndexBuilder`, from batches to a container. Must not know: the destination of the container, files.
Source: format/file-indexes §1. Invariant: Every index covers all rows of the file, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..options import parse_size
from .bitmaps.bitmap import VERSION_2
from .bitmaps.bitmap_builder import DEFAULT_BLOCK_BYTES, BitmapBuilder
from .bitmaps.bsi import BsiBuilder
from .bitmaps.range_bitmap import DEFAULT_CHUNK_BYTES, RangeBitmapBuilder
from .bloom import DEFAULT_FPP, DEFAULT_ITEMS, BloomBuilder
from .container import write_container
from .keys import KeyForm, key_array
from .options import BITMAP, BLOOM, BSI, IndexSpec

_UNCHUNKED = ("BOOLEAN", "TINYINT", "SMALLINT")


class IndexBuilder(Protocol):
    def add(self, keys: Any) -> None:
        """Add the keys of the next rows."""

    def finish(self) -> bytes:
        """The bytes of the index."""


def builder_of(spec: IndexSpec) -> IndexBuilder:
    form = KeyForm.of(spec.data_type)
    if spec.kind == BLOOM:
        return BloomBuilder(form, spec.option("items", int, DEFAULT_ITEMS), spec.option("fpp", float, DEFAULT_FPP))
    if spec.kind == BITMAP:
        block_bytes = spec.option("index-block-size", parse_size, DEFAULT_BLOCK_BYTES)
        return BitmapBuilder(form, spec.option("version", int, VERSION_2), block_bytes)
    if spec.kind == BSI:
        return BsiBuilder()
    default = 0 if spec.data_type.root in _UNCHUNKED else DEFAULT_CHUNK_BYTES
    return RangeBitmapBuilder(form, spec.option("chunk-size", parse_size, default))


class FileIndexBuilder:
    """Raises InvalidArgument for an invalid option."""

    def __init__(self, specs: Sequence[IndexSpec]) -> None:
        self._builders = [(spec, builder_of(spec)) for spec in specs]

    def add(self, table: pa.Table) -> None:
        """Raises InvalidArgument, which names the column, where an index cannot hold a value."""
        for spec, builder in self._builders:
            for chunk in table.column(spec.column).chunks:
                try:
                    builder.add(key_array(_values(chunk, spec.key), spec.data_type))
                except OverflowError as error:
                    raise InvalidArgument(
                        f"column '{spec.name}' has {error}, which a {spec.kind} index cannot hold"
                    ) from error
                except InvalidArgument as error:
                    error.message = f"column '{spec.name}': {error.message}"
                    raise

    def finish(self) -> bytes:
        made: dict[str, dict[str, bytes | None]] = {}
        for spec, builder in self._builders:
            made.setdefault(spec.name, {})[spec.kind] = builder.finish()
        return write_container(made)


def _values(column: Any, key: str | None) -> Any:
    return column if key is None else pc.map_lookup(column, pa.scalar(key, column.type.key_type), "first")
