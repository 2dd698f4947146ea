"""Random changes of rows, on every kind of table, end in the rows that DuckDB ends in."""

from __future__ import annotations

import os
from random import Random

import duckdb
import pytest
from row_changes import KINDS, Case

from lakelatch.core.errors import InvalidArgument

_TABLES, _CHANGES = (60, 8) if os.environ.get("LAKELATCH_NIGHTLY") else (2, 13)


@pytest.mark.parametrize("name", KINDS)
def test_random_changes_end_in_the_rows_of_duckdb(name: str) -> None:
    done = refused = 0
    for seed in range(_TABLES):
        case = Case(Random(f"{name}/{seed}"), KINDS[name], f"{name.replace(' ', '-')}-{seed}")
        for step in range(_CHANGES):
            sql, change = case.change()
            told = f"{name}, table {seed}, step {step}: {sql}"
            try:
                theirs = None
                case.peer.execute("BEGIN")
                case.peer.execute(sql)
            except duckdb.Error as error:
                theirs = str(error)
            try:
                receipt = change()
            except InvalidArgument as error:
                case.peer.execute("ROLLBACK")
                refused += 1
                assert theirs or "two rows of the source" in str(error), f"{told}\n{error}"
                continue
            assert theirs is None, f"{told}\n{theirs}"
            case.peer.execute("COMMIT")
            assert case.ours() == case.theirs(), f"{told}\n{receipt}"
            done += 1
            if case.random.random() < 0.2:
                case.append()
        assert [str(finding) for finding in case.table.verify()] == []
    assert done > 4 * refused
