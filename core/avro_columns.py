"""Avro records as columns: the blocks of many containers, decoded side by side in NumPy.

Owns: `read_columns`: where the records of a block begin is only known once those before are decoded, but blocks are
independent; so one step decodes one value in every block at once. Must not know: what the records mean.
Source: Avro specification 1.11 (containers, binary encoding); format-metadata §4.1.

Invariants: what comes out is what a reader record by record would give; bytes that do not fit their schema to the last one
raise `Irregular`, and the caller asks such a reader, which says what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .avro_blocks import Irregular, blocks_of
from .json_text import parse_json

_PADDING = 16

Array: TypeAlias = Any
"""A NumPy array."""
Some: TypeAlias = Any
"""Which blocks, or which rows of a column: a slice of them, or an index array."""


@dataclass
class Column:
    """The values of one field.

    Attributes:
        values: numbers; or for text and bytes where in the data they begin, for arrays the first item's place.
        lengths: of text and bytes, in bytes; of arrays, in items; None for numbers.
        valid: False where the field is null; None where it cannot be.
        items: of an array, the columns of its items by name, "" where an item is no record.
    """

    values: Array
    lengths: Array = None
    valid: Array = None
    items: dict[str, Column] = field(default_factory=dict)

    def room(self, rows: int) -> None:
        """Make room for so many rows."""
        if len(self.values) < rows:
            more = max(rows, 2 * len(self.values))
            self.values = _grown(self.values, more)
            self.lengths = None if self.lengths is None else _grown(self.lengths, more)
            self.valid = None if self.valid is None else _grown(self.valid, more)

    def picked(self, rows: Array) -> Column:
        """Some rows, or all in another order."""
        lengths = None if self.lengths is None else self.lengths.take(rows)
        return Column(
            self.values.take(rows), lengths, None if self.valid is None else self.valid.take(rows), self.items
        )

    @property
    def is_empty(self) -> bool:
        """Is every value null?"""
        return self.valid is not None and not self.valid.any()

    def numbers(self) -> list[Any]:
        """The numbers, None for null."""
        return self._or_none(self.values.tolist())

    def slices(self, data: bytes) -> list[Any]:
        """Text and bytes as bytes, None for null."""
        ends = (self.values + self.lengths).tolist()
        return self._or_none([data[start:end] for start, end in zip(self.values.tolist(), ends, strict=True)])

    def lists(self, items: Sequence[Any]) -> list[Any]:
        """Arrays as tuples of the given items, None for null."""
        ends = (self.values + self.lengths).tolist()
        return self._or_none([tuple(items[start:end]) for start, end in zip(self.values.tolist(), ends, strict=True)])

    def _or_none(self, found: list[Any]) -> list[Any]:
        if self.valid is None or self.valid.all():
            return found
        return [value if valid else None for value, valid in zip(found, self.valid.tolist(), strict=True)]


def _grown(array: Array, rows: int) -> Array:
    made = np.zeros(rows, array.dtype)
    made[: len(array)] = array
    return made


@dataclass(frozen=True)
class Columns:
    """Records as columns.

    Attributes:
        rows: how many records.
        by_name: columns by the path of their field, parts of a record behind a dot.
        data: what text and bytes columns point into.
    """

    rows: int
    by_name: dict[str, Column]
    data: bytes


class Tape:
    """The blocks' bytes, and how far each was read."""

    def __init__(self, data: Array, starts: Array) -> None:
        self.data, self.at = data, starts.copy()

    def longs(self, lanes: Some) -> Array:
        """One number of each block (zigzag, seven bits a byte)."""
        at = self.at[lanes]
        byte = self.data.take(at)
        at = at + 1
        more = np.flatnonzero(byte >= 0x80)
        if not more.size:
            self.at[lanes] = at
            return _SMALL.take(byte)
        value, shift = (byte & np.uint8(0x7F)).astype(np.uint64), 7
        while more.size:
            if shift > 63:
                raise Irregular("a number has too many bytes")
            byte = self.data.take(at.take(more))
            value[more] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more, shift = more[byte >= 0x80], shift + 7
        self.at[lanes] = at
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def skip(self, lanes: Some, lengths: Array | int) -> Array:
        """Go on by so many bytes; where they begin."""
        starts = self.at[lanes]
        ends = starts + lengths
        if (ends < starts).any():
            raise Irregular("a length is negative")
        if isinstance(lanes, slice):
            starts = starts.copy()  # else a view of what changes now
        self.at[lanes] = ends
        return starts


