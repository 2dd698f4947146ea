"""The format's rules for the schema of a table with a primary key.

Owns: `check_keyed`. Must not know: how rows are merged or written. Source: format/schema §1; format/primary-keys §3, §4, §9.
"""

from __future__ import annotations

from ... import options as opt
from ...errors import InvalidArgument
from ...rows.types import STRING_ROOTS, AtomicType
from ..schema import TableSchema
from .functions import check_functions
from .merge_rules import merge_rules
from .record_expiry import record_expiry

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
PRODUCERS = ("none", "input", "lookup", "full-compaction")


def check_keyed(schema: TableSchema) -> None:
    """Refuse combinations with which Apache Paimon could not open or write the table. Raises InvalidArgument."""
    options = schema.options
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer not in PRODUCERS:
        raise InvalidArgument(f"option 'changelog-producer' = {producer!r}: use {', '.join(PRODUCERS)}")
    if not schema.primary_keys:
        if producer != "none":
            raise InvalidArgument(f"option 'changelog-producer' = {producer} needs a primary key")
        return
    rules = merge_rules(schema)
    assert rules is not None
    if rules.engine not in ENGINES:
        raise InvalidArgument(f"option 'merge-engine' = {rules.engine!r}: use {', '.join(ENGINES)}")
    crosses = any(key not in schema.primary_keys for key in schema.partition_keys)
    if rules.engine == "first-row" and producer not in ("none", "lookup"):
        raise InvalidArgument("option 'merge-engine' = first-row takes 'changelog-producer' = none or lookup only")
    if rules.has_vectors and (rules.engine == "first-row" or producer == "full-compaction"):
        raise InvalidArgument(
            "option 'deletion-vectors.enabled' goes with neither 'merge-engine' = first-row nor 'changelog-producer' ="
            " full-compaction"
        )
    _check_sequence(schema, rules.sequence_fields, rules.engine, crosses)
    _check_row_kind(schema)
    check_functions(schema, rules)
    record_expiry(schema)


def _check_sequence(schema: TableSchema, columns: tuple[str, ...], engine: str, crosses: bool) -> None:
    if not columns:
        return
    if len(set(columns)) != len(columns):
        raise InvalidArgument("option 'sequence.field' names a column twice")
    for name in columns:
        if f"fields.{name}.aggregate-function" in schema.option_texts:
            raise InvalidArgument(f"column '{name}' of option 'sequence.field' cannot have an aggregate function")
    if engine == "first-row":
        raise InvalidArgument("option 'sequence.field' does not go with 'merge-engine' = first-row")
    if crosses:
        raise InvalidArgument("option 'sequence.field' needs all partition columns in the primary key")


def _check_row_kind(schema: TableSchema) -> None:
    name = schema.options.get(opt.ROW_KIND_FIELD)
    if not name:
        return
    if name not in schema.by_name:
        raise InvalidArgument(f"option 'rowkind.field': there is no column '{name}'")
    kind = schema.by_name[name].type
    if not isinstance(kind, AtomicType) or kind.root not in STRING_ROOTS:
        raise InvalidArgument(
            f"option 'rowkind.field': column '{name}' is no text", next_step="use a column of type STRING"
        )
