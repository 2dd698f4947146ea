"""Where the golden tables lie, and their filters as lakelatch's predicates.

Owns: the look-up of the folder, and the translation of `[op, column, literal ...]`. Must not know: how tables are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakelatch.core.expressions.tree import And, Comparison, Not, Or, Predicate
from lakelatch.core.rows.types import BINARY_ROOTS, DataType
from lakelatch.core.rows.values import root_of
from lakelatch.tests.given import given
from lakelatch.tests.golden_tables import packed, unpack

_RENAMED = {"<>": "!="}
_SIMPLE = ("=", "<>", "<", "<=", ">", ">=", "starts_with", "is_null", "is_not_null")


def golden_root() -> Path | None:
    """The folder of all golden tables, which `LAKELATCH_GOLDEN` names; None without it."""
    root = given("golden")
    if root is not None and not (root / "index.json").is_file():
        raise FileNotFoundError(f"LAKELATCH_GOLDEN is {root}, where no index.json lies")
    return root


def golden_folder(scratch: Path) -> Path:
    """The folder of all golden tables, else the packed ones, unpacked below `scratch`."""
    root = golden_root()
    if root is None:
        for table_id in packed():
            unpack(table_id, scratch)
    return root or scratch


def golden_predicate(filter_: Sequence[Any], types: dict[str, DataType]) -> Predicate:
    """A filter of `expected.json` as a predicate, not yet bound.

    Args:
        filter_: ``[op, column, literal ...]`` or ``["and" | "or", filter, ...]``.
        types: the table's columns, for literals that JSON has no form for (binary as 0x hex).
    """
    op, *rest = filter_
    if op in ("and", "or"):
        parts = tuple(golden_predicate(f, types) for f in rest)
        return And(parts) if op == "and" else Or(parts)
    column, literals = rest[0], [_literal(v, types[rest[0]]) for v in _flat(rest[1:])]
    if op in _SIMPLE:
        return Comparison(_RENAMED.get(op, op), column, tuple(literals))
    if op == "between":
        return And((Comparison(">=", column, (literals[0],)), Comparison("<=", column, (literals[1],))))
    if op in ("in", "not_in"):
        inside = Comparison("in", column, tuple(literals))
        return inside if op == "in" else Not(inside)
    raise ValueError(f"the golden tables have no filter {op!r}")


def _flat(literals: Sequence[Any]) -> list[Any]:
    """Lists of `in` come as one list or as several literals."""
    return [v for item in literals for v in (item if isinstance(item, list) else [item])]


def _literal(value: Any, data_type: DataType) -> Any:
    if isinstance(value, str) and root_of(data_type) in BINARY_ROOTS and value.startswith("0x"):
        return bytes.fromhex(value[2:])
    return value
