"""Every aggregate function gives what Apache Paimon 2.0.0 gave for the same rows: types, extremes, take-backs, groups, options.

The rows are made from a seed, and what 2.0.0 made of them is recorded (`merge_cases`). tests/interop runs 2.0.0 itself, with
other seeds, where its jar is there.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from merge_cases import (
    ERROR,
    NESTED,
    RECORDED_SEEDS,
    ROWS,
    SKETCHES,
    TIMED,
    VALUES,
    MergeCase,
    merge_cases,
    recorded,
)
from merge_differences import differences
from values import decode_rows, encode_rows

import lakelatch as ll
from lakelatch.core.metadata.schemas.functions import FUNCTIONS
from lakelatch.core.rows.types import parse_type


@pytest.mark.parametrize("seed", RECORDED_SEEDS)
def test_functions_give_what_apache_paimon_gave(seed: int) -> None:
    theirs, count, wrong = recorded(), 0, []
    missing = [case.name for case in merge_cases(seed) if case.name not in theirs]
    assert not missing, (
        f"run tests/interop/test_paimon_2_merges.py as a program beside 2.0.0: not recorded: {missing[:5]}"
    )
    for case in merge_cases(seed):
        wrong += differences(case, theirs[case.name])
        count += len(theirs[case.name])
    assert not wrong, f"{len(wrong)} of {count} differ:\n" + "\n".join(wrong[:20])
    assert count > 2500


@pytest.mark.parametrize("several", [False, True])
def test_one_write_gives_what_many_give(several: bool, tmp_path: Path) -> None:
    """Whole tables: rows of one key are merged when they are written, read and compacted."""
    theirs = recorded()
    for number, case in enumerate(list(merge_cases(0))[::23]):
        fields = ll.Schema(case.columns)
        options = {"bucket": "1", "write-only": "true"} | case.options
        keys = [key for key, row in enumerate(theirs[case.name]) if not row or row[0] != ERROR]
        rows = [(kind, row) for kind, row in case.rows if row[0] in keys]
        table = ll.create_table(str(tmp_path / f"t{number}"), fields, primary_key=["k"], options=options)
        data = decode_rows([row for _, row in rows], fields.fields).append_column("op", pa.array([k for k, _ in rows]))
        seen: Counter[int] = Counter()
        steps = [seen.update([row[0]]) or (seen[row[0]] if several else 1) for _, row in rows]
        for step in range(1, max(steps) + 1):
            table.upsert(data.filter(pc.equal(pa.array(steps), step)), row_kind="op")
        expected = [case.normal(row) for row in theirs[case.name] if row and row[0] != ERROR]
        for compacted in (False, True):
            if compacted:
                table.compact(full=True)
            found = [case.normal(row) for row in encode_rows(table.to_arrow(), fields.fields)]
            assert sorted(found) == expected, (case.name, several, compacted)


@pytest.mark.parametrize(("element", "values"), [("INT", [7, None, 7, None]), ("DECIMAL(9, 2)", ["1.50", "1.50"])])
def test_an_older_list_that_meets_a_null_is_distinct(element: str, values: list[Any]) -> None:
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "v", "fields.v.distinct": "true"}
    options |= {"fields.v.aggregate-function": "collect", "fields.v.ignore-retract": "true"}
    rows: list[tuple[str, list[Any]]] = [("+I", [0, 2, None]), ("+U", [0, 1, values])]
    case = MergeCase("collect", {"type": "ARRAY", "element": element}, options, rows, unordered=True)
    once = [value for number, value in enumerate(values) if value not in values[:number]]
    assert list(differences(case, [[0, 2, once]])) == []


def test_every_function_meets_every_type_that_it_takes() -> None:
    met = {(case.options["fields.v.aggregate-function"], json.dumps(case.type)) for case in merge_cases(0)}
    for name, (takes, _) in FUNCTIONS.items():
        for kind in [*VALUES, *(kind for kind, _ in NESTED.values()), ROWS, TIMED]:
            if name not in SKETCHES and takes(parse_type(kind)):
                assert (name, json.dumps(kind)) in met, (name, kind)
    assert {name for name, _ in met} >= {name for name in FUNCTIONS if "sketch" not in name}
