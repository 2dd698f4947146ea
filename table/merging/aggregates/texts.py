"""Functions of texts and of bitmaps. They loop over keys with several values. Source: format/primary-keys §4."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from .base import Folding
from .roaring64 import Bitmap64, read_bitmap64, union64, write_bitmap64


class ListAgg(Folding):
    """`listagg`: texts with a delimiter between them; empty texts do not count."""

    def value(self, row: int) -> str:
        return str(self.array[row].as_py())

    def joined(self, known: str, new: str) -> str:
        if not known or not new:
            return known or new
        delimiter = self.option("list-agg-delimiter") or ","
        if self.option("distinct").lower() != "true":
            return known + delimiter + new
        tokens = dict.fromkeys(known.split(delimiter))
        fresh = dict.fromkeys(token for token in new.split(delimiter) if token and token not in tokens)
        return delimiter.join([known, *fresh])

    def array_of(self, values: list[Any]) -> Any:
        return pa.array(values, self.array.type)


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
        return BitMap.deserialize(self.array[row].as_py())

    def joined(self, known: BitMap, new: BitMap) -> BitMap:
        return known | new

    def array_of(self, values: list[Any]) -> Any:
        for value in values:
            value.run_optimize()
        return pa.array([value.serialize() for value in values], self.array.type)
