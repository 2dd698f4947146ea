"""Changes of tables with a primary key that Apache Paimon (Java) writes, compared with its own reads of changes (G8).

A seed gives the same history again; `LAKELATCH_NIGHTLY=1` draws many more.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from figures import NIGHTLY
from values import Row, assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.core.rows.types import Field, string

pytestmark = pytest.mark.java

SEEDS = range(240 if NIGHTLY else 8)
COLUMNS = [("p", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "BIGINT"), ("s", "STRING")]
KIND = Field(0, "_row_kind", string())
PRODUCERS = ["none", "input", "lookup", "full-compaction"]
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
PARTIAL = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
ENGINES: list[dict[str, str]] = [{}, {"sequence.field": "v"}, PARTIAL, SUM]


def changes(table: ll.Table, start: Any, end: Any, **more: Any) -> list[Row]:
    """The changes, each row with its kind in front, as `PaimonJava.rows` gives them."""
    return encode_rows(table.changes(start, end, **more).read_all(), (KIND, *table.schema.fields))


def told_in_order(table: ll.Table, end: int) -> list[Row]:
    """All changes up to a snapshot in their order, rows that go before those that come."""
    told = table.changes(0, end).read_all().to_pylist()
    return [[row["_row_kind"], *(row[name] for name in table.schema.names)] for row in told]


class History:
    """A random table that Java writes.

    Attributes:
        whole: the changes hold whole rows, so that they can be applied one after the other.
    """

    def __init__(self, java: Any, path: Path, seed: int) -> None:
        self.java, self.path, self._rng = java, path, random.Random(f"key changes {seed}")
        self.producer, self.engine = PRODUCERS[seed % 4], ENGINES[seed // 4 % 4]
        self.options = {
            "bucket": str(self._rng.randint(1, 2)),
            "changelog-producer": self.producer,
            "file.format": self._rng.choice(["parquet", "orc", "avro"]),
            "num-sorted-run.compaction-trigger": "3",
            **self.engine,
        }
        if self.producer in ("none", "input") and self._rng.random() < 0.5:
            self.options["write-only"] = "true"
        self.deletes = "aggregation" not in self.engine.values()
        java.create_table(path, COLUMNS, partition_keys=["p"], primary_keys=["p", "id"], options=self.options)
        self._next, self._identifier = 0, 0

    def rows(self, count: int, parts: str = "ab") -> list[Row]:
        """Rows of few keys, none of which is equal to an earlier one."""
        found: list[Row] = []
        for _ in range(count):
            self._next += 1
            found.append(
                [self._rng.choice(parts), self._rng.randint(0, 9), self._next, self._rng.choice([None, "x", "y"])]
            )
        return found

    def step(self) -> None:
        self._identifier += 1
        what = self._rng.choice(["write"] * 6 + ["overwrite", "compact"])
        if what == "compact":
            self.java.compact(self.path, identifier=self._identifier)
        elif what == "overwrite":
            rows = self.rows(self._rng.randint(0, 3), "a")
            dynamic = {"dynamic-partition-overwrite": "false"}
            self.java.commit_rows(
                self.path, rows, identifier=self._identifier, overwrite_partition={"p": "a"}, options=dynamic
            )
        else:
            rows = self.rows(self._rng.randint(1, 6))
            kinds = [self._rng.choice(["+I", "+I", "+U", "-D"] if self.deletes else ["+I", "+U"]) for _ in rows]
            self.java.commit_rows(self.path, rows, identifier=self._identifier, kinds=kinds)


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_are_those_of_java_and_give_every_state(seed: int, tmp_path: Path, paimon_java: Any) -> None:
    """Between ids and between tags as Java's incremental-between, `$audit_log` too. With overwrites, the changes from the
    beginning give the rows that the producer has told of: all of them after a full compaction."""
    history = History(paimon_java, tmp_path / "t", seed)
    print(f"seed {seed}: {history.options}")
    for _ in range(7):
        history.step()
    paimon_java.compact(history.path, identifier=99)
    table = ll.open_table(str(history.path))
    last = max(s.id for s in table.snapshots())
    middle = random.Random(seed).randint(1, last - 1)
    for start, end in ((0, last), (0, middle), (middle, last)):
        options = {"incremental-between": f"{start},{end}"}
        found = changes(table, start, end, overwrites=False)
        assert_same_rows(found, paimon_java.rows(history.path, options=options, with_kind=True), f"{start} to {end}")
        assert_same_rows(found, paimon_java.audit_rows(history.path, options), f"audit log {start} to {end}")
    overwrote = any(s.commit_kind == "OVERWRITE" for s in table.snapshots() if s.id > middle)
    if (
        not history.engine and not overwrote
    ):  # an overwrite begins with lower sequence numbers, which misleads Java 1.4.2
        assert_differences(history, table, middle, last)
    assert_told(history, table, last)


def assert_differences(history: History, table: ll.Table, start: int, end: int) -> None:
    """Between tags: the rows of the later state that differ. Java keeps their stored kinds."""
    history.java.create_tag(history.path, "start", start)
    history.java.create_tag(history.path, "end", end)
    theirs = history.java.rows(history.path, options={"incremental-between": "start,end"}, with_kind=True)
    later = [["+I", *row[1:]] for row in theirs]
    assert_same_rows(changes(table, "start", "end", overwrites=False), later, "between tags")


def assert_told(history: History, table: ll.Table, last: int) -> None:
    """The changes from the beginning, applied one after the other."""
    rows: dict[Any, Row] = {}
    is_strict = history.producer in ("lookup", "full-compaction")
    if not is_strict and history.engine:
        return  # rows as they were written are no rows of the table
    for kind, *values in told_in_order(table, last):
        key = tuple(values[:2])
        if is_strict and kind in ("-U", "-D"):
            assert rows.pop(key) == values, f"{kind} of another row than {values}"
        elif kind in ("-U", "-D"):
            rows.pop(key, None)
        else:
            assert not is_strict or key not in rows, f"{kind} of {key}, which is there"
            rows[key] = values
    assert_same_rows(list(rows.values()), history.java.rows(history.path), f"{history.producer}: all changes")
