"""Functions of texts and of bitmaps. They loop over keys with several values. Source: format/primary-keys §4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ....core.errors import TableCorrupt
from ....core.file_index.bitmaps.roaring import checked_bitmap
from ....core.rows.types import Field
from ....core.typed import Array
from .base import NO_ROW, Folding
from .roaring64 import Bitmap64, read_bitmap64, union64, write_bitmap64

_BLANKS = "".join(
    map(chr, (*range(0x9, 0xE), *range(0x1C, 0x21), 0x1680, *range(0x2000, 0x2007), *range(0x2008, 0x200B)))
)
_BLANKS += "\u2028\u2029\u205f\u3000"
"""What Java takes for blank."""


class ListAgg(Folding):
    """`listagg`: texts with a delimiter between them; blank texts do not count."""

    def __init__(self, name: str, field: Field, array: Any, count: int, texts: Mapping[str, str]) -> None:
        super().__init__(name, field, array, count, texts)
        says = pc.not_equal(pc.utf8_trim(array, _BLANKS), "").fill_null(False)
        self._says: Array = says.to_numpy(zero_copy_only=False)
        self._delimiter = texts.get(f"fields.{field.name}.list-agg-delimiter", ",")
        self._distinct = self.option("distinct").lower() == "true"

    def add(self, keys: Array, rows: Array) -> None:
        says = self._says[rows]
        super().add(keys[says], rows[says])

    def add_older(self, keys: Array, rows: Array) -> None:
        known = self.rows[keys]
        blank = (known != NO_ROW) & ~self._says[known] & ~np.isin(keys, [*self.made])
        self.set(keys[blank], rows[blank])
        super().add_older(keys[~blank], rows[~blank])

    def value(self, row: int) -> str:
        return str(self.array[row].as_py())

    def joined(self, known: str, new: str) -> str:
        if is_blank(new):
            return known
        if is_blank(known):
            return new
        if not self._distinct:
            return known + self._delimiter + new
        tokens = {*known.split(self._delimiter or " ")}
        fresh = dict.fromkeys(new.split(self._delimiter or " "))
        return self._delimiter.join([known, *(t for t in fresh if t not in tokens and not is_blank(t))])

    def array_of(self, values: list[Any]) -> Any:
        return pa.array(values, self.array.type)


def is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


class RoaringBitmap64(Folding):
    """`rbm64`: the union of Roaring bitmaps of 64-bit numbers."""

    def value(self, row: int) -> Bitmap64:
        return read_bitmap64(self.array[row].as_py())

    def joined(self, known: Bitmap64, new: Bitmap64) -> Bitmap64:
        return union64(known, new)

    def array_of(self, values: list[Any]) -> Any:
        return pa.array(list(map(write_bitmap64, values)), self.array.type)


class Bitmap32(Folding):
    """`rbm32`: the union of Roaring bitmaps."""

    def value(self, row: int) -> BitMap:
        try:
            return checked_bitmap(self.array[row].as_py())[0]
        except ValueError as error:
            raise TableCorrupt(f"a value that function rbm32 should add to is no bitmap: {error}") from error

    def joined(self, known: BitMap, new: BitMap) -> BitMap:
        return known | new

    def array_of(self, values: list[Any]) -> Any:
        for value in values:
            value.run_optimize()
        return pa.array([value.serialize() for value in values], self.array.type)