_SMALL = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(128)], np.int64)
"""Numbers of one byte."""


# -------------------------------------------------------------------------------------------------------------- types

Reader: TypeAlias = Callable[[Tape, Some, Some, dict[str, Column]], None]
"""Reads one value of some blocks into some rows of the columns."""


def _number(name: str) -> Reader:
    def read(tape: Tape, lanes: Some, rows: Some, columns: dict[str, Column]) -> None:
        columns[name].values[rows] = tape.longs(lanes)

    return read


def _fixed(name: str, size: int) -> Reader:
    def read(tape: Tape, lanes: Some, rows: Some, columns: dict[str, Column]) -> None:
        columns[name].values[rows] = tape.skip(lanes, size)
        columns[name].lengths[rows] = size

    return read


def _bytes(name: str) -> Reader:
    def read(tape: Tape, lanes: Some, rows: Some, columns: dict[str, Column]) -> None:
        column, lengths = columns[name], tape.longs(lanes)
        column.values[rows] = tape.skip(lanes, lengths)
        column.lengths[rows] = lengths

    return read


def _record(parts: Sequence[Reader]) -> Reader:
    def read(tape: Tape, lanes: Some, rows: Some, columns: dict[str, Column]) -> None:
        for part in parts:
            part(tape, lanes, rows, columns)

    return read


def _nullable(names: Sequence[str], inner: Reader, null_branch: int) -> Reader:
    def read(tape: Tape, lanes: Some, rows: Some, columns: dict[str, Column]) -> None:
        branch = tape.longs(lanes)
        if (branch >> 1).any():
            raise Irregular("a union has two branches")
        there = np.flatnonzero(branch != null_branch)
        if not there.size:
            return
        if there.size < len(branch):
            lanes, rows = _of(lanes, there), _of(rows, there)
        for name in names:
            columns[name].valid[rows] = True
        inner(tape, lanes, rows, columns)

    return read


def _array(name: str, inner: Reader) -> Reader:
    def read(tape: Tape, lanes: Some, rows: Some, columns: dict[str, Column]) -> None:
        column, counts = columns[name], tape.longs(lanes)
        column.lengths[rows] = counts
        if not counts.any():
            return
        if (counts < 0).any() or counts.sum() > len(tape.data):
            raise Irregular("an array in parts with sizes, or longer than its file")
        end = column.items[_END].values
        ends = np.cumsum(counts) + end[0]
        starts = ends - counts
        column.values[rows], end[0] = starts, ends[-1]
        for item in column.items.values():
            item.room(int(end[0]))
        for position in range(int(counts.max())):
            here = np.flatnonzero(counts > position)
            inner(tape, _of(lanes, here), starts.take(here) + position, column.items)
        if tape.longs(_of(lanes, np.flatnonzero(counts))).any():
            raise Irregular("an array of several parts")

    return read


def _of(some: Some, which: Array) -> Array:
    """Some of some."""
    return which + some.start if isinstance(some, slice) else some.take(which)


_END = "#"
"""Beside the columns of an array's items: how many there are by now."""


@dataclass
class Layout:
    """How the records of one schema are read.

    Attributes:
        read: reads one record of each lane.
        kinds: name -> has lengths, is nullable, items; what columns are made of.
    """

    read: Reader
    kinds: dict[str, tuple[bool, bool, dict[str, Any] | None]]

    def columns(self, rows: int) -> dict[str, Column]:
        """Empty columns for so many rows."""
        return _empty(self.kinds, rows)


def _empty(kinds: dict[str, tuple[bool, bool, dict[str, Any] | None]], rows: int) -> dict[str, Column]:
    made = {}
    for name, (has_lengths, nullable, items) in kinds.items():
        made[name] = Column(
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64) if has_lengths else None,
            np.zeros(rows, bool) if nullable else None,
            {} if items is None else {_END: Column(np.zeros(1, np.int64)), **_empty(items, 16)},
        )
    return made


