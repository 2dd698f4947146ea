"""ALTER TABLE: columns, options, comments and partitions.

Owns: the changes that each action means, and what Spark's own catalog is told of them. Must not know: how a schema is changed.
Source: decision 123. Invariants: a statement is one new schema, or one commit, or nothing. A column is named in any case, unless
the session tells case apart. What the catalog of Spark knows of a table's columns is what the table has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.changes import (
    SchemaChange,
    add_column,
    drop_column,
    move_column,
    remove_option,
    rename_column,
    set_comment,
    set_option,
    update_comment,
    update_default,
    update_nullability,
    update_type,
)
from ...core.places import codec_of
from ...core.rows.types import ArrayType, DataType, Field, MapType, RowType
from ...table.table import Table
from ..catalogs.run import Run
from ..catalogs.texts import quoted_name
from ..grammar.pieces import Name
from ..grammar.table_statements import (
    AddColumns,
    AlterColumn,
    AlterColumns,
    AlterTable,
    DropColumns,
    DropPartitions,
    NewColumn,
    OtherAction,
    RenameColumn,
    SetComment,
    SetProperties,
    UnsetProperties,
)
from ..options.catalog import comment_of
from ..sessions.identity import identity_of
from ..sessions.session import tells_case
from ..sessions.zones import session_zone
from .columns import constant, type_of
from .databases import nothing
from .describing import located, opened, partitions_of
from .errors import Refusal
from .spark_names import register_name

_COMMENT = "comment"
_IN_PYTHON = "use lakelatch.open_table(url).alter(…)"
_WAYS = {
    "SET LOCATION": "ALTER TABLE … RENAME TO, or DROP TABLE and CREATE TABLE … LOCATION for a name of Spark's catalog",
    "ADD PARTITION": "a partition is there when it has rows: INSERT them",
    "RENAME PARTITION": "UPDATE the partition column of its rows",
    "RECOVER PARTITIONS": "nothing is needed: partitions are found by the snapshot",
    "REPLACE COLUMNS": "ALTER TABLE … ADD COLUMNS, DROP COLUMNS and ALTER COLUMN, or CREATE OR REPLACE TABLE",
}


def carry_out_alter_table(run: Run, statement: AlterTable) -> Any:
    found = located(run, statement.name, sparks_too=True)
    if found is None:
        return None
    table, action = opened(found), statement.action
    if isinstance(action, OtherAction):
        raise Unsupported(
            f"ALTER TABLE {statement.name} {action.what}",
            next_step=_WAYS.get(action.what.upper(), _IN_PYTHON),
        )
    if isinstance(action, DropPartitions):
        with identity_of(run.session) as about:
            _drop_partitions(run, table, action, about)
        return nothing(run)
    changes = list(_Changes(run, table.schema).of(action))
    if changes:
        before = table.schema
        after = table.alter(*changes)
        if run.names.in_warehouse(statement.name) is None and after.fields != before.fields:
            _told_again(run, statement.name, found.options)
    return nothing(run)


class _Changes:
    """The changes of one statement. Names are resolved in the schema as it is before the statement."""

    def __init__(self, run: Run, schema: TableSchema) -> None:
        self._run, self._schema = run, schema
        self._case = tells_case(run.session)
        self._new: list[Name] = []

    def of(self, action: Any) -> Iterator[SchemaChange]:
        match action:
            case AddColumns(columns=columns, if_not_exists=lenient):
                for new in columns:
                    if not (lenient and self._found(new.column) is not None):
                        yield from self._added(new)
            case DropColumns(columns=columns, if_exists=lenient):
                for column in columns:
                    if not (lenient and self._found(column) is None):
                        yield drop_column(self._path(column))
            case RenameColumn(column=column, to=to):
                path = self._path(column)
                self._check_free(Name((*column.parts[:-1], to)), besides=self._found(column))
                yield rename_column(path, to)
            case AlterColumns(columns=columns):
                for one in columns:
                    yield from self._altered(one)
            case SetProperties(properties=properties):
                for key, value in properties.items():
                    yield set_comment(value) if key == _COMMENT else set_option(key, value)
            case UnsetProperties(keys=keys, if_exists=lenient):
                yield from self._unset(keys, lenient)
            case SetComment(comment=comment):
                yield set_comment(comment)

    def _unset(self, keys: tuple[str, ...], lenient: bool) -> Iterator[SchemaChange]:
        for key in keys:
            if key == _COMMENT:
                yield set_comment(None)
            elif key in self._schema.option_texts:
                yield remove_option(key)
            elif not lenient:
                raise Refusal(
                    "UNSET_NONEXISTENT_PROPERTIES", f"the table has no property {key!r}", next_step="add IF EXISTS"
                )

    def _added(self, new: NewColumn) -> Iterator[SchemaChange]:
        parents = new.column.parts[:-1]
        dotted = next((part for part in new.column.parts if "." in part), None)
        if dotted is not None:
            raise Unsupported(f"ADD COLUMN with a dot in the name {dotted!r}", next_step="choose another name")
        path = ".".join((*([self._path(Name(parents))] if parents else []), new.column.parts[-1]))
        self._check_free(new.column)
        if not new.nullable:
            raise InvalidArgument(
                f"column '{path}' cannot be NOT NULL, because existing rows have no value for it",
                next_step="leave NOT NULL out",
            )
        kind = type_of(new.type.text)
        default = None if new.default is None else self._default(new.default.text, kind, path)
        where = self._position(new.after, parents)
        self._new.append(new.column)
        yield add_column(path, kind, comment=new.comment, default=default, **where)

    def _altered(self, told: AlterColumn) -> Iterator[SchemaChange]:
        path = self._path(told.column)
        field = self._found(told.column)
        assert field is not None
        kind = field.type
        if told.type is not None:
            kind = type_of(told.type.text)
            yield update_type(path, kind)
        if told.nullable is not None:
            yield update_nullability(path, told.nullable)
        if told.comment is not None:
            yield update_comment(path, told.comment)
        if told.default is not None:
            yield update_default(path, self._default(told.default.text, kind, path))
        if told.drops_default:
            yield update_default(path, None)
        if told.after is not None:
            yield move_column(path, **self._position(told.after, told.column.parts[:-1]))

    def _default(self, expression: str, kind: DataType, path: str) -> Any:
        return constant(self._run.sparks, expression, kind, path)

    def _position(self, after: str | None, parents: tuple[str, ...]) -> dict[str, Any]:
        if after is None:
            return {}
        if after == "":
            return {"first": True}
        wanted = Name((*parents, after))
        if any(new.parts == wanted.parts for new in self._new):  # a column of the same statement
            return {"after": after}
        self._path(wanted)
        beside = self._found(wanted)
        return {"after": after if beside is None else beside.name}

    def _path(self, name: Name) -> str:
        """The name as the schema has it: `row.field`."""
        fields: tuple[Field, ...] | None = self._schema.fields
        found = []
        for part in name.parts:
            field = None if fields is None else self._among(fields, part)
            if field is None:
                known = "" if fields is None else ", ".join(f.name for f in fields)
                raise Refusal(
                    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                    f"the table has no column '{name}'",
                    next_step=f"there is {known}" if known else None,
                )
            if "." in field.name and len(name.parts) > 1:
                raise Unsupported(f"a name in several parts with a dot in {field.name!r}", next_step=_IN_PYTHON)
            found.append(field.name)
            fields = _inside(field.type)
        return ".".join(found)

    def _found(self, name: Name) -> Field | None:
        fields: tuple[Field, ...] | None = self._schema.fields
        field = None
        for part in name.parts:
            field = None if fields is None else self._among(fields, part)
            if field is None:
                return None
            fields = _inside(field.type)
        return field

    def _among(self, fields: tuple[Field, ...], part: str) -> Field | None:
        same = [f for f in fields if f.name == part]
        near = [] if self._case else [f for f in fields if f.name.lower() == part.lower()]
        if not same and len(near) > 1:
            raise Refusal("AMBIGUOUS_REFERENCE", f"{part!r} may be {' or '.join(f.name for f in near)}")
        return next(iter(same or near), None)

    def _check_free(self, name: Name, besides: Field | None = None) -> None:
        """Refuse a name that differs from another column's only in case."""
        other = self._found(name)
        if other is not None and other != besides:
            raise Refusal(
                "FIELD_ALREADY_EXISTS", f"the table has a column '{other.name}'", next_step="choose another name"
            )


