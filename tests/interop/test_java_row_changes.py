"""Apache Paimon reads every row change of ours, on every kind of table, and both sides go on from each other's results (G8)."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from interop.agreement import our_rows
from row_changes import KINDS, SCHEMA, Case
from values import assert_same_rows

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

pytestmark = pytest.mark.java

_FEW = ("tracked vectors", "buckets with vectors", "evolution", "key in partitions")
CHOSEN = KINDS if os.environ.get("LAKELATCH_NIGHTLY") else _FEW


@pytest.mark.parametrize("name", CHOSEN)
def test_apache_paimon_reads_changed_rows_and_goes_on(name: str, tmp_path: Path, paimon_java: Any) -> None:
    case = Case(Random(f"java/{name}"), KINDS[name], str(tmp_path / "t"), local=True)
    table = case.table
    for _ in range(5):
        try:
            case.change()[1]()
        except InvalidArgument as error:
            assert "two rows of the source" in str(error)
    assert_same_rows(paimon_java.rows(table.url), our_rows(table))
    rows = [[10_000_000 + i, i % 3, "java", i, i, 0.5, None, None] for i in range(6)]
    bucket = paimon_java.dynamic_bucket(table.url) if name == "dynamic buckets" else None
    paimon_java.commit_rows(table.url, rows, bucket=bucket)
    if case.kind.key:
        table.compact(full=True)
    done = table.update("k = 'java' AND a > 2", set={"k": "k || '!'", "m": "a * 1.5"})
    assert done.rows_updated == 3
    if case.kind.deletes:
        assert table.delete(where="k = 'java'").rows_deleted == 3
    assert_same_rows(paimon_java.rows(table.url), our_rows(table))
    assert [str(finding) for finding in table.verify("all", data="deep")] == []
    assert len(SCHEMA) == 8 and ll.is_table(table.url)
