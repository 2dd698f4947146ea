"""The aggregate functions of columns: which there are, the types that each takes, and the options that go with them.

Owns: `function_name`, `check_function`, `check_functions`. Must not know: how values are aggregated.
Source: format/primary-keys §4; format/releases §1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import InvalidArgument, Unsupported
from ...rows.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    RowType,
    sql,
)
from ..schema import TableSchema
from .column_options import in_two_groups, names_of, sequence_groups
from .merge_rules import MergeRules

_UNBOUNDED = 2**31 - 1
_NUMBERS = (*INTEGER_ROOTS, "DECIMAL", "FLOAT", "DOUBLE")
_ORDERED = (*_NUMBERS, *STRING_ROOTS, *BINARY_ROOTS, *TIMESTAMP_ROOTS, "DATE", "TIME")
_Takes = Callable[[DataType], bool]


def _roots(*roots: str) -> _Takes:
    return lambda kind: isinstance(kind, AtomicType) and kind.root in roots


def _any(kind: DataType) -> bool:
    return True


def _rows(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.element, RowType)


def _timed(kind: DataType) -> bool:
    return isinstance(kind, MapType) and isinstance(kind.value, RowType) and len(kind.value.fields) > 1


FUNCTIONS: dict[str, tuple[_Takes, str]] = {
    **dict.fromkeys(("sum", "product"), (_roots(*_NUMBERS), "a number")),
    **dict.fromkeys(("max", "min"), (_roots(*_ORDERED), "a number, text, time or bytes")),
    **dict.fromkeys(("bool_or", "bool_and"), (_roots("BOOLEAN"), "BOOLEAN")),
    **dict.fromkeys(("last_value", "last_non_null_value", "first_value"), (_any, "any type")),
    **dict.fromkeys(("first_non_null_value", "first_not_null_value"), (_any, "any type")),
    "listagg": (_roots("VARCHAR"), "STRING"),
    "collect": (lambda kind: isinstance(kind, ArrayType), "an ARRAY"),
    **dict.fromkeys(("nested_update", "nested_partial_update"), (_rows, "an ARRAY of ROWs")),
    "merge_map": (lambda kind: isinstance(kind, MapType), "a MAP"),
    "merge_map_with_keytime": (_timed, "a MAP whose values are ROWs of at least two fields"),
    **dict.fromkeys(("rbm32", "rbm64", "hll_sketch", "theta_sketch"), (_roots("VARBINARY"), "VARBINARY or BYTES")),
}


def function_name(texts: Mapping[str, str], column: str) -> str | None:
    found = texts.get(f"fields.{column}.aggregate-function") or texts.get("fields.default-aggregate-function")
    return found.strip().lower() if found else None


def check_function(name: str, field: Field, texts: Mapping[str, str]) -> None:
    """Raises Unsupported for an unknown function, InvalidArgument where the column's type or an option does not fit."""
    column = field.name
    if name not in FUNCTIONS:
        raise Unsupported(
            f"column '{column}' of a table with a primary key has function '{name}' (option"
            f" 'fields.{column}.aggregate-function'), which is not supported yet",
            next_step=f"there are {', '.join(FUNCTIONS)}; leave the column out to read such a table",
        )
    takes, kinds = FUNCTIONS[name]
    if not takes(field.type):
        raise InvalidArgument(
            f"column '{column}' is of type {sql(field.type)}: function '{name}' (option 'fields.{column}.aggregate-function')"
            f" takes {kinds}",
            next_step="name another function, or give the column another type",
        )
    _check_parts(name, field, texts)


def _check_parts(name: str, field: Field, texts: Mapping[str, str]) -> None:
    option = f"fields.{field.name}."
    if name in ("nested_update", "nested_partial_update"):
        assert isinstance(field.type, ArrayType) and isinstance(field.type.element, RowType)
        keyed = bool(names_of(texts.get(option + "nested-key", "")))
        for what in ("nested-key", "nested-sequence-field"):
            _check_names(option + what, texts.get(option + what, ""), field.type.element)
        needing = [w for w in ("nested-sequence-field", "nested-key-null-strategy") if option + w in texts]
        if not keyed and (needing or name == "nested_partial_update"):
            by = f"option '{option}{needing[0]}'" if needing else f"column '{field.name}': function '{name}'"
            raise InvalidArgument(f"{by} needs option '{option}nested-key'")
        strategy = texts.get(option + "nested-key-null-strategy", "")
        if strategy.lower() not in ("", "merge", "ignore", "error"):
            raise InvalidArgument(
                f"option '{option}nested-key-null-strategy' is '{strategy}'", next_step="use merge, ignore or error"
            )
        limit = texts.get(option + "count-limit", "1").strip()
        if not limit.isdecimal() or int(limit) > _UNBOUNDED:
            raise InvalidArgument(f"option '{option}count-limit' = {limit!r}: use a whole number up to {_UNBOUNDED}")
    if name == "merge_map_with_keytime":
        assert isinstance(field.type, MapType) and isinstance(field.type.value, RowType)
        _check_names(option + "ts-field", texts.get(option + "ts-field", ""), field.type.value)


