"""Changes that were captured from a database, as rows with a kind: Debezium's and Maxwell's rows, and plain rows.

Owns: `captured`, the shapes of these rows, and their order by key. Must not know: files, commits.
Source: format/primary-keys §1; the documentation of Debezium (change events) and Maxwell (data format).

Invariants: A row that cannot be understood is an error, never left out. Of the changes of one key, the later one comes later. A
change of a key is the deletion of the old one and then the row with the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InvalidArgument
from ..core.rows.whole import one_batch, taken
from .conforming.plain import plain_batch
from .conforming.sources import batches_of

Shape = Literal["auto", "plain", "debezium", "maxwell"]
SHAPES: tuple[Shape, ...] = ("auto", "plain", "debezium", "maxwell")
KIND = "_captured_kind"
DEBEZIUM = {"c": "+I", "r": "+I", "u": "+U"}
MAXWELL = {"insert": "+I", "bootstrap-insert": "+I", "update": "+U"}
MAXWELL_MARKS = ("bootstrap-start", "bootstrap-complete")


def captured(
    data: Any, keys: Sequence[str], sequence: Sequence[str], kind: str | None, shape: Shape
) -> tuple[Any, str | None]:
    """Rows for `upsert`, and the name of the column with their kinds; None if all are inserts.

    Arguments are as for `Table.apply_changes`. `InvalidArgument`: a row cannot be understood; names the column and the value.
    """
    batches = batches_of(data)
    first = next(batches, None)
    if first is None:
        return iter(()), None
    found = shape_of(first.schema, shape, kind)
    opened = _UNWRAPPERS[found]

    def unwrapped() -> Iterator[pa.RecordBatch]:
        for batch in chain([first], batches):
            yield opened(plain_batch(batch), keys, sequence)

    name = kind if found == "plain" else KIND
    if not sequence:
        return unwrapped(), name
    return _in_order(one_batch(list(unwrapped())), sequence), name


def shape_of(schema: pa.Schema, shape: str, kind: str | None) -> str:
    types = {field.name: field.type for field in schema}
    structs = {name: pa.types.is_struct(kind) or pa.types.is_null(kind) for name, kind in types.items()}
    return looks_like(schema.names, structs, shape, kind)


def looks_like(names: Sequence[str], structs: Mapping[str, bool], shape: str, kind: str | None) -> str:
    """What rows with these columns look like; `structs` says which are structs, or have no value at all.

    `InvalidArgument`: there is no such shape, or the columns do not fit it.
    """
    if shape not in SHAPES:
        raise InvalidArgument(f"shape {shape!r} is unknown", next_step=f"use {', '.join(SHAPES)}")
    looks = "plain"
    if {"op", "before", "after"} <= set(names):
        looks = "debezium"
    elif {"type", "data"} <= set(names) and structs["data"]:
        looks = "maxwell"
    wanted = (looks if kind is None else "plain") if shape == "auto" else shape
    needed = {
        "plain": () if kind is None else (kind,),
        "debezium": ("op", "before", "after"),
        "maxwell": ("type", "data"),
    }
    why = "which names the kinds" if wanted == "plain" else f"which rows of {wanted} have"
    for name in needed[wanted]:
        if name not in names:
            raise InvalidArgument(f"the data has no column '{name}', {why}", next_step=f"it has {', '.join(names)}")
    for name in {"debezium": ("before", "after"), "maxwell": ("data",)}.get(wanted, ()):
        if not structs[name]:
            raise InvalidArgument(
                f"column '{name}' is no struct, and rows of {wanted} have one there",
                next_step="parse the JSON first, for example with from_json in Spark or pyarrow.json",
            )
    return wanted


# ---------------------------------------------------------------------------------------------------------- the shapes


def _plain(batch: pa.RecordBatch, keys: Sequence[str], sequence: Sequence[str]) -> pa.RecordBatch:
    return _with_sequence(batch, batch, sequence, np.arange(batch.num_rows))


def _debezium(batch: pa.RecordBatch, keys: Sequence[str], sequence: Sequence[str]) -> pa.RecordBatch:
    """`before`, `after` and `op`: c(reate), r(ead), u(pdate), d(elete); a row without `op` is a tombstone, and says nothing."""
    before, after = _struct(batch, "before", "after"), _struct(batch, "after", "before")
    ops = _texts(batch, "op")
    kinds = _kinds(ops, DEBEZIUM, "op", "c, r, u and d", ("d",), tombstones=True)
    moved = pc.and_kleene(pc.equal(ops, "u"), pc.and_(before.is_valid(), _keys_differ(before, after, keys)))
    deletes = pc.or_kleene(pc.equal(ops, "d"), moved)
    return _both(batch, before, "before", deletes, after, "after", kinds, sequence)


def _maxwell(batch: pa.RecordBatch, keys: Sequence[str], sequence: Sequence[str]) -> pa.RecordBatch:
    """`data` and `type`: insert, update, delete; `old` has what an update changed."""
    data, types = _struct(batch, "data", "data"), _texts(batch, "type")
    kinds = _kinds(types, MAXWELL, "type", "insert, update and delete", ("delete", *MAXWELL_MARKS))
    deletes = pc.equal(types, "delete")
    gone = data
    if "old" in batch.schema.names and pa.types.is_struct(batch.schema.field("old").type):
        old = batch.column("old")
        held = {old.type.field(i).name for i in range(old.type.num_fields)}
        parts = []
        moved = pa.repeat(pa.scalar(False), batch.num_rows)
        for i in range(data.type.num_fields):
            field = data.type.field(i)
            now = pc.struct_field(data, [i])
            was = pc.struct_field(old, [field.name]).cast(field.type) if field.name in held else None
            parts.append(now if was is None or field.name not in keys else pc.coalesce(was, now))
            if was is not None and field.name in keys:
                moved = pc.or_(moved, pc.and_(was.is_valid(), pc.fill_null(pc.not_equal(was, now), True)))
        gone = pa.StructArray.from_arrays(parts, fields=list(data.type), mask=data.is_null())
        deletes = pc.or_(deletes, pc.and_(pc.equal(types, "update"), moved))
    return _both(batch, gone, "data", deletes, data, "data", kinds, sequence)


_UNWRAPPERS: dict[str, Callable[[pa.RecordBatch, Sequence[str], Sequence[str]], pa.RecordBatch]] = {
    "plain": _plain,
    "debezium": _debezium,
    "maxwell": _maxwell,
}


def _struct(batch: pa.RecordBatch, name: str, other: str) -> Any:
    """A column of structs; one without any value has the type of another column."""
    column = batch.column(name)
    return pa.nulls(batch.num_rows, batch.schema.field(other).type) if pa.types.is_null(column.type) else column


def _texts(batch: pa.RecordBatch, name: str) -> Any:
    column = batch.column(name)
    return column.cast(pa.string())


def _kinds(
    values: Any, kinds: dict[str, str], name: str, known: str, others: Sequence[str], tombstones: bool = False
) -> Any:
    understood = pc.is_in(values, value_set=pa.array([*kinds, *others]))
    if tombstones:
        understood = pc.or_(understood, values.is_null())
    if not pc.all(understood).as_py() and len(values):
        wrong = values[pc.index(understood, False).as_py()].as_py()
        raise InvalidArgument(
            f"column '{name}': {wrong!r} is no change of a row", next_step=f"leave rows out that are none of {known}"
        )
    codes = pc.index_in(values, value_set=pa.array(list(kinds)))
    return pa.array(list(kinds.values())).take(codes)


def _keys_differ(before: Any, after: Any, keys: Sequence[str]) -> Any:
    differ = pa.repeat(pa.scalar(False), len(before))
    for key in keys:
        names = [before.type.field(i).name for i in range(before.type.num_fields)]
        if key in names:
            was, now = pc.struct_field(before, [key]), pc.struct_field(after, [key])
            differ = pc.or_(differ, pc.fill_null(pc.not_equal(was, now.cast(was.type)), False))
    return differ


def _both(
    batch: pa.RecordBatch,
    gone: Any,
    gone_name: str,
    deletes: Any,
    came: Any,
    came_name: str,
    kinds: Any,
    sequence: Sequence[str],
) -> pa.RecordBatch:
    """The rows that go and the rows that come, in the order of the changes; of one change, the row that goes is first."""
    going = np.flatnonzero(pc.fill_null(deletes, False).to_numpy(zero_copy_only=False))
    coming = np.flatnonzero(kinds.is_valid().to_numpy(zero_copy_only=False))
    parts = []
    for rows, at, name, told in (
        (gone, going, gone_name, pa.repeat(pa.scalar("-D"), len(going))),
        (came, coming, came_name, kinds.take(pa.array(coming))),
    ):
        taken = rows.take(pa.array(at))
        if taken.null_count:
            where = int(at[taken.is_null().to_numpy(zero_copy_only=False)][0])
            raise InvalidArgument(
                f"column '{name}' is null in change {where}, which {'deletes' if told and name == gone_name else 'writes'} a row",
                next_step="let the database send it (in PostgreSQL with REPLICA IDENTITY), or leave the change out",
            )
        fields = list(came.type)
        names = [taken.type.field(i).name for i in range(taken.type.num_fields)]
        columns = [
            pc.struct_field(taken, [field.name]).cast(field.type)
            if field.name in names
            else pa.nulls(len(taken), field.type)
            for field in fields
        ]
        made = pa.RecordBatch.from_arrays([*columns, told], names=[*(f.name for f in fields), KIND])
        parts.append(_with_sequence(made, batch, sequence, at))
    order = np.argsort(np.concatenate([going * 2, coming * 2 + 1]), kind="stable")
    return one_batch(parts).take(pa.array(order)) if len(order) else parts[0]


# ----------------------------------------------------------------------------------------------------------- the order


def _place(i: int) -> str:
    return f"_captured_order_{i}"


def _with_sequence(rows: pa.RecordBatch, batch: pa.RecordBatch, sequence: Sequence[str], at: Any) -> pa.RecordBatch:
    for i, name in enumerate(sequence):
        rows = rows.append_column(_place(i), _ordering(rows, batch, name, at))
    return rows


def _ordering(rows: pa.RecordBatch, batch: pa.RecordBatch, name: str, at: Any) -> Any:
    head, *path = name.split(".")
    if head in batch.schema.names:
        column = batch.column(head)
        for part in path:
            if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
                raise InvalidArgument(f"sequence: the data has no '{name}'")
            column = pc.struct_field(column, [part])
        column = column.take(pa.array(at))
    elif not path and name in rows.schema.names:
        column = rows.column(name)
    else:
        raise InvalidArgument(
            f"sequence: the data has no '{name}'", next_step=f"the columns are: {', '.join(batch.schema.names)}"
        )
    if column.null_count:
        raise InvalidArgument(
            f"sequence: '{name}' is null in a change, so it is not known which change of its key is the last one",
            next_step="fill it in, or leave these changes out",
        )
    return column


def _in_order(rows: pa.RecordBatch, sequence: Sequence[str]) -> Iterator[pa.RecordBatch]:
    places = [_place(i) for i in range(len(sequence))]
    numbered = rows.append_column("_captured_at", pa.array(np.arange(rows.num_rows)))
    order = pc.sort_indices(numbered, sort_keys=[(name, "ascending") for name in (*places, "_captured_at")])
    yield from taken(rows.drop_columns(places), order.to_numpy())
