"""Every aggregate function gives what Apache Paimon 2.0.0 gave for the same rows: types, extremes, take-backs, groups, options.

The rows are made from a seed, and what 2.0.0 made of them is recorded (`merge_cases`). tests/interop runs 2.0.0 itself, with
other seeds, where its jar is there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from merge_cases import ERROR, RECORDED_SEEDS, merge_cases, recorded
from merge_differences import differences
from values import decode_rows, encode_rows

import lakelatch as ll


@pytest.mark.parametrize("seed", RECORDED_SEEDS)
def test_functions_give_what_apache_paimon_gave(seed: int) -> None:
    theirs, count, wrong = recorded(), 0, []
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
