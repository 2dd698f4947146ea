"""What every aggregate function obeys: however often the rows of a key are merged on their way, the result is one.

The functions are those of `FUNCTIONS`, and the rows those of `merge_cases`: each type that a function takes, extremes, nulls.
Rows that delete, and rows whose sequence is older, are left out: what they give depends on rows that a compaction may have
dropped, as in Apache Paimon (tests/unit/table/merging compares them).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from merge_cases import RECORDED_SEEDS, MergeCase, merge_cases
from values import decode_rows, encode_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.schemas.functions import FUNCTIONS
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.types import parse_type
from lakelatch.table.merging.aggregates import functions
from lakelatch.table.merging.merge import merge_section

STEPS = (1, 2, 3)
ORDINARY: dict[str, list[Any]] = {
    "DOUBLE": [0.5, 1.0, 2.0, 8.0],
    "INT": [1, 2, 3, 5],
    "DECIMAL(18, 4)": ["0.5000", "2.0000", "3.0000"],
}
"""Numbers with exact sums and products, for the functions that take them: of extremes alone a mean is NaN or 0 in any order."""


def test_every_function_is_checked_and_computed() -> None:
    assert set(FUNCTIONS) == set(functions.FUNCTIONS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_that_were_merged_before_give_the_same(function: str) -> None:
    """Compaction stores what it merged as one row. What a function knows beside its value is lost there, such as the count of a
    mean: then the next merge is wrong."""
    cases = [case for seed in RECORDED_SEEDS for case in merge_cases(seed)]
    cases = [case for case in cases if case.options["fields.v.aggregate-function"] == function]
    cases += [ordinary(function, kind) for kind in ORDINARY if FUNCTIONS[function][0](parse_type(kind))]
    wrong = [text for case in cases for text in changed_by_merging_twice(case)]
    assert not wrong, f"{len(wrong)} keys of {len(cases)} tables:\n" + "\n".join(wrong[:20])
    if function not in ("hll_sketch", "theta_sketch"):  # their library may be missing
        assert cases, f"tests/merge_cases.py has no rows for '{function}'"


def ordinary(function: str, kind: str) -> MergeCase:
    """Keys with four or five rows each of ordinary numbers."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
    values = itertools.cycle(ORDINARY[kind])
    rows: list[tuple[str, list[Any]]] = [
        ("+I", [key, None, next(values)]) for key in range(8) for _ in range(4 + key % 2)
    ]
    return MergeCase(f"{function} of ordinary {kind}", kind, options, rows)


def changed_by_merging_twice(case: MergeCase) -> Iterator[str]:
    """The keys whose value is another one if their first rows were merged before the rest came."""
    schema = new_schema(ll.Schema(case.columns).fields, primary_keys=["k"], options={"bucket": "1"} | case.options)
    rules = merge_rules(schema)
    assert rules is not None
    added = [values for kind, values in case.rows if kind in ("+I", "+U")]
    rows = decode_rows([[key, number, value] for number, (key, _, value) in enumerate(added)], schema.fields)
    rows = mergeable(rules, schema, rows)
    expected = by_key(merged(rules, schema, rows), schema)
    for step in STEPS:
        keys = rows["k"].to_pylist()
        early = pa.array([keys[:place].count(key) < step for place, key in enumerate(keys)], pa.bool_())
        late = pa.array([not one for one in early.to_pylist()], pa.bool_())
        first = merged(rules, schema, rows.filter(early))
        found = by_key(merged(rules, schema, pa.concat_tables([first, rows.filter(late)])), schema)
        for key in expected:
            if found.get(key) != expected[key]:
                yield f"{case.name}, key {key}: {expected[key]}; {found.get(key)} if {step} were merged before"


def merged(rules: MergeRules, schema: TableSchema, rows: pa.Table) -> pa.Table:
    """What is left of rows that add, in the order in which they were written."""
    columns: dict[str, Any] = {
        "_SEQUENCE_NUMBER": pa.array(range(rows.num_rows), pa.int64()),
        "_VALUE_KIND": pa.array([0] * rows.num_rows, pa.int8()),
        "_LEVEL": pa.array([0] * rows.num_rows, pa.int32()),
    } | {name: pa.concat_arrays(rows[name].chunks or [pa.array([], rows[name].type)]) for name in rows.column_names}
    _, found = merge_section(rules, columns.__getitem__, schema.fields, rows.column_names)
    return pa.table([found[name] for name in rows.column_names], schema=rows.schema)


def mergeable(rules: MergeRules, schema: TableSchema, rows: pa.Table) -> pa.Table:
    """The rows of keys that can be merged: there are sums that do not fit."""
    try:
        merged(rules, schema, rows)
        return rows
    except InvalidArgument:
        keys = sorted(set(rows["k"].to_pylist()))
        half = keys[: len(keys) // 2]
        if not half:
            return rows.slice(0, 0)
        is_in = [key in half for key in rows["k"].to_pylist()]
        parts = (rows.filter(pa.array(chosen)) for chosen in (is_in, [not one for one in is_in]))
        return pa.concat_tables([mergeable(rules, schema, part) for part in parts])


def by_key(rows: pa.Table, schema: TableSchema) -> dict[int, str]:
    """Each key's value, lists without their order: that of some is the order of a hash map."""
    found = {}
    for key, _, value in encode_rows(rows, schema.fields):
        is_list = isinstance(value, list)
        found[key] = json.dumps(sorted(value, key=json.dumps) if is_list else value)
    return found
