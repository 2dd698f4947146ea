"""Changes to a schema, and the new schema that they give.

Owns: the changes, as values, and `changed`. Must not know: files, stores, concurrent changes.
Source: format/schema §4 (evolution). Invariants: A column keeps its field id, and no id is used twice. A change that would make
an old file unreadable, or would make another engine refuse the table, is refused; the error names the column or option.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timezone
from typing import Any, TypeAlias

from ... import arguments
from ... import options as opt
from ...casts.allowed import retyping
from ...errors import InvalidArgument, TableCorrupt
from ...option_names import check_option_name
from ...options import parse_bool
from ...rows.literals import coerce_literal
from ...rows.type_text import parse_sql_type
from ...rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    parse_type,
    sql,
    with_nullable,
)
from ..orc_zones import with_zone_option
from ..schema import TableSchema, check_schema
from .column_options import check_names, named_columns
from .column_options import renamed as renamed_in_options
from .field_edits import Edit, edited, numbered, position_beside, with_field
from .foreign_options import check_foreign
from .key_checks import check_keyed

_IMMUTABLE = frozenset(
    "bucket-key bucket-function.type merge-engine sequence.snapshot-ordering aggregation.remove-record-on-delete"
    " partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group rowkind.field primary-key"
    " primary-key.nullable partition dynamic-bucket.initial-buckets force-lookup row-tracking.enabled"
    " data-evolution.enabled index-file-in-data-file-dir blob-field blob-descriptor-field blob-view-field"
    " pk-clustering-override data-file.path-directory type manifest.format".split()
)
"""Options on which the table's files depend. They cannot change once there is a snapshot."""


CheckValues: TypeAlias = Callable[[str, "Field | None", DataType, DataType], None]
"""Takes a column's path, the column (None for a part of a nested one), its old and its new type."""


@dataclass(frozen=True)
class Draft:
    """A schema that is being changed.

    Attributes:
        has_snapshots: the table has files, so options on which they depend must not change.
        check_values: raises InvalidArgument if a change of type does not keep the stored values; None = not checked.
    """

    schema: TableSchema
    has_snapshots: bool
    check_values: CheckValues | None = None

    def edited(self, path: str, edit: Edit) -> Draft:
        """Edit the field that a path names: `a.b` is field b of ROW a; `a.element` and `a.value` are parts of ARRAY or MAP a."""
        parts = (path,) if arguments.text(path, "column") in self.schema.by_name else tuple(path.split("."))
        fields = edited(self.schema.fields, parts, path, edit)
        return replace(self, schema=replace(self.schema, fields=fields))

    def is_key(self, path: str) -> str:
        """The kind of key that a column is part of; empty if it is not part of a key."""
        kinds = (("partition", self.schema.partition_keys), ("primary", self.schema.primary_keys))
        return next((kind for kind, keys in kinds if arguments.text(path, "column") in keys), "")


SchemaChange: TypeAlias = Callable[[Draft], Draft]


def changed(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    has_snapshots: bool,
    time_ms: int,
    check_values: CheckValues | None = None,
) -> TableSchema:
    """The next schema.

    Args:
        check_values: see `Draft`.

    Raises:
        InvalidArgument: the format does not allow a change; names the column or option.

    >>> old = TableSchema(0, (Field(0, "a", AtomicType("INT")),), 0, option_texts={})
    >>> new = changed(old, [add_column("b", "STRING"), rename_column("a", "c")], has_snapshots=True, time_ms=1)
    >>> new.id, [(f.id, f.name) for f in new.fields]
    (1, [(0, 'c'), (1, 'b')])
    """
    draft = Draft(schema, has_snapshots, check_values)
    for change in changes:
        if not callable(change):
            raise InvalidArgument(
                f"{change!r} is no change of a schema", next_step="make one, as with ll.add_column(…)"
            )
        draft = change(draft)
    made = with_zone_option(draft.schema, schema if has_snapshots else None)
    made = replace(made, id=schema.id + 1, time_ms=time_ms, version=max(schema.version, TableSchema.version))
    check_schema(made)
    check_keyed(made)
    check_names(made, schema)
    check_foreign(made, schema)
    return made


