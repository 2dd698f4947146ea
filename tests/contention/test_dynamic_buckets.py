"""Processes upsert the same keys into dynamic buckets, and across partitions: no row lost, no error, no key twice (H12, H14)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contention.contended import Contention
from contention.test_contention import kill_two_and_restart
from figures import NIGHTLY
from report import tell

import lakelatch as ll
from lakelatch.core.metadata.hash_index import decode_hashes
from lakelatch.core.places import FileKeys

KEYS, ROWS, PARTITIONS = (1000, 60, 3) if NIGHTLY else (60, 12, 2)
WRITERS, COMMITS = (8, 25) if NIGHTLY else (3, 4)
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int32()), ("v", pa.string())])


def rows_of(name: str, number: int) -> pa.Table:
    """The rows of one commit; the same for every try."""
    dice = random.Random(f"{name} {number}")
    keys = dice.sample(range(KEYS), ROWS)
    return pa.table([[dice.randrange(PARTITIONS) for _ in keys], keys, [f"{name} {number}"] * ROWS], schema=SCHEMA)


def upsert(table: ll.Table, name: str, number: int) -> ll.Receipt:
    return table.upsert(rows_of(name, number), commit_user=name, identifier=number)


class Upserts(Contention):
    """Writers of one table with a primary key.

    Args:
        key: the primary key.
    """

    schema = SCHEMA

    def __init__(self, folder: Path, url: str, storage_options: dict[str, Any], key: list[str], **table: Any) -> None:
        super().__init__(
            folder, url, storage_options, writers=WRITERS, commits=COMMITS, partition_by=["p"], primary_key=key, **table
        )
        self.key = key
        self.orders = {name: replace(orders, write=upsert) for name, orders in self.orders.items()}

    def audit(self, wall_s: float) -> Any:
        """The number of keys. Each is there once, with the row of an acknowledged write that did not end before another one of it
        began.
        """
        lines = [line | {"writer": name} for name in self.names for line in self.told(name)]
        errors = [
            log for log in (o.log.read_text() for o in self.orders.values()) if "Error" in log or "Traceback" in log
        ]
        assert errors == []
        assert Counter(line["writer"] for line in lines) == dict.fromkeys(self.names, COMMITS)
        writes: dict[tuple[Any, ...], dict[str, tuple[float, float]]] = {}
        for line in lines:
            for row in rows_of(line["writer"], line["number"]).to_pylist():
                times = (line["began"], line["began"] + line["seconds"])
                writes.setdefault(tuple(row[c] for c in self.key), {})[row["v"]] = times
        table = ll.open_table(self.url, storage_options=self.storage_options)
        found = table.to_arrow().to_pylist()
        assert Counter(tuple(row[c] for c in self.key) for row in found) == Counter(writes.keys()), (
            "a key is lost, or twice"
        )
        for row in found:
            _, ended = writes[tuple(row[c] for c in self.key)][row["v"]]
            later = [v for v, (began, _) in writes[tuple(row[c] for c in self.key)].items() if began > ended]
            assert not later, f"{row} counts although {later} began after it had ended"
        self.check_index(table)
        assert table.verify(data=True) == []
        retries, snapshots = sum(line["retries"] for line in lines), len(table.timeline.snapshot_ids())
        tell(
            f"upserts of {len(found)} keys by {WRITERS} x {COMMITS}: {retries} retries, {snapshots} snapshots, {wall_s:.1f} s"
        )
        return len(found)

    def check_index(self, table: ll.Table) -> None:
        """No hash is in the index of two buckets."""
        snapshot, seen = table.snapshot(), Counter[tuple[bytes, int]]()
        assert snapshot is not None
        for entry in table.timeline.index_entries(snapshot):
            data = table.store.get(FileKeys(table.schema).index(entry))
            hashes = decode_hashes(data, entry.file.row_count, entry.file.file_name)
            assert len(np.unique(hashes)) == len(hashes)
            seen.update((entry.partition, h) for h in hashes.tolist())
        assert set(seen.values()) <= {1}, "a key is in two buckets"


Start = Callable[[Upserts], Any]


@pytest.mark.parametrize("key", [["p", "k"], ["k"]], ids=["dynamic buckets", "across partitions"])
@pytest.mark.parametrize("start", [Upserts.run, kill_two_and_restart] if NIGHTLY else [Upserts.run])
@pytest.mark.parametrize("write_only", [False, True] if NIGHTLY else [True])
def test_many_processes_upsert_the_same_keys(tmp_path: Path, key: list[str], start: Start, write_only: bool) -> None:
    """Buckets are so small that jobs often choose different ones for the same new key."""
    folder = tmp_path / "writers"
    folder.mkdir()
    options = {"dynamic-bucket.target-row-num": str(KEYS // 12), "write-only": str(write_only).lower()}
    keys = start(Upserts(folder, str(tmp_path / "table"), {}, key, options=options))
    assert keys > KEYS // 2, "too few keys to prove anything; `audit` compares them with what each job was told"
