"""Tables with tracked rows, written by both sides: ids go on where the other one's snapshot ended (G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import assert_agreed
from interop.ledger import Java, Lakelatch, Ledger, append, dynamic

import lakelatch as ll

pytestmark = pytest.mark.java


def test_row_ids_continue_after_those_of_the_other_side(tmp_path: Path, paimon_java: Any) -> None:
    """G8: `nextRowId`, first row ids and sequence numbers as Java gives them; no id twice, none given again."""
    schema = ll.Schema([("p", "INT"), ("id", "INT")])
    table = ll.create_table(
        str(tmp_path / "t"), schema, partition_by="p", options={"row-tracking.enabled": "true", "write-only": "true"}
    )
    ledger, ours, java = Ledger(tmp_path / "t"), Lakelatch(warm=True), Java(paimon_java)
    count = 0
    for writer in (ours, java, ours, ours, java):
        ledger.change(writer, append([[i % 2, count + i] for i in range(6)]))
        count += 6
        snapshot = table.snapshot()
        assert snapshot is not None and snapshot.next_row_id == count
        new = [e.file for e in table.entries() if (e.file.first_row_id or 0) >= count - 6]
        assert sorted(f.first_row_id or 0 for f in new) == [count - 6, count - 3]
        assert {(f.min_sequence_number, f.max_sequence_number) for f in new} == {(snapshot.id, snapshot.id)}
    ledger.change(ours, dynamic([[0, 100], [0, 101]]))
    assert_agreed(paimon_java, ledger.path, ledger.expected)
    rows = table.to_arrow(columns=["id", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_pylist()
    ids = [row["_ROW_ID"] for row in rows]
    assert len(set(ids)) == len(ids) == 17
    assert {row["id"] for row in rows if row["_ROW_ID"] >= count} == {100, 101}
    assert {row["_SEQUENCE_NUMBER"] for row in rows if row["_ROW_ID"] >= count} == {6}


def test_a_lost_race_gives_other_ids(tmp_path: Path) -> None:
    """A writer with the same base numbers its rows after the winner's."""
    schema = ll.Schema([("id", "INT")])
    first = ll.create_table(str(tmp_path / "t"), schema, options={"row-tracking.enabled": "true"})
    second = ll.open_table(first.url)
    rows = [{"id": i} for i in range(4)]
    batch = pa.Table.from_pylist(rows, first.arrow_schema)
    retries = 0
    for _ in range(3):
        first.append(batch)
        retries += second.append(batch).retries
    assert retries > 0
    assert sorted(e.file.first_row_id or 0 for e in first.entries()) == [0, 4, 8, 12, 16, 20]
