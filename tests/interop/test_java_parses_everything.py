"""Every public call that writes metadata is made, and every root that it leaves is parsed by Apache Paimon: by 1.4.2, and by
2.0.0 where its jar is given (decision 87). A new public call is listed here, or the test fails.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interop.java.jvm import VERSION, bundle_jar
from interop.spark_env import connector

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.table.catalog.catalog import Catalog
from lakelatch.table.table import Table

pytestmark = [pytest.mark.java, pytest.mark.given]

ROWS = pa.table(
    {"dt": ["2020-01-01", "2020-01-02"], "k": pa.array([1, 2], pa.int64()), "v": pa.array([1, 2], pa.int64())}
)
KEYS = pa.schema(
    [pa.field("dt", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]
)

READS = {
    "at",
    "branch", "branches", "changes", "consumers", "count", "entries", "explain", "files", "history", "orphans", "partitions",
    "plan", "plan_fast_forward", "plan_rescale", "plan_rollback", "plan_undo", "quarantines", "refresh", "scan", "schemas",
    "settle", "snapshot", "snapshots", "statistics", "system", "system_reader", "system_view", "tags", "to_arrow", "to_batches",
    "to_dataset", "to_duckdb", "to_iceberg", "to_pandas", "to_polars", "to_reader", "verify",
    "is_table", "open_catalog", "open_table", "allow", "col", "lit", "in_zone", "databases", "tables", "url", "url_of",
    "add_column", "drop_column", "move_column", "remove_option", "rename_column", "set_comment", "set_option",
    "update_comment", "update_default", "update_nullability", "update_type",
}  # fmt: skip
"""Calls that write no metadata of a table, and changes that `alter` takes."""
ELSEWHERE = {"export": "plain files", "recover": "what a commit has prepared", "clean": "deletes", "delete_consumer": "deletes",
             "delete_tag": "deletes", "delete_branch": "deletes", "drop_table": "deletes", "drop_database": "deletes",
             "expire_tags": "deletes", "expire_consumers": "deletes", "restore_quarantine": "moves what was cleaned",
             "mark_done": "success files", "create_database": "a folder", "maintain": "calls the others",
             "rename_table": "moves", "rename_branch": "moves", "rename_tag": "moves"}  # fmt: skip
"""Calls that create nothing that the others do not create, and why."""


class World:
    """A table without keys, one with keys, and one with data evolution, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plain = ll.create_table(
            str(folder / "plain"), ROWS.schema, partition_by=["dt"], options={"num-sorted-run.compaction-trigger": "3"}
        )
        self.keyed = ll.create_table(
            str(folder / "keyed"), KEYS, partition_by=["dt"], primary_key=["dt", "k"],
            options={"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup",
                     "changelog.num-retained.max": "100"},
        )  # fmt: skip
        tracked = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        self.tracked = ll.create_table(str(folder / "tracked"), ROWS.schema, options=tracked)
        for table in (self.plain, self.keyed, self.tracked):
            table.append(ROWS, commit_user="etl", identifier=1)

    def branched(self) -> None:
        self.plain.create_branch("b", snapshot=self.newest(self.plain))
        self.plain.branch("b").append(ROWS)
        self.plain.fast_forward("b")

    def newest(self, table: Table) -> int:
        return ll.open_table(table.url).timeline.snapshot_ids()[-1]

    def rescaled(self) -> None:
        self.keyed.alter(ll.set_option("bucket", "2"))
        ll.open_table(self.keyed.url).rescale()

    def updated_columns(self) -> None:
        ids = self.tracked.to_arrow(columns=["_ROW_ID"])
        self.tracked.update_columns(ids.append_column("v", pa.array([20, 30], pa.int64())))

    def migrated(self) -> None:
        (self.folder / "files").mkdir()
        pq.write_table(ROWS, self.folder / "files/a.parquet")
        ll.migrate(str(self.folder / "files"), str(self.folder / "migrated"))

    def cloned(self) -> None:
        self.plain.clone(str(self.folder / "clone"))

    def captured(self) -> None:
        with suppress(ll.LakelatchError):
            self.keyed.apply_changes([])

    def repaired(self) -> None:
        key = "snapshot/snapshot-1"
        self.plain.store.put(key, self.plain.store.get(key).replace(b'"WRITE"', b'"RESCALE"'))
        self.plain.repair(dry_run=False)

    def catalog(self) -> None:
        found = ll.open_catalog(str(self.folder / "lake"))
        found.create_database("db")
        found.create_table("db.t", ROWS.schema)

    def transacted(self) -> None:
        with self.plain.transaction() as tx:
            tx.append(ROWS)

    def expired(self) -> None:
        """As if ten days had passed; changelogs outlive their snapshots."""
        table = ll.open_table(self.keyed.url)
        now_ms = table.snapshots()[-1].time_ms + 10**9
        retention = Retention.of(table.schema.options, now_ms, retain_max=2, retain_min=1)
        apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
        assert table.timeline.changelog_ids()
        self.plain.expire(retain_max=5)

    def followed(self) -> None:
        for _ in self.plain.follow("earliest", wait=0, consumer="follows"):
            pass