def undone(newest: TableSchema, made: TableSchema, before: TableSchema) -> TableSchema:
    """The newest schema with one change undone. Changes that other writers made since are kept.

    >>> before = TableSchema(0, (Field(0, "a", AtomicType("INT")),), 0, option_texts={"bucket": "-1"})
    >>> made = replace(before, id=1, option_texts={"bucket": "2", "bucket-key": "a"})
    >>> undone(made, made, before).option_texts, undone(before, made, before) == before
    ({'bucket': '-1'}, True)
    """
    texts = dict(newest.option_texts)
    for key in before.option_texts.keys() | made.option_texts.keys():
        was, became = before.option_texts.get(key), made.option_texts.get(key)
        if was != became and texts.get(key) == became:
            texts.pop(key, None)
            if was is not None:
                texts[key] = was
    back = newest if texts == newest.option_texts else replace(newest, option_texts=texts)
    if newest.comment == made.comment != before.comment:
        back = replace(back, comment=before.comment)
    if newest.fields == made.fields != before.fields:
        back = replace(back, fields=before.fields, primary_keys=before.primary_keys)
    return back


# ------------------------------------------------------------------------------------------------------------ columns


def add_column(
    name: str,
    data_type: Any,
    *,
    comment: str | None = None,
    default: Any = None,
    first: bool = False,
    after: str | None = None,
    before: str | None = None,
) -> SchemaChange:
    """Add a column. In existing rows it is null, not its default.

    Args:
        name: the name of the column, or `row.field` for a field of a ROW.
        data_type: SQL text such as `DECIMAL(10, 2)`, a `DataType`, or an Arrow type; nullable.
        first, after, before: the position of the column; last by default.
    """

    def change(draft: Draft) -> Draft:
        schema = draft.schema
        parent, _, leaf = arguments.text(name, "column").rpartition(".")
        made_type, highest = numbered(_data_type(data_type, name), schema.highest_field_id + 1)
        if not made_type.nullable:
            raise InvalidArgument(f"column '{name}' cannot be NOT NULL, because existing rows have no value for it")
        text = None if default is None else _default_text(default, made_type, name)
        field = Field(schema.highest_field_id + 1, leaf, made_type, comment, text)

        def insert(fields: tuple[Field, ...]) -> tuple[Field, ...]:
            if any(f.name == leaf for f in fields):
                raise InvalidArgument(f"there already is a column '{name}'")
            position = position_beside(fields, first, after, before)
            if position is None and not parent:
                position = _before_partitions(schema)
            where = len(fields) if position is None else position
            return (*fields[:where], field, *fields[where:])

        draft = replace(draft, schema=replace(schema, highest_field_id=highest))
        if not parent:
            return replace(draft, schema=replace(draft.schema, fields=insert(schema.fields)))
        return draft.edited(parent, lambda fields, i: with_field(fields, i, type=_row_of(fields[i], insert)))

    return change


def drop_column(name: str) -> SchemaChange:
    """Drop a column. Its values remain in existing files."""

    def drop(fields: tuple[Field, ...], index: int) -> tuple[Field, ...]:
        if len(fields) == 1:
            raise InvalidArgument(f"'{name}' is the last column, it cannot be dropped")
        return (*fields[:index], *fields[index + 1 :])

    def change(draft: Draft) -> Draft:
        _refuse_named(_no_key(draft, name, "dropped"), name, "dropped")
        return draft.edited(name, drop)

    return change


def rename_column(name: str, new_name: str) -> SchemaChange:
    """Rename a column, which keeps its values. Partition columns cannot be renamed, because their names are in paths."""

    def rename(fields: tuple[Field, ...], index: int) -> tuple[Field, ...]:
        if any(f.name == new_name for f in fields):
            raise InvalidArgument(f"there already is a column '{new_name}'")
        if isinstance(kind := fields[index].type, AtomicType) and kind.root == "BLOB":
            raise InvalidArgument(f"column '{name}' is of type BLOB, it cannot be renamed")
        return with_field(fields, index, name=new_name)

    def change(draft: Draft) -> Draft:
        if draft.is_key(name) == "partition":
            raise InvalidArgument(f"partition column '{name}' cannot be renamed: its name is part of paths")
        is_column = name in draft.schema.by_name
        arguments.text(new_name, "column")
        texts = renamed_in_options(draft.schema.option_texts, name, new_name, is_column=is_column)
        draft = draft.edited(name, rename)
        keys = tuple(new_name if k == name else k for k in draft.schema.primary_keys)
        return replace(draft, schema=replace(draft.schema, primary_keys=keys, option_texts=texts))

    return change


