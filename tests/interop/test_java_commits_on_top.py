"""lakelatch and Apache Paimon (Java 1.4.2) take turns on one table: each reads every snapshot of the other's (G8).

Guards G3 (identity across foreign snapshots), G6, G7 (maintenance by Java), H6 (names that a rollback freed), H13.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import assert_agreed, assert_filters_agree, our_rows
from interop.domains import EVERY, columns, edge_rows
from interop.histories import BUSY_MANIFESTS
from interop.ledger import (
    COMPACT,
    COMPACT_MANIFESTS,
    TRUNCATE,
    Change,
    Java,
    Lakelatch,
    Ledger,
    append,
    drop,
    dynamic,
    overwrite,
)
from values import assert_same_rows, decode_rows

import lakelatch as ll
from lakelatch.core.errors import CommitConflict

pytestmark = pytest.mark.java

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING"), ("s", "STRING"), ("t", "TIMESTAMP(9)")]


def row(i: int, partition: str | None = "a") -> list[Any]:
    return [i, partition, f"s{i}" if i % 3 else None, f"2024-01-01T00:00:{i % 60:02d}.{i:09d}"]


def new_table(path: Path, **options: str) -> ll.Table:
    named = BUSY_MANIFESTS | {key.replace("_", "-"): value for key, value in options.items()}
    return ll.create_table(str(path), ll.Schema(COLUMNS), partition_by="p", options=named)


# -------------------------------------------------------------------------------------------------------------- turns


@pytest.mark.parametrize(("creator", "warm"), [("lakelatch", False), ("java", True)])
def test_turns(tmp_path: Path, paimon_java: Any, creator: str, warm: bool) -> None:
    """G8: rounds of every change by either side, on top of the other's; the files of one are deleted by the other."""
    if creator == "java":
        paimon_java.create_table(tmp_path / "t", COLUMNS, partition_keys=["p"])
    else:
        new_table(tmp_path / "t")
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(warm), Java(paimon_java)
    for turn in range(2):
        i = 20 * turn
        ledger.change(ours, append([row(i, "a"), row(i + 1, "b")], [row(i + 2, None)]))
        ledger.change(java, append([row(i + 3, "a"), row(i + 4, "c"), row(i + 5, None)]))
        ledger.change(java, overwrite([row(i + 6, "a")], {"p": "a"}))
        ledger.change(ours, append([row(i + 7, "a")], commit_user="etl", identifier=turn))
        ledger.change(java, COMPACT_MANIFESTS)
        ledger.change(ours, overwrite([row(i + 8, "b")], {"p": "b"}))
        ledger.change(java, append([row(i + 9, "b"), row(i + 10, "a")]))
        ledger.change(java, COMPACT)
        ledger.change(ours, append([row(i + 11, "a")]))
        ledger.change(ours, dynamic([row(i + 12, "c"), row(i + 13, None)]))
        ledger.change(java, dynamic([row(i + 14, "c"), row(i + 15, "d")]))
        ledger.change(ours, drop({"p": "d"}) if turn % 2 else append([row(i + 16, "d")]))
        ledger.change(java, drop({"p": "a"}) if turn % 2 == 0 else append([row(i + 17, "d")]))
    ledger.change(ours, TRUNCATE)
    ledger.change(java, append([row(100)]))
    ledger.change(java, TRUNCATE)
    ledger.change(ours, append([row(101), row(102, None)]))
    ledger.change(java, overwrite([row(103)], {}))
    ledger.change(ours, overwrite([row(104, "z")], {}))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    middle = max(ledger.expected) // 2
    filters = [["=", "p", "a"], [">", "id", 20], ["is_null", "p"], ["starts_with", "s", "s2"], ["is_null", "s"]]
    assert_filters_agree(paimon_java, ledger.path, ledger.expected[middle], filters, snapshot=middle)