def _inside(kind: DataType) -> tuple[Field, ...] | None:
    """The fields of a type: those of a ROW, also in an ARRAY or MAP."""
    match kind:
        case RowType(fields=fields):
            return fields
        case ArrayType(element=element):
            return (Field(-1, "element", element),)
        case MapType(key=key, value=value):
            return (Field(-1, "key", key), Field(-1, "value", value))
        case _:
            return None


def _drop_partitions(run: Run, table: Table, action: DropPartitions, about: Mapping[str, Any]) -> None:
    """One commit. A partition that is not there is an error, unless IF EXISTS is said."""
    if not table.schema.partition_keys:
        raise InvalidArgument("the table has no partitions", next_step="DELETE FROM deletes rows by a condition")
    codec = codec_of(table.schema)
    zone = session_zone(run.session)
    names = {f.name.lower(): f.name for f in codec.fields}
    specs = [
        codec.parse_spec({names.get(k.lower(), k): v for k, v in spec.items()}, zone) for spec in action.partitions
    ]
    known = partitions_of(table)
    there = [spec for spec in specs if any(codec.matches(values, spec) for values in known)]
    if len(there) < len(specs) and not action.if_exists:
        missing = next(spec for spec in specs if spec not in there)
        raise Refusal(
            "PARTITIONS_NOT_FOUND",
            f"there is no partition {codec.spec_path(missing)!r}",
            next_step="add IF EXISTS, or see SHOW PARTITIONS",
        )
    if there:
        table.drop_partitions(there, **about)


def _told_again(run: Run, name: Name, options: Mapping[str, str]) -> None:
    """Let Spark's catalog ask a table for its columns again: its name is dropped and made, the table is not touched."""
    text = ".".join(quoted_name(part) for part in name.parts)
    comment = comment_of(run.sparks, text)
    run.sparks(f"DROP TABLE {text}")
    try:
        register_name(run.sparks, text, options, comment)
    except Exception as error:
        raise Unsupported(
            f"the table was altered, and its name {text} was dropped from Spark's catalog and could not be made again: {error}",
            next_step=f"run CREATE TABLE {text} USING lakelatch LOCATION '{options['path']}'",
        ) from error