def update_type(name: str, data_type: Any, *, force: bool = False) -> SchemaChange:
    """Change the type of a column. Existing values are cast when they are read. The column's nullability does not change.

    The change is refused if a stored value would be lost or could not be read any more: a text that is no number makes every
    read fail, a number that is too large becomes another one or null, a longer text is cut. The types or the statistics of the
    files must show that this does not happen.

    Args:
        data_type: SQL text, a `DataType`, or an Arrow type.
        force: make the change without a look at the stored values.
    """

    def change(draft: Draft) -> Draft:
        implicit_only = parse_bool(draft.schema.option_texts.get("disable-explicit-type-casting", "false"))

        def retype(fields: tuple[Field, ...], index: int) -> tuple[Field, ...]:
            old = fields[index].type
            new = with_nullable(_data_type(data_type, name), old.nullable)
            allowed = retyping(old, new)
            if allowed is None or (implicit_only and allowed == "explicit"):
                why = " (option 'disable-explicit-type-casting')" if allowed else ""
                raise InvalidArgument(f"column '{name}' cannot change from {sql(old)} to {sql(new)}{why}")
            if draft.check_values is not None and not force:
                whole = fields[index] if name in draft.schema.by_name else None
                draft.check_values(name, whole, old, new)
            return with_field(fields, index, type=new)

        return _no_key(draft, name, "given another type").edited(name, retype)

    return change


def update_nullability(name: str, nullable: bool) -> SchemaChange:
    """Make a column nullable or NOT NULL, the latter only with `alter-column-null-to-not-null.disabled` = false."""

    def change(draft: Draft) -> Draft:
        locked = parse_bool(draft.schema.option_texts.get("alter-column-null-to-not-null.disabled", "true"))

        def update(fields: tuple[Field, ...], index: int) -> tuple[Field, ...]:
            if not nullable and fields[index].type.nullable and locked:
                raise InvalidArgument(
                    f"column '{name}' may already have nulls",
                    next_step="if it does not, set option 'alter-column-null-to-not-null.disabled' to false first",
                )
            return with_field(fields, index, type=with_nullable(fields[index].type, nullable))

        if nullable and draft.is_key(name) == "primary":
            raise InvalidArgument(f"'{name}' is part of the primary key, it cannot be null")
        return draft.edited(name, update)

    return change


def update_comment(name: str, comment: str | None) -> SchemaChange:
    """Change or remove the comment of a column."""
    return lambda draft: draft.edited(name, lambda fields, i: with_field(fields, i, description=comment))


def update_default(name: str, default: Any) -> SchemaChange:
    """Change the default that replaces nulls when rows are written; None removes it."""

    def update(fields: tuple[Field, ...], index: int) -> tuple[Field, ...]:
        text = None if default is None else _default_text(default, fields[index].type, name)
        return with_field(fields, index, default_value=text)

    return lambda draft: draft.edited(name, update)


def move_column(name: str, *, first: bool = False, after: str | None = None, before: str | None = None) -> SchemaChange:
    """Move a column to another position; last by default."""

    def move(fields: tuple[Field, ...], index: int) -> tuple[Field, ...]:
        if name.rpartition(".")[2] in (after, before):
            raise InvalidArgument(f"column '{name}' cannot be moved next to itself")
        rest = (*fields[:index], *fields[index + 1 :])
        position = position_beside(rest, first, after, before)
        where = len(rest) if position is None else position
        return (*rest[:where], fields[index], *rest[where:])

    return lambda draft: draft.edited(name, move)


# ------------------------------------------------------------------------------------------------------------ options


def set_option(key: str, value: Any, *, allow_unknown: bool = False) -> SchemaChange:
    """Set a table option.

    Args:
        allow_unknown: accept a name that neither lakelatch nor Apache Paimon knows, for an option that only your own programs
            read. An unknown name is most often a misspelt one, so it is refused with similar names.
    """

    def change(draft: Draft) -> Draft:
        if arguments.text(key, "option") not in draft.schema.option_texts:
            check_option_name(key, allow_unknown)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        _check_option(draft, key, text)
        return replace(draft, schema=replace(draft.schema, option_texts={**draft.schema.option_texts, key: text}))

    return change