def test_every_type_in_turns(tmp_path: Path, paimon_java: Any) -> None:
    """G8: files of both writers, of every type, in one table, compacted by Java into files of its own."""
    names = list(EVERY)
    paimon_java.create_table(tmp_path / "t", columns(names))
    ledger, rows = Ledger(tmp_path / "t"), edge_rows(names)
    for writer in (Lakelatch(), Java(paimon_java)) * 2:
        ledger.change(writer, append(rows))
    ledger.change(Java(paimon_java), COMPACT)
    ledger.change(Lakelatch(), append(rows[:3]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_schemas_that_java_changes(tmp_path: Path, paimon_java: Any) -> None:
    """G8: a writer from before a new column writes on, one whose column was renamed is refused; both read the same."""
    old = new_table(tmp_path / "t")
    old.append(decode_rows([row(1)], old.schema.fields))
    paimon_java.alter(tmp_path / "t", "addColumn", "x", paimon_java.data_type("BIGINT"))
    paimon_java.commit_rows(tmp_path / "t", [[*row(2), 7]])
    old.append(decode_rows([row(3)], old.schema.fields))
    new = ll.open_table(str(tmp_path / "t"))
    new.append(decode_rows([[*row(4), 9]], new.schema.fields))
    assert [s.schema_id for s in new.snapshots()] == [0, 1, 1, 1]
    wanted = [[*row(1), None], [*row(2), 7], [*row(3), None], [*row(4), 9]]
    assert_same_rows(paimon_java.rows(tmp_path / "t"), wanted)
    assert_same_rows(our_rows(new), wanted)
    expected = {1: [row(1)], 2: wanted[:2], 3: wanted[:3], 4: wanted}
    assert_agreed(paimon_java, tmp_path / "t", expected)
    paimon_java.alter(tmp_path / "t", "renameColumn", "s", "text")
    stale = decode_rows([[*row(5), 1]], new.schema.fields)
    with pytest.raises(ll.InvalidArgument, match="no column 's'"):
        new.append(stale)  # its values would be lost
    newest = ll.open_table(str(tmp_path / "t"))
    newest.append(decode_rows([[*row(5), 1]], newest.schema.fields))
    assert newest.schema.names == ("id", "p", "text", "t", "x")
    assert_same_rows(paimon_java.rows(tmp_path / "t"), [*wanted, [*row(5), 1]])
    assert_same_rows(our_rows(newest), [*wanted, [*row(5), 1]])


# ----------------------------------------------------------------------------------------------------------- identity


def test_identity_across_java_snapshots(tmp_path: Path, paimon_java: Any) -> None:
    """G3: what landed is found below any number of Java's snapshots, which carry no memory; so are Java's own."""
    table = new_table(tmp_path / "t")
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(), Java(paimon_java)
    ledger.change(ours, append([row(1)], commit_user="etl", identifier=5))
    for i in range(25):
        ledger.change(java, append([row(10 + i)]))
    data = decode_rows([row(2)], table.schema.fields)
    again = ll.open_table(str(tmp_path / "t")).append(data, commit_user="etl", identifier=5)
    assert (again.replayed, again.snapshot_id) == (True, 1)
    ledger.change(ours, append([row(2)], commit_user="etl", identifier=4))  # in any order
    ledger.change(ours, append([row(3)], commit_user="etl", identifier=6))
    replayed = ll.open_table(str(tmp_path / "t")).append(data, commit_user="java", identifier=25)
    assert (replayed.replayed, replayed.snapshot_id) == (True, 26)
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_java_knows_what_lakelatch_committed(tmp_path: Path, paimon_java: Any) -> None:
    """G3: a Java job that goes on under the same commit user skips what landed, and lands what did not."""
    new_table(tmp_path / "t")
    ledger = Ledger(tmp_path / "t")
    ledger.change(Lakelatch(), append([row(1)], commit_user="etl", identifier=5))
    ledger.change(Java(paimon_java), append([row(2)]))
    assert paimon_java.filter_and_commit(tmp_path / "t", [row(3)], commit_user="etl", identifier=5) == 0
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    assert paimon_java.filter_and_commit(tmp_path / "t", [row(4)], commit_user="etl", identifier=6) == 1
    ledger.expected[3] = [*ledger.rows, row(4)]
    assert_agreed(paimon_java, ledger.path, ledger.expected)


# ---------------------------------------------------------------------------------------------------------- meanwhile


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize(
    ("meanwhile", "survives"),
    [
        (append([row(10, "a")]), {"snapshot"}),
        (append([row(10, "b")]), {"snapshot", "serializable"}),
        (overwrite([row(10, "a")], {"p": "a"}), set()),
        (overwrite([row(10, "b")], {"p": "b"}), {"snapshot", "serializable"}),
        (drop({"p": "a"}), set()),
        (COMPACT, {"snapshot", "serializable"}),
        (COMPACT_MANIFESTS, {"snapshot", "serializable"}),
    ],
    ids=["append here", "append elsewhere", "overwrite here", "overwrite elsewhere", "drop", "compact", "manifests"],
)
def test_java_commits_while_lakelatch_overwrites(
    tmp_path: Path, paimon_java: Any, isolation: Any, meanwhile: Change, survives: set[str]
) -> None:
    """H13: what Java appends stays or is a conflict, never lost; what it compacts is followed."""
    table = new_table(tmp_path / "t")
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(), Java(paimon_java)
    for i in range(3):
        ledger.change(ours, append([row(i, "a"), row(i, "b")]))
    replaced = [r for r in ledger.rows if r[1] == "a"]
    arrow = decode_rows([row(20, "a")], table.schema.fields)
    try:
        with table.transaction(isolation=isolation) as transaction:
            transaction.overwrite(arrow, partition={"p": "a"})
            ledger.change(java, meanwhile)
    except CommitConflict:
        assert isolation not in survives
    else:
        assert isolation in survives
        kept = [r for r in ledger.rows if r not in replaced]
        ledger.expected[max(ledger.expected) + 1] = [*kept, row(20, "a")]
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_an_append_goes_around_java(tmp_path: Path, paimon_java: Any) -> None:
    """G6: a warm writer finds its id taken by Java, and takes the next one."""
    table = new_table(tmp_path / "t")
    ledger, java = Ledger(tmp_path / "t"), Java(paimon_java)
    ledger.change(Lakelatch(), append([row(1)]))
    table.append(decode_rows([row(2)], table.schema.fields))
    ledger.expected[2] = [row(1), row(2)]
    attempts = []
    for change in (append([row(3)]), COMPACT, overwrite([row(4)], {}), COMPACT_MANIFESTS):
        ledger.change(java, change)
        receipt = table.append(decode_rows([row(5)], table.schema.fields))
        attempts.append(receipt.attempts)
        ledger.expected[receipt.snapshot_id] = [*ledger.rows, row(5)]
    assert attempts[0] == 2, "the first is a surprise; later ones are looked for"
    assert_agreed(paimon_java, ledger.path, ledger.expected)


# -------------------------------------------------------------------------------------------------------- maintenance


def test_java_maintains_a_lakelatch_table(tmp_path: Path, paimon_java: Any) -> None:
    """G7, G8: tags, expiry and orphan cleaning by Java leave every snapshot that stays whole; commits go on after each."""
    new_table(tmp_path / "t")
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(), Java(paimon_java)
    for i in range(6):
        ledger.change(ours, append([row(i, "a"), row(i, None)]))
        partition = "a" if i % 2 else None
        ledger.change(ours, overwrite([row(100 + i, partition)], {"p": partition}))
    tagged = max(ledger.expected)
    paimon_java.create_tag(ledger.path, "eod", tagged)
    at_tag = ledger.rows
    for i in range(6):
        ledger.change(ours, overwrite([row(200 + i, "a")], {}))
    paimon_java.expire(ledger.path, keep=4)
    ledger.expected = {i: ledger.expected[i] for i in sorted(ledger.expected)[-4:]}
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    assert_same_rows(our_rows(ll.open_table(str(ledger.path)).at(tag="eod")), at_tag)
    assert_same_rows(paimon_java.rows(ledger.path, tag="eod"), at_tag)
    stray = ledger.path / "p=a" / "bucket-0" / "data-stray-0.parquet"
    stray.write_bytes(b"left by a job that failed")
    removed = paimon_java.remove_orphans(ledger.path)
    assert removed >= 1 and not stray.exists()
    ledger.change(ours, append([row(300)]))
    ledger.change(java, append([row(301)]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    assert_same_rows(our_rows(ll.open_table(str(ledger.path)).at(tag="eod")), at_tag)


def test_java_rolls_back(tmp_path: Path, paimon_java: Any) -> None:
    """H6: Java's rollback frees ids; a writer that opens the table afterwards goes on from where it was rolled back to."""
    new_table(tmp_path / "t")
    ledger, ours = Ledger(tmp_path / "t"), Lakelatch()
    for i in range(5):
        ledger.change(ours, append([row(i)], commit_user="etl", identifier=i))
    paimon_java.roll_back(ledger.path, 3)
    ledger.expected = {i: ledger.expected[i] for i in (1, 2, 3)}
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    ledger.change(ours, append([row(10)], commit_user="etl", identifier=3))
    ledger.change(Java(paimon_java), append([row(11)]))
    ledger.change(ours, append([row(12)], commit_user="etl", identifier=4))
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_java_rolls_back_right_after_a_commit(tmp_path: Path, paimon_java: Any) -> None:
    """H7: the hint of the commit is not the last word, whether it comes before or after the rollback's own."""
    path, moments = tmp_path / "t", random.Random("after a commit")
    table = ll.create_table(str(path), pa.schema([("v", pa.int64())]))
    for number in range(12):
        for value in range(3):
            table.append(pa.table({"v": [value]}))
        begin = table.timeline.snapshot_ids()[-1] - 2
        table.committer.settle()
        table.append(pa.table({"v": [9]}))
        time.sleep(moments.uniform(0.0, 0.004))
        paimon_java.roll_back(path, begin)
        table.committer.settle()
        hint = table.timeline.hint("LATEST")
        assert hint is None or hint <= begin, number
        assert len(paimon_java.rows(path)) == table.timeline.snapshot(begin).total_record_count
        table = ll.open_table(str(path))
