"""H14: jobs that upsert the same keys at once. Three readers agree: rows merged by lakelatch, rows that it has compacted, and
Apache Paimon (Java 1.4.2).
"""

from __future__ import annotations

import itertools
import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from values import assert_same_rows

import lakelatch as ll
from lakelatch.core.metadata.data_file import ADD
from lakelatch.table.writing.beginning import Beginning

pytestmark = pytest.mark.java
COLUMNS = [("id", "INT NOT NULL"), ("v", "BIGINT"), ("s", "STRING")]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "sequence field": {"sequence.field": "v"},
}
SEEDS = range(40 if NIGHTLY else 1)


def rows(dice: random.Random, turn: int) -> pa.Table:
    ids = dice.sample(range(8), dice.randint(1, 5))
    data = {"id": ids, "v": [10 * turn + i for i in ids], "s": [dice.choice([None, f"turn {turn}"]) for _ in ids]}
    return pa.table(data).cast(
        pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.int64()), ("s", pa.string())])
    )


def together(path: Path, dice: random.Random, turn: int, *, deletes: bool) -> None:
    """Two or three jobs begin, write their rows, and commit in the opposite order. Then files of lost attempts have gone."""
    tables = []
    with ExitStack() as stack:
        for job in range(dice.choice([2, 2, 3])):
            tables.append(ll.open_table(str(path)))
            tx = stack.enter_context(tables[-1].transaction())
            tx.upsert(rows(dice, 10 * turn + job))
            if deletes and dice.random() < 0.5:
                tx.delete(pa.table({"id": pa.array([dice.randrange(8)], pa.int32())}))
    for table in tables:
        table.settle()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_three_readers_agree_on_jobs_that_ran_at_once(
    tmp_path: Path, paimon_java: Any, monkeypatch: pytest.MonkeyPatch, engine: str, seed: int
) -> None:
    """Their clocks tell them apart in half of the turns; in the others their numbers meet, and are given again."""
    dice, path, copy = random.Random(f"{engine} {seed}"), tmp_path / "t", tmp_path / "compacted"
    paimon_java.create_table(
        path, COLUMNS, primary_keys=["id"], options={"bucket": "1", "write-only": "true", **ENGINES[engine]}
    )
    deletes = engine not in ("aggregation", "sequence field")
    for turn in range(4):
        moment = Beginning(1_700_000_000_000 + turn, 0.5)
        with monkeypatch.context() as patched:
            if turn % 2:
                patched.setattr(Beginning, "now", lambda moment=moment: moment)
            together(path, dice, turn, deletes=deletes)
        if turn == 2:
            ll.open_table(str(path)).compact(full=dice.random() < 0.5)
        merged = our_rows(ll.open_table(str(path)))
        assert_same_rows(paimon_java.rows(path), merged)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        ll.open_table(str(copy)).compact(full=True)
        assert_same_rows(our_rows(ll.open_table(str(copy))), merged)
        assert_same_rows(paimon_java.rows(copy), merged)
        assert ll.open_table(str(path)).verify("all") == []
    if engine != "sequence field":
        table = ll.open_table(str(path))
        files = [e.file for n in table.timeline.snapshot_ids() for e in added(table, n)]
        spans = sorted((f.min_sequence_number, f.max_sequence_number) for f in files if f.file_source == 0)
        assert all(one[1] < two[0] for one, two in itertools.pairwise(spans)), "numbers of two jobs meet"


def added(table: Any, snapshot_id: int) -> list[Any]:
    timeline = table.timeline
    return [e for e in timeline.entries(timeline.delta_manifests(timeline.snapshot(snapshot_id))) if e.kind == ADD]


def test_a_table_in_the_order_of_snapshots_beside_java_that_does_not_know_it(tmp_path: Path, paimon_java: Any) -> None:
    """Decision 47: Java 1.4.2 reads what jobs wrote one after the other; of jobs at once it sees the one that began last."""
    path = tmp_path / "t"
    options = {"bucket": "1", "write-only": "true", "sequence.snapshot-ordering": "true"}
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.int64())])
    ll.create_table(str(path), schema, primary_key=["id"], options=options)

    def upsert(value: int) -> pa.Table:
        return pa.table({"id": [1], "v": [value]}).cast(schema)

    ll.open_table(str(path)).append(upsert(1))
    ll.open_table(str(path)).append(upsert(2))
    assert our_rows(ll.open_table(str(path))) == paimon_java.rows(path) == [[1, 2]]
    with ll.open_table(str(path)).transaction() as first:
        first.upsert(upsert(3))
        with ll.open_table(str(path)).transaction() as second:
            second.upsert(upsert(4))
    assert our_rows(ll.open_table(str(path))) == [[1, 3]], "it landed last"
    assert paimon_java.rows(path) == [[1, 4]], "it began last"
    ll.open_table(str(path)).compact(full=True)
    assert our_rows(ll.open_table(str(path))) == paimon_java.rows(path) == [[1, 3]]