def _check_names(option: str, text: str, rows: RowType) -> None:
    known = [part.name for part in rows.fields]
    for name in names_of(text):
        if name not in known:
            raise InvalidArgument(f"option '{option}' = {text}: the rows have {known}")


def check_functions(schema: TableSchema, rules: MergeRules) -> None:
    """Raises InvalidArgument for functions and sequence groups with which Apache Paimon could not open or merge the table."""
    texts = rules.texts
    if rules.engine not in ("aggregation", "partial-update"):
        return
    groups = sequence_groups(texts) if rules.engine == "partial-update" else {}
    if rules.engine == "partial-update":
        _check_groups(schema, rules, groups)
    ordering = {name for sequence in groups for name in sequence}
    for field in schema.fields:
        name = function_name(texts, field.name)
        if name is None or field.name in (*rules.key_names, *rules.sequence_fields, *ordering):
            continue
        check_function(name, field, texts)
        if name == "listagg" and isinstance(field.type, AtomicType) and field.type.length != _UNBOUNDED:
            raise InvalidArgument(
                f"column '{field.name}' is of type {sql(field.type)}: function 'listagg' takes STRING"
            )
        grouped = rules.engine != "partial-update" or any(field.name in members for members in groups.values())
        if not grouped and name != "last_non_null_value":
            raise InvalidArgument(
                f"column '{field.name}' has function '{name}' (option 'fields.{field.name}.aggregate-function'), but no sequence"
                " group",
                next_step=f"set option 'fields.<sequence column>.sequence-group' = {field.name}",
            )
        if rules.is_on("aggregation.remove-record-on-delete") and rules.is_on(f"fields.{field.name}.ignore-retract"):
            raise _conflict("aggregation.remove-record-on-delete", f"fields.{field.name}.ignore-retract")


def _check_groups(schema: TableSchema, rules: MergeRules, groups: Mapping[tuple[str, ...], tuple[str, ...]]) -> None:
    for sequence, ordered in groups.items():
        option = f"fields.{','.join(sequence)}.sequence-group"
        if any(name != name.strip() for name in rules.texts[option].split(",")):
            raise InvalidArgument(f"option '{option}': Apache Paimon takes the blanks for parts of the names")
        for name in (*sequence, *ordered):
            if name not in schema.by_name:
                raise InvalidArgument(f"option '{option}': there is no column '{name}'")
            if name in rules.key_names:
                raise InvalidArgument(f"option '{option}': column '{name}' is part of the primary key")
    if (twice := in_two_groups(groups)) is not None:
        options = [f"fields.{','.join(s)}.sequence-group" for s, ordered in groups.items() if twice in (*s, *ordered)]
        raise InvalidArgument(
            f"options {' and '.join(map(repr, options))}: column '{twice}' is in several sequence groups",
            next_step="let each column be in one group",
        )
    removing = "partial-update.remove-record-on-sequence-group"
    on_delete = "partial-update.remove-record-on-delete"
    for name in names_of(rules.texts.get(removing, "")):
        if not any(name in sequence for sequence in groups):
            raise InvalidArgument(f"option '{removing}': column '{name}' orders no sequence group")
    if rules.is_on(on_delete) and (groups or rules.ignore_delete):
        raise _conflict(on_delete, "sequence-group" if groups else "ignore-delete")
    if removing in rules.texts and rules.ignore_delete:
        raise _conflict(removing, "ignore-delete")


def _conflict(one: str, other: str) -> InvalidArgument:
    return InvalidArgument(f"options '{one}' and '{other}' exclude each other", next_step="remove one of them")
