"""Compactions of lakelatch and of Apache Paimon (Java 1.4.2) on one table: the same rows, the same manifests, no row twice (G8).

Guards H12 and H13: whoever compacts second gives up.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import GoldenTable
from interop import pypaimon_env
from interop.agreement import assert_agreed, our_rows
from interop.domains import ATOMIC, EVERY, columns, edge_rows
from interop.ledger import COMPACT, Change, Java, Lakelatch, Ledger, append, overwrite
from values import Row, assert_same_rows, decode_rows

import lakelatch as ll
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.table.compaction import run as compacting

pytestmark = pytest.mark.java


def described(entry: ManifestEntry) -> tuple[Any, ...]:
    """What a manifest says of a file, but for its name, its size and its time."""
    file = entry.file
    return (
        entry.kind,
        entry.partition,
        entry.bucket,
        entry.total_buckets,
        file.row_count,
        file.level,
        (file.min_sequence_number, file.max_sequence_number),
        file.schema_id,
        file.file_source,
        file.delete_row_count,
        file.value_stats,
        file.value_stats_cols,
        (file.min_key, file.max_key, file.key_stats),
        (file.first_row_id, file.write_cols, file.extra_files, file.external_path),
    )


def delta(table: ll.Table) -> list[tuple[Any, ...]]:
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.commit_kind == "COMPACT"
    return sorted(map(described, table.timeline.entries(table.timeline.delta_manifests(snapshot))), key=repr)


def test_manifests_say_what_java_s_say(tmp_path: Path, paimon_java: Any) -> None:
    """Levels, sequence numbers, sources and statistics of the inputs and of the files that replaced them."""
    path = tmp_path / "java"
    paimon_java.create_table(path, [("p", "STRING"), ("id", "INT"), ("s", "STRING")], partition_keys=["p"])
    for i in range(4):
        paimon_java.commit_rows(path, [["a", i, None], ["a", 10 + i, "x" * i], ["b", i, "y"]])
    shutil.copytree(path, tmp_path / "ours")
    assert paimon_java.compact_append_table(path, "java", 1)
    ours = ll.open_table(str(tmp_path / "ours"))
    ours.compact(min_files=2)
    assert delta(ours) == delta(ll.open_table(str(path)))
    theirs, made = ll.open_table(str(path)).snapshot(), ours.snapshot()
    assert theirs is not None and made is not None
    for name in ("commit_kind", "total_record_count", "delta_record_count", "schema_id", "next_row_id"):
        assert getattr(made, name) == getattr(theirs, name), name


def test_manifests_of_tracked_rows_say_what_java_s_say(tmp_path: Path, paimon_java: Any) -> None:
    """Ids and numbers are stored as columns, with statistics; `_WRITE_COLS` names them, and no first row id is given."""
    path, options = tmp_path / "java", {"row-tracking.enabled": "true"}
    paimon_java.create_table(path, [("p", "STRING"), ("id", "INT")], partition_keys=["p"], options=options)
    for i in range(3):
        paimon_java.commit_rows(path, [["a", i], ["b", i], ["a", 10 + i]])
    shutil.copytree(path, tmp_path / "ours")
    assert paimon_java.compact_append_table(path, "java", 1)
    ours, theirs = ll.open_table(str(tmp_path / "ours")), ll.open_table(str(path))
    ours.compact(min_files=2)
    numbers = 6  # those of the oldest file, or in Java of the file that it takes first
    assert [line[:numbers] + line[numbers + 1 :] for line in delta(ours)] == [
        line[:numbers] + line[numbers + 1 :] for line in delta(theirs)
    ]
    made, java_made = ours.snapshot(), theirs.snapshot()
    assert made is not None and java_made is not None and made.next_row_id == java_made.next_row_id == 9


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_tracked_rows_keep_their_ids_through_compactions_of_either(
    tmp_path: Path, paimon_java: Any, file_format: str
) -> None:
    """G8: appends of both, compactions of both on each other's files, a deleted row, a new column: an id stays its row's."""
    path = tmp_path / "t"
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true", "file.format": file_format}
    paimon_java.create_table(path, [("id", "INT")], options=options)
    table, ids = ll.open_table(str(path)), list[int]()

    def append(by_java: bool) -> None:
        rows = list(range(len(ids), len(ids) + 3))
        if by_java:
            paimon_java.commit_rows(path, [[i, *([None] * (len(table.schema.fields) - 1))] for i in rows])
        else:
            table.append(pa.table({"id": pa.array(rows, pa.int32())}))
        ids.extend(rows)

    system = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]

    def tracked() -> list[list[Any]]:
        found = [list(row.values()) for row in ll.open_table(str(path)).to_arrow(columns=system).to_pylist()]
        if file_format != "avro":  # Java cannot read ids from Avro files that do not have them
            assert_same_rows(found, [[row[0], *row[-2:]] for row in paimon_java.tracked_rows(path)])
        return sorted(found)

    for step, compactor in enumerate(("ours", "java", "ours", "java", "ours")):
        append(by_java=step % 2 == 0)
        append(by_java=False)
        if step == 3:
            table.alter(ll.add_column("more", "STRING"))
            table = ll.open_table(str(path))
        before = tracked()
        assert [row[:2] for row in before] == [[i, i] for i in ids]
        if compactor == "ours" or file_format == "avro":
            table.compact(min_files=2)
        else:
            assert paimon_java.compact_append_table(path, "java", step + 1)
        assert len(table.entries()) == 1
        assert tracked() == before
    table.append(pa.table({"id": pa.array([100], pa.int32())}))
    assert tracked()[-1][:2] == [100, len(ids)]
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize("tracking", ["true", "false"])
def test_clustered_files_stay_and_new_ones_are_joined(tmp_path: Path, paimon_java: Any, tracking: str) -> None:
    """G8: files of a level are one sorted run of Java's clustering, which goes on from what lakelatch has joined."""
    path, options = tmp_path / "t", {"clustering.incremental": "true", "clustering.columns": "id"}
    paimon_java.create_table(
        path, [("id", "INT"), ("s", "STRING")], options=options | {"row-tracking.enabled": tracking}
    )
    table, rows = ll.open_table(str(path)), list[Row]()
    for turn in range(2):
        for i in range(3):
            new = [[7 * i % 5, f"{turn}, {i}"], [i, None]]
            rows += new
            table.append(decode_rows(new, table.schema.fields))
        clustered = {e.file.file_name: e.file.level for e in table.entries() if e.file.level}
        assert bool(clustered) == (turn > 0 and tracking == "false")
        table.compact(min_files=2)
        levels = {e.file.file_name: e.file.level for e in table.entries()}
        assert clustered.items() <= levels.items()
        assert list(levels.values()).count(0) == 1
        assert_same_rows(paimon_java.rows(path), rows)
        if tracking == "false":  # Java stores no ids when it clusters
            assert paimon_java.cluster(path, turn + 1)
            assert_same_rows(our_rows(table), rows)