@lru_cache(maxsize=64)
def layout_of(schema_json: bytes) -> Layout:
    """How to read the records of a writer's schema. Raises Irregular for types that metadata never has."""
    kinds: dict[str, Any] = {}
    try:
        schema = parse_json(schema_json)
        read = _compiled(schema, "", False, kinds, {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Irregular(f"the schema cannot be understood: {error!r}") from error
    if schema.get("type") != "record":
        raise Irregular("the schema is no record")
    return Layout(read, kinds)


def _compiled(schema: Any, name: str, nullable: bool, kinds: dict[str, Any], known: dict[str, Any]) -> Reader:
    if isinstance(schema, list):
        return _compiled_union(schema, name, kinds, known)
    kind = schema["type"] if isinstance(schema, dict) else known.get(schema, schema)
    if isinstance(kind, (dict, list)):
        return _compiled(kind, name, nullable, kinds, known)
    if isinstance(schema, dict) and "name" in schema:
        known[schema["name"]] = known[schema["name"].rpartition(".")[2]] = schema
    if kind == "record":
        prefix = f"{name}." if name else ""
        parts = [_compiled(f["type"], prefix + f["name"], nullable, kinds, known) for f in schema["fields"]]
        return _record(parts)
    if kind == "array":
        items: dict[str, Any] = {}
        inner = _compiled(schema["items"], "", False, items, known)
        kinds[name] = (True, nullable, items)
        return _array(name, inner)
    kinds[name] = (kind not in ("int", "long"), nullable, None)
    match kind:
        case "int" | "long":
            return _number(name)
        case "string" | "bytes":
            return _bytes(name)
        case "boolean" | "float" | "double":
            return _fixed(name, {"boolean": 1, "float": 4, "double": 8}[kind])
    raise Irregular(f"a field of type {kind!r}")


def _compiled_union(branches: list[Any], name: str, kinds: dict[str, Any], known: dict[str, Any]) -> Reader:
    if len(branches) != 2 or "null" not in branches:
        raise Irregular("a union of something else than null and a type")
    null_branch = branches.index("null")
    inside: dict[str, Any] = {}
    inner = _compiled(branches[1 - null_branch], name, True, inside, known)
    kinds.update(inside)
    return _nullable(tuple(inside), inner, null_branch)


# --------------------------------------------------------------------------------------------------------- containers


def read_columns(containers: Sequence[bytes]) -> Columns:
    """The records of containers that were written with one schema, in order.

    Raises:
        Irregular: damaged, of several schemas, or of a kind that is not decoded side by side.
    """
    schemas, counts, blocks = set(), [], []
    for data in containers:
        schema, found = blocks_of(data)
        schemas.add(schema)
        for count, block in found:
            counts.append(count)
            blocks.append(block)
    if len(schemas) != 1:
        raise Irregular("containers of several schemas")
    layout = layout_of(schemas.pop())
    return _decoded(layout, np.array(counts, np.int64), blocks)


def _decoded(layout: Layout, counts: Array, blocks: list[bytes]) -> Columns:
    rows = int(counts.sum())
    data = b"".join([*blocks, bytes(_PADDING)])
    ends = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    if rows > ends.max(initial=0) or np.any(counts < 0):
        raise Irregular("more records than bytes")
    columns = layout.columns(rows)
    # The blocks with most records come first: then those that have an n-th record are a slice, and so are their rows.
    order = np.argsort(-counts, kind="stable")
    left, end_of, first_row = counts[order], ends[order], (np.cumsum(counts) - counts)[order]
    tape = Tape(np.frombuffer(data, np.uint8), np.concatenate([np.zeros(1, np.int64), ends])[:-1][order])
    places, done = np.empty(rows, np.int64), 0
    try:
        for number in range(int(counts.max(initial=0))):
            active = int(np.searchsorted(-left, -number, side="left"))
            layout.read(tape, slice(0, active), slice(done, done + active), columns)
            places[first_row[:active] + number] = np.arange(done, done + active)
            done += active
            if (tape.at[:active] > end_of[:active]).any():
                raise Irregular("a record is longer than its block")
    except (IndexError, OverflowError) as error:
        raise Irregular("a value lies outside of its block") from error
    if (tape.at != end_of).any():
        raise Irregular("a block has bytes left")
    return Columns(rows, {name: column.picked(places) for name, column in columns.items()}, data)
