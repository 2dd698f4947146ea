"""Find the buckets that can hold a row that matches a predicate.

Owns: finding the values of the bucket key that a predicate allows. Must not know: statistics, splits.
Source: format/statistics §3 (bucket key: `=`, `IN`, up to 1000 combinations); format/binary-row §4.

A table with postponed buckets (`bucket` = -2) has real ones too.

Invariants: A bucket with a matching row is never skipped. The number of buckets is the file's own `_TOTAL_BUCKETS`, because a
table can be rescaled partition by partition. A file whose key columns had another type when it was written is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

from ...core import options as opt
from ...core.errors import LakelatchError
from ...core.expressions.tree import And, Comparison, Or, Predicate
from ...core.metadata.data_file import NO_BUCKETS, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.rows.bucket import BucketFunction, bucket_of_row
from ...core.rows.types import with_nullable

MAX_COMBINATIONS = 1000


class BucketPruner:
    """Tests files against the values that a predicate, bound to the columns of `schema`, allows for the bucket key."""

    def __init__(self, predicate: Predicate, schema: TableSchema, schema_of: Callable[[int], TableSchema]) -> None:
        self._schema_of = schema_of
        self._fields = [schema.by_name[name] for name in schema.bucket_keys if name in schema.by_name]
        self._types = [f.type for f in self._fields]
        self._keys = _keys(predicate, schema) if schema.bucket != NO_BUCKETS and self._fields else None
        self._function = (
            BucketFunction.parse(schema.options.get(opt.BUCKET_FUNCTION)) if self._keys is not None else None
        )
        self._wanted: dict[int, frozenset[int] | None] = {}
        self._comparable: dict[int, bool] = {}

    def may_match(self, entry: ManifestEntry) -> bool:
        """False only if no row of the file's bucket can match."""
        if self._keys is None or entry.total_buckets < 1 or not self._has_same_key(entry.file.schema_id):
            return True
        if entry.total_buckets not in self._wanted:
            self._wanted[entry.total_buckets] = self._buckets(entry.total_buckets)
        wanted = self._wanted[entry.total_buckets]
        return wanted is None or entry.bucket in wanted

    def _buckets(self, total: int) -> frozenset[int] | None:
        assert self._keys is not None
        assert self._function is not None
        try:
            return frozenset(bucket_of_row(key, self._types, total, self._function) for key in self._keys)
        except (LakelatchError, ValueError, TypeError):
            return None  # a value that this type cannot hold, or a type that the function does not support

    def _has_same_key(self, schema_id: int) -> bool:
        if schema_id not in self._comparable:
            types = {f.id: f.type for f in self._schema_of(schema_id).fields}
            self._comparable[schema_id] = all(
                f.id in types and with_nullable(types[f.id], True) == with_nullable(f.type, True) for f in self._fields
            )
        return self._comparable[schema_id]


def _keys(predicate: Predicate, schema: TableSchema) -> list[tuple[Any, ...]] | None:
    """Every bucket key that a matching row can have; None if they are unknown or too many."""
    if any(name not in schema.by_name for name in schema.bucket_keys):
        return None
    allowed: dict[str, list[Any]] = {}
    for part in predicate.parts if isinstance(predicate, And) else (predicate,):
        found = _values(part)
        if found is not None:
            column, values = found
            known = allowed.get(column)
            allowed[column] = values if known is None else [v for v in known if v in values]
    choices = [allowed.get(name) for name in schema.bucket_keys]
    lists = [c for c in choices if c is not None]
    if len(lists) < len(choices) or prod(map(len, lists)) > MAX_COMBINATIONS:
        return None
    return list(product(*lists))


def _is_zero(value: Any) -> bool:
    """Is it a zero of a FLOAT or DOUBLE, of which a comparison finds both? They lie in different buckets."""
    return isinstance(value, float) and value == 0


def _values(part: Predicate) -> tuple[str, list[Any]] | None:
    """(column, its possible values) if the condition is `=`, IN, IS NULL, or several of these for one column joined by OR."""
    match part:
        case Comparison(op="is_null", column=column, path=()):
            return column, [None]
        case Comparison(op="=" | "in", column=column, literals=literals, path=()):
            values = [v for v in literals if v is not None]
            if any(v != v for v in values):
                return None  # NaN has many bit patterns
            return column, [each for v in values for each in ((-0.0, 0.0) if _is_zero(v) else (v,))]
        case Or(parts=parts) if parts:
            found = [_values(p) for p in parts]
            columns = {f[0] for f in found if f is not None}
            if None in found or len(columns) != 1:
                return None
            return columns.pop(), [v for f in found if f is not None for v in f[1]]
        case _:
            return None