def test_every_type_is_compacted_by_either(tmp_path: Path, paimon_java: Any) -> None:
    """G8: files of both, of every type, compacted by lakelatch, then by Java with newer files, and by lakelatch again."""
    paimon_java.create_table(tmp_path / "t", columns(list(EVERY)))
    ledger, rows = Ledger(tmp_path / "t"), edge_rows(list(EVERY))
    ours, java = Lakelatch(), Java(paimon_java)
    for compactor in (ours, java, ours):
        ledger.change(ours, append(rows))
        ledger.change(java, append(rows[:4]))
        ledger.change(compactor, COMPACT)
        assert len(ll.open_table(str(ledger.path)).entries()) == 1
    ledger.change(java, overwrite(rows[:2], {}))
    assert_agreed(paimon_java, ledger.path, ledger.expected)


def test_pypaimon_reads_what_was_compacted(tmp_path: Path, paimon_java: Any) -> None:
    names = [name for name in ATOMIC if name not in ("ts0", "tz0")]
    paimon_java.create_table(tmp_path / "t", columns(names))
    ledger, rows = Ledger(tmp_path / "t"), edge_rows(names)
    for change in (append(rows), append(rows), COMPACT):
        ledger.change(Lakelatch(), change)
    assert_same_rows(pypaimon_env.rows(tmp_path / "t"), ledger.rows)


@pytest.mark.parametrize("first", ["ours", "java"])
def test_two_compactions_at_once(tmp_path: Path, paimon_java: Any, monkeypatch: Any, first: str) -> None:
    """If lakelatch and Java compact the same files, only one commits. The other gives up, and a concurrent append is kept."""
    path = tmp_path / "t"
    paimon_java.create_table(path, [("id", "INT")])
    ledger = Ledger(path)
    for i in range(4):
        ledger.change(Java(paimon_java), append([[i]]))

    def others(compact: Callable[[], Any]) -> None:
        compact()
        paimon_java.commit_rows(path, [[100]])

    if first == "ours":
        with pytest.raises(Exception, match="Give up committing"):
            paimon_java.compact_append_table(
                path, "java", 9, before_commit=lambda: others(lambda: ll.open_table(str(path)).compact(min_files=2))
            )
    else:
        rewriter_of = compacting.rewriter_of

        def late(*args: Any) -> Any:
            monkeypatch.undo()
            others(lambda: paimon_java.compact_append_table(path, "java", 9))
            return rewriter_of(*args)

        monkeypatch.setattr("lakelatch.table.compaction.run.rewriter_of", late)
        done = ll.open_table(str(path)).compact(min_files=2)
        assert (done.receipts, len(done.given_up)) == ((), 1)
    table = ll.open_table(str(path))
    assert [s.commit_kind for s in table.snapshots()][4:] == ["COMPACT", "APPEND"]
    wanted = [[0], [1], [2], [3], [100]]
    assert_same_rows(our_rows(table), wanted)
    assert_same_rows(paimon_java.rows(path), wanted)
    assert table.verify("all", data=True) == []


def test_deletion_vectors_that_java_wrote_are_applied(golden: Callable[[str], GoldenTable], paimon_java: Any) -> None:
    """G8, H12: rows that are deleted stay deleted, and Java's compaction goes on from there."""
    path = golden("paimon-java-1.4.2/append_dv").path
    table = ll.open_table(str(path))
    before = our_rows(table)
    assert table.timeline.index_entries(table.snapshot())  # type: ignore[arg-type]
    assert table.compact(min_files=2).files_before > 0
    assert_same_rows(our_rows(table), before)
    assert_same_rows(paimon_java.rows(path), before)
    assert table.timeline.index_entries(table.snapshot()) == []  # type: ignore[arg-type]
    ledger = Ledger(path, {s.id: before for s in table.snapshots()})
    ledger.change(Java(paimon_java), append([before[0]]))
    ledger.change(Java(paimon_java), Change("compact"))
    assert_same_rows(our_rows(ll.open_table(str(path))), ledger.rows)
    assert table.verify(data=True) == []
