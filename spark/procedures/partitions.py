"""Procedures about partitions, and how an argument names them: `month=1,day=2;month=2`.

Owns: these procedures, `chosen`, `named_partitions`. Must not know: how rows are rewritten.
Source: format/commit §9, §10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import InvalidArgument, Unsupported
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.places import codec_of
from ...table.compaction.plan import of_partitions
from ..sessions.zones import bound_in
from .procedure import DONE, Call, Rows

_FORMATS = {
    "timestamp_formatter": ("partition.timestamp-formatter", "yyyy-MM-dd"),
    "timestamp_pattern": ("partition.timestamp-pattern", None),
}
"""The option that says the same, and what holds without it."""
_EXPIRY = {
    "partition.expiration-time": "expiration_time",
    "partition.expiration-strategy": "expire_strategy",
    "partition.expiration-max-num": "max_expires",
}


def named_partitions(text: str, schema: TableSchema, call: Call) -> list[dict[str, Any]]:
    """The partitions that a text names: `,` between the columns of one, `;` between two."""
    found = []
    for one in text.split(";"):
        if not one.strip():
            continue
        pairs = [pair.partition("=") for pair in one.split(",")]
        wrong = next((name for name, equals, _ in pairs if not equals or not name.strip()), None)
        if wrong is not None:
            raise InvalidArgument(
                f"partitions => {text!r}: {wrong!r} gives no column a value",
                next_step="write 'month=1,day=2;month=2': a comma between columns, a semicolon between partitions",
            )
        spec = {name.strip(): value.strip() for name, _, value in pairs}
        found.append(codec_of(schema).parse_spec(spec, call.zone))
    if not found:
        raise InvalidArgument(f"partitions => {text!r} names no partition", next_step="leave it out for all of them")
    return found


def chosen(call: Call, schema: TableSchema) -> Predicate | None:
    """The partitions of arguments `where` and `partitions`, of which one may be given."""
    where, names = call.text("where"), call.text("partitions")
    if where is not None and names is not None:
        raise InvalidArgument("where and partitions choose the same thing", next_step="give one of them")
    if names is not None:
        return of_partitions(named_partitions(names, schema, call), schema)
    return bound_in(call.zone, where, schema)


def option_pairs(text: str | None, name: str = "options") -> dict[str, str]:
    """`a=1,b=2` as a dict.

    >>> option_pairs("bucket=2, write-only = true")
    {'bucket': '2', 'write-only': 'true'}
    """
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair.strip()]
    wrong = next((key for key, equals, _ in pairs if not equals or not key.strip()), None)
    if wrong is not None:
        raise InvalidArgument(f"{name} => {text!r}: {wrong!r} has no value", next_step="write 'key=value,key2=value2'")
    return {key.strip(): value.strip() for key, _, value in pairs}


def with_options(call: Call, known: Mapping[str, str]) -> dict[str, Any]:
    """The values of the arguments that options of this call may give, too: `known` names the argument of each option."""
    values = {argument: call.values.get(argument) for argument in known.values()}
    for option, value in option_pairs(call.text("options")).items():
        argument = known.get(option)
        if argument is None:
            raise Unsupported(
                f"options => '{option}={value}': this option cannot be given to one call",
                next_step=f"set it for the table: ALTER TABLE … SET TBLPROPERTIES ('{option}' = '{value}')",
            )
        if values[argument] is not None:
            raise InvalidArgument(f"{argument} and option '{option}' say the same", next_step="give one of them")
        values[argument] = value
    return values


def number(value: Any, name: str) -> int | None:
    """A whole number, also one that an option gave as text."""
    if isinstance(value, str) and not value.lstrip("-").isdigit():
        raise InvalidArgument(f"{name} is {value!r}, which is no number")
    return None if value is None else int(value)


def expire_partitions(call: Call) -> Rows:
    schema = call.table.table.refresh().schema
    for argument, (option, default) in _FORMATS.items():
        wanted, kept = call.text(argument), schema.option_texts.get(option, default)
        if wanted is not None and wanted != kept:
            raise Unsupported(
                f"{argument} => {wanted!r}: the table's option '{option}' is {kept!r}, and holds for every reader of its times",
                next_step=f"ALTER TABLE … SET TBLPROPERTIES ('{option}' = '{wanted}')",
            )
    given = with_options(call, _EXPIRY)
    if given["expiration_time"] is None and schema.option_texts.get("partition.expiration-time") is None:
        raise InvalidArgument("nothing says how old partitions may become", next_step="add expiration_time => '90 d'")
    done = call.table.table.expire_partitions(
        older_than=given["expiration_time"],
        strategy=given["expire_strategy"],
        max_partitions=number(given["max_expires"], "max_expires"),
    )
    if not done.partitions:
        return [("No expired partitions.",)]
    return [(one.partition.replace("/", ", "),) for one in done.partitions]


def mark_partition_done(call: Call) -> Rows:
    table = call.table.table.refresh()
    table.mark_done(named_partitions(call.values["partitions"], table.schema, call))
    return DONE