def remove_option(key: str) -> SchemaChange:
    """Remove a table option, so that its default applies."""

    def change(draft: Draft) -> Draft:
        _check_option(draft, key, None)
        texts = {k: v for k, v in draft.schema.option_texts.items() if k != key}
        return replace(draft, schema=replace(draft.schema, option_texts=texts))

    return change


def set_comment(comment: str | None) -> SchemaChange:
    """Change or remove the comment of the table."""
    made = None if comment is None else arguments.text(comment, "comment")
    return lambda draft: replace(draft, schema=replace(draft.schema, comment=made))


def _check_option(draft: Draft, key: str, text: str | None) -> None:
    """Refuse changes of options on which existing files depend (format/schema §4)."""
    old = draft.schema.option_texts.get(arguments.text(key, "option"))
    if text == old:
        return
    if key in ("path", "type", "primary-key", "partition") or (draft.has_snapshots and key in _IMMUTABLE):
        raise InvalidArgument(f"option '{key}' cannot be changed: the table's files depend on it")
    if not draft.has_snapshots:
        return
    if key == opt.BUCKET.key:
        for mode in ("-1", "-2"):
            if mode in (old or "-1", text or "-1"):
                raise InvalidArgument(
                    f"option 'bucket' cannot change from or to {mode}: the table's files depend on it"
                )
    if key == "ignore-delete" and parse_bool(old or "false") and not parse_bool(text or "false"):
        raise InvalidArgument("option 'ignore-delete' cannot be switched off again")
    modifiable = parse_bool(draft.schema.option_texts.get("deletion-vectors.modifiable", "false"))
    if key == opt.DELETION_VECTORS.key and not modifiable:
        raise InvalidArgument(f"option '{key}' can be changed only if 'deletion-vectors.modifiable' is true")


# ------------------------------------------------------------------------------------------------------------- inside


def _row_of(field: Field, insert: Callable[[tuple[Field, ...]], tuple[Field, ...]]) -> DataType:
    if not isinstance(field.type, RowType):
        raise InvalidArgument(f"'{field.name}' is not a ROW: {sql(field.type)} has no fields")
    return replace(field.type, fields=insert(field.type.fields))


def _no_key(draft: Draft, name: str, what: str) -> Draft:
    if kind := draft.is_key(name):
        raise InvalidArgument(f"column '{name}' is part of the {kind} key, it cannot be {what}")
    return draft


def _refuse_named(draft: Draft, name: str, what: str) -> None:
    """Refuse to take away a column that an option names: Apache Paimon could not open the table, or would merge other rows."""
    is_column = name in draft.schema.by_name
    for option, named in named_columns(draft.schema.option_texts):
        if named == name and (is_column or named not in draft.schema.by_name):
            raise InvalidArgument(
                f"column '{name}' cannot be {what}: option '{option}' names it",
                next_step=f"change or remove option '{option}' first, which may be part of the same alter",
            )


def _before_partitions(schema: TableSchema) -> int | None:
    if not parse_bool(schema.option_texts.get("add-column-before-partition", "false")):
        return None
    return next((i for i, f in enumerate(schema.fields) if f.name in schema.partition_keys), None)


def _data_type(given: Any, name: str) -> DataType:
    if isinstance(given, (AtomicType, ArrayType, MapType, MultisetType, RowType, VectorType)):
        return given
    try:
        if isinstance(given, str):
            return parse_sql_type(given, f"column '{name}'")
        if isinstance(given, dict):
            return parse_type(given, f"column '{name}'")
    except TableCorrupt as error:
        raise InvalidArgument(error.message) from error
    import pyarrow as pa

    from ...rows.arrow import FieldIds, from_arrow

    if not isinstance(given, pa.DataType):
        raise InvalidArgument(f"column '{name}': {given!r} is no type", next_step="give SQL text or an Arrow type")
    return from_arrow(given, True, name, FieldIds())


def _default_text(default: Any, data_type: DataType, name: str) -> str:
    text = str(default).lower() if isinstance(default, bool) else str(default)
    coerce_literal(text, data_type, f"default of column '{name}'", timezone.utc)
    return text
