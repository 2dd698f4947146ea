"""Fixed buckets of append tables, written by both sides: Apache Paimon (Java) finds each row where lakelatch put it (G8)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from figures import NIGHTLY
from interop.agreement import assert_agreed, assert_filters_agree
from interop.domains import ATOMIC, columns, edge_rows
from interop.ledger import Java, Lakelatch, Ledger, append, dynamic, overwrite

import lakelatch as ll
from lakelatch.core.metadata.schema import is_key_type

pytestmark = pytest.mark.java

KEYS = [name for name in ATOMIC if is_key_type(ll.Schema(columns([name])).fields[0].type)]
UNKNOWN_TO_HIVE = [name for name in KEYS if name.startswith(("ts", "tz"))]


def in_buckets(path: Path) -> dict[int, int]:
    """Rows by bucket."""
    found: dict[int, int] = {}
    for entry in ll.open_table(str(path)).entries():
        found[entry.bucket] = found.get(entry.bucket, 0) + entry.file.row_count
    return found


@pytest.mark.parametrize("function", ["default", "hive"])
def test_keys_of_every_type(tmp_path: Path, paimon_java: Any, function: str) -> None:
    """G8: the bucket of every value of every type, and of null, is Java's; it finds each by the pruned bucket.

    By day a third of the types has buckets by Hive's function.
    """
    for name in KEYS:
        if function == "hive" and (name in UNKNOWN_TO_HIVE or not (NIGHTLY or name in KEYS[::3])):
            continue
        path = tmp_path / name
        options = {"bucket": "5", "bucket-key": name, "bucket-function.type": function, "write-only": "true"}
        ll.create_table(str(path), ll.Schema([("id", "INT"), *columns([name])]), options=options)
        rows = [[i, value] for i, value in enumerate([*ATOMIC[name][1], None])]
        ledger = Ledger(path)
        ledger.change(Lakelatch(), append(rows))
        ours = in_buckets(path)
        ledger.change(Java(paimon_java), append(rows))
        assert in_buckets(path) == {bucket: 2 * count for bucket, count in ours.items()}, name
        filters = [["=", name, rows[0][1]], ["=", name, rows[-2][1]], ["is_null", name]]
        assert_filters_agree(paimon_java, path, ledger.rows, filters)
    assert len(KEYS) > 20


@pytest.mark.parametrize("function", ["default", "mod", "hive"])
def test_both_sides_write_one_table(tmp_path: Path, paimon_java: Any, function: str) -> None:
    """G8, H14: partitions, overwrites, a warm writer; sequence numbers are above those that the other side left."""
    names = ["i64", "st", "d9", "dt"]
    options = {"bucket": "3", "bucket-key": "i64", "bucket-function.type": function, "write-only": "true"}
    ll.create_table(str(tmp_path / "t"), ll.Schema(columns(names)), partition_by="dt", options=options)
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(warm=True), Java(paimon_java)
    rows = [row for row in edge_rows(names) if row[3] in ("1969-12-31", "2024-02-29", None)]
    for writer in (ours, java, ours, ours, java, ours):
        ledger.change(writer, append(rows))
    entries = ll.open_table(str(ledger.path)).entries()
    for place in {(e.partition, e.bucket) for e in entries}:
        files = sorted(
            (e.file for e in entries if (e.partition, e.bucket) == place), key=lambda f: f.min_sequence_number
        )
        assert files[0].min_sequence_number == 0
        for before, after in pairwise(files):
            assert after.min_sequence_number > before.max_sequence_number
    ledger.change(ours, overwrite(rows[:1], {"dt": rows[0][3]}))
    ledger.change(java, dynamic(rows[1:3]))
    ledger.change(ours, append(rows))
    ledger.change(java, append(rows))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    filters = [["=", "i64", v] for v in (0, -1, 2**63 - 1)] + [["in", "i64", [0, 1]], ["is_null", "i64"]]
    opened, there = assert_filters_agree(paimon_java, ledger.path, ledger.rows, filters)
    assert opened < there


def test_a_rescaled_table(tmp_path: Path, paimon_java: Any) -> None:
    """G8: partitions of two bucket counts; Java prunes each by its own, and refuses what lakelatch refuses."""
    options = {"bucket": "2", "bucket-key": "i32", "write-only": "true"}
    table = ll.create_table(str(tmp_path / "t"), ll.Schema(columns(["i32", "dt"])), partition_by="dt", options=options)
    first, second = [[[i, day] for i in range(20)] for day in ("2024-01-01", "2024-01-02")]
    ledger = Ledger(tmp_path / "t")
    ledger.change(Lakelatch(), append(first))
    table.alter(ll.set_option("bucket", "7"))
    with pytest.raises(ll.CommitConflict, match="2 buckets"):
        ledger.change(Lakelatch(), append(first[:1]))
    with pytest.raises(Exception, match="bucket"):
        paimon_java.commit_rows(ledger.path, first[:1])
    ledger.change(Lakelatch(), append(second))
    ledger.change(Java(paimon_java), append(second))
    filters = [["=", "i32", i] for i in range(20)]
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    opened, there = assert_filters_agree(paimon_java, ledger.path, ledger.rows, filters)
    ledger.change(Lakelatch(), overwrite(first, {"dt": "2024-01-01"}))
    ledger.change(Java(paimon_java), append(first))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    assert_filters_agree(paimon_java, ledger.path, ledger.rows, filters[:5])
    assert opened < there