CALLS: dict[str, Callable[[World], Any]] = {
    "create_table": lambda w: None,
    "append": lambda w: w.plain.append(ROWS),
    "upsert": lambda w: w.keyed.upsert(ROWS.cast(KEYS)),
    "overwrite": lambda w: w.plain.overwrite(ROWS, dynamic=True),
    "delete": lambda w: w.plain.delete(where="k = 1"),
    "update": lambda w: w.keyed.update(where="k = 2", set={"v": "v + 1"}),
    "merge": lambda w: w.keyed.merge(ROWS.cast(KEYS), "t.k = s.k AND t.dt = s.dt").when_matched_update_all().execute(),
    "update_columns": World.updated_columns,
    "apply_changes": World.captured,
    "transaction": World.transacted,
    "compact": lambda w: [table.compact(full=True) for table in (w.plain, w.keyed)],
    "compact_manifests": lambda w: w.plain.compact_manifests(),
    "optimize": lambda w: w.plain.optimize(by=["k"]),
    "rescale": World.rescaled,
    "rewrite_file_index": lambda w: w.plain.rewrite_file_index(),
    "analyze": lambda w: w.plain.analyze(),
    "alter": lambda w: w.plain.alter(ll.add_column("x", "INT")),
    "create_tag": lambda w: w.plain.create_tag("eod", keep="7 d"),
    "auto_tag": lambda w: w.plain.auto_tag(),
    "create_branch": World.branched,
    "fast_forward": lambda w: None,
    "drop_partitions": lambda w: w.plain.drop_partitions([{"dt": "2020-01-01"}]),
    "undo": lambda w: w.plain.undo(w.newest(w.plain)),
    "rollback": lambda w: w.plain.rollback(snapshot=1),
    "expire_partitions": lambda w: w.plain.expire_partitions(older_than="30 d"),
    "truncate": lambda w: w.plain.truncate(),
    "set_consumer": lambda w: w.plain.set_consumer("reads", 1),
    "follow": World.followed,
    "repair": World.repaired,
    "expire": World.expired,
    "clone": World.cloned,
    "migrate": World.migrated,
    "catalog": World.catalog,
}
"""One call each, in this order."""


def public() -> set[str]:
    methods = {
        name for kind in (Table, Catalog) for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")
    }
    functions = {name for name in ll.__all__ if inspect.isfunction(getattr(ll, name))}
    return methods | functions


def test_every_public_call_is_listed() -> None:
    assert public() - READS - ELSEWHERE.keys() == CALLS.keys() - {"catalog"}


def test_every_root_is_parsed(tmp_path: Path) -> None:
    world = World(tmp_path)
    for name, call in CALLS.items():
        call(world)
        for table in (world.plain, world.keyed, world.tracked):
            table.committer.settle()
            table.refresh()
        assert name
    newer, env = connector(), {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for release, jar in {VERSION: bundle_jar(), **({} if newer is None else {"2.0.0": newer})}.items():
        child = [sys.executable, "-m", "interop.java.parse_child", str(jar), str(tmp_path)]
        done = subprocess.run(child, capture_output=True, text=True, check=False, env=env)
        *broken, last = done.stdout.strip().splitlines() or [done.stderr[-2000:]]
        assert broken == [] and last.startswith("parsed "), (release, broken[:5], last)
        assert int(last.split()[1]) > 60, release
