"""What lakelatch makes of the tables of `merge_cases`, and how that differs from what Apache Paimon made of them.

Owns: the comparison, and the faults of 2.0.0 that are not followed. Must not know: where Apache Paimon's rows come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from merge_cases import ERROR, MergeCase
from values import decode_rows, encode_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.types import Field
from lakelatch.table.merging.merge import merge_section

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def differences(case: MergeCase, theirs: list[Any]) -> Iterator[str]:
    """What we make of a table in another way than Apache Paimon, key by key."""
    fields = ll.Schema(case.columns).fields
    schema = new_schema(fields, primary_keys=["k"], options={"bucket": "1"} | case.options)
    rules = merge_rules(schema)
    assert rules is not None
    keys = sorted({row[0] for _, row in case.rows})
    refused = {key for key, row in zip(keys, theirs, strict=True) if row and row[0] == ERROR}
    ours = {row[0]: row for row in merged(rules, schema.fields, case, lambda key: key not in refused)}
    for key, row in zip(keys, theirs, strict=True):
        if key in refused:
            try:
                (found,) = merged(rules, schema.fields, case, {key}.__contains__) or [None]
            except InvalidArgument:
                continue
            if not is_meant(case, row[1]):
                yield f"{case.name}, key {key}: {rows_of(case, key)} give {found}, not {row[1]}"
        elif (None if row is None else case.normal(row)) != ours.get(key):
            yield f"{case.name}, key {key}: {rows_of(case, key)} give {ours.get(key)}, not {row}"


def is_meant(case: MergeCase, error: str) -> bool:
    """Is an error of 2.0.0 one of the faults that docs/format/releases.md names, where we have a value?"""
    return "Non-terminating decimal" in error or ("collect of" in case.name and "NullPointerException" in error)


def merged(
    rules: MergeRules, fields: tuple[Field, ...], case: MergeCase, chosen: Callable[[int], bool]
) -> list[list[Any]]:
    rows = [row for row in case.rows if chosen(row[1][0])]
    table = decode_rows([values for _, values in rows], fields)
    columns: dict[str, Any] = {
        "_SEQUENCE_NUMBER": pa.array(range(len(rows)), pa.int64()),
        "_VALUE_KIND": pa.array([KINDS[kind] for kind, _ in rows], pa.int8()),
        "_LEVEL": pa.array([0] * len(rows), pa.int32()),
    } | {f.name: pa.concat_arrays(table[f.name].chunks or [pa.array([], table[f.name].type)]) for f in fields}
    _, found = merge_section(rules, columns.__getitem__, fields, [f.name for f in fields])
    return [case.normal(row) for row in encode_rows(pa.table(found), fields)]


def rows_of(case: MergeCase, key: int) -> list[Any]:
    return [(kind, *row[1:]) for kind, row in case.rows if row[0] == key]
