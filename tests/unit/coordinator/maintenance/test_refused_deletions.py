"""H10: a store that refuses to delete an object, whichever it is, stops nothing: all else goes, nothing needed does, it tells.

A hold, a lease, a retention policy or a permission does that, for a while or for ever.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.elsewhere import delete_located
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused, past_refusals
from lakelatch.coordinator.branches.claim import claim_key
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance import orphans
from lakelatch.coordinator.maintenance.drop import apply_drop, plan_drop
from lakelatch.coordinator.maintenance.expiry import automatic
from lakelatch.coordinator.maintenance.expiry.automatic import AfterCommit
from lakelatch.coordinator.maintenance.expiry.expire import expire
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, StoreUnavailable
from lakelatch.core.options import TableOptions
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("k", pa.int64())])
FAR = 1 << 50


class Holding(MemoryStore):
    """A store that for ever refuses to delete one key: the one that it is asked for after so many others."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.place: int | None = None
        self.held: set[str] = set()
        self.asked: dict[str, None] = {}

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        for key in keys:
            if self.place is not None and self.place <= len(self.asked) and self._is_there(key):
                self.held, self.place = {key}, None
            self.asked[key] = None
        super().delete_many([key for key in keys if key not in self.held])
        if refused := self.held.intersection(keys):
            raise DeletionRefused(dict.fromkeys(sorted(refused), "a legal hold"))

    def _is_there(self, key: str) -> bool:
        return any(info.key == key for info in self.list(key.rpartition("/")[0] + "/" if "/" in key else ""))


def rows(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def made() -> tuple[Table, Holding]:
    """Overwrites, a tag of an expired state, a branch with a commit of its own, an old orphan."""
    store = Holding(f"memory://holding-{next(COUNTER)}/t")
    table = ll.create_table(store.url, SCHEMA)
    for n in range(4):
        table.overwrite(rows(n))
        if n == 1:
            table.create_tag("old")
            table.create_branch("side", tag="old")
            table.branch("side").overwrite(rows(100))
    table.committer.settle()
    for n in range(3):
        store.put(f"bucket-0/data-left-{n}.parquet", b"left")
    return Table(store, table.schema), store


def expired(table: Table) -> Any:
    retention = Retention.of(table.schema.options, 2**62, retain_max=1, retain_min=1)
    return expire(table.timeline, table.schema, retention)


def clean(table: Table) -> Any:
    return orphans.apply_clean(orphans.plan_orphans(table.timeline, table.schema, FAR))


def drop(table: Table) -> Any:
    return apply_drop(table.store, plan_drop(table.store, ""))


DELETIONS: dict[str, Callable[[Table], Any]] = {
    "expire": expired,
    "clean": clean,
    "tag": lambda table: table.delete_tag("old"),
    "branch": lambda table: table.delete_branch("side"),
    "drop": drop,
}


@pytest.mark.parametrize("name", DELETIONS)
def test_each_key_in_turn_is_refused(name: str) -> None:
    """The held key stays and is named, all others that were asked for go, main reads as before; once it may, it goes too."""
    refused = 0
    for place in range(200):
        table, store = made()
        store.place = place
        try:
            DELETIONS[name](table)
        except DeletionRefused as told:
            (held,) = store.held
            refused += 1
            assert told.kept == {held: "a legal hold"} and "1 object was not deleted" in told.message
        else:
            assert store.held == set()
            break  # no key is left to refuse
        there = {info.key for info in store.list("")}
        assert there & set(store.asked) == {held}
        again = Table(store, table.schema)
        if name != "drop":
            assert again.to_arrow()["k"].to_pylist() == [3]
            is_root = held.startswith(("snapshot/snapshot-", "branch/"))
            assert is_root or again.verify() == [], held
        store.held = set()
        if name in ("tag", "branch", "drop"):
            try:
                DELETIONS[name](again)
            except InvalidArgument:  # it is gone but for the held file
                clean(again)
        elif held.startswith("snapshot/"):
            DELETIONS[name](again)
        else:
            if name == "expire":  # the cleaning spares what a manifest still names, also as deleted
                again.compact_manifests()
                again.delete_tag("old")
                again.delete_branch("side")
                expired(again)
            clean(again)
        assert held not in {info.key for info in store.list("")}, held
    assert refused >= {"expire": 9, "clean": 3, "tag": 1, "branch": 4, "drop": 20}[name]


def test_what_a_tag_that_stays_needs_stays_too() -> None:
    """Of two tags that are deleted at once the store keeps one: its files are not freed."""
    table, store = made()
    expired(table)
    store.held = {table.paths.tag("old")}
    with pytest.raises(DeletionRefused):
        table.delete_tag("old")
    assert ll.open_table(store.url).at(tag="old").to_arrow()["k"].to_pylist() == [1]


def test_blocks_collect_what_is_refused_and_tell_once() -> None:
    store = Holding("memory://holding-blocks/t")
    for key in "abcdefgh":
        store.put(key, b"x")
    store.held = set("bdefgh")
    with pytest.raises(DeletionRefused, match=r"6 objects were not deleted.*; and 1 more") as told, past_refusals():
        assert delete_located(store, "ab") == {"b"}
        with past_refusals():
            assert delete_located(store, "cd") == {"d"}
        assert delete_located(store, ["e", "f", "g", "h"]) == set("efgh")
    assert set(told.value.kept) == store.held and {info.key for info in store.list("")} == store.held
    with pytest.raises(DeletionRefused, match="b: a legal hold"):
        delete_located(store, ["b"])
    with pytest.raises(ZeroDivisionError), past_refusals():
        delete_located(store, ["b"])
        raise ZeroDivisionError
    with past_refusals():
        pass


def test_places_that_were_not_allowed_are_refused_like_any_other_file() -> None:
    store = MemoryStore("memory://holding-outside/t")
    store.put("a", b"x")
    with pytest.raises(DeletionRefused, match="was not allowed for this table") as told:
        delete_located(store, ["s3://elsewhere/f", "a"])
    assert set(told.value.kept) == {"s3://elsewhere/f"} and not list(store.list(""))


def test_a_local_disk_goes_past_what_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))
    for key in ("a", "b", "c/d"):
        store.put(key, b"x")
    unlink = os.unlink

    def refusing(path: str) -> None:
        if path.endswith("/a"):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        unlink(path)

    monkeypatch.setattr("os.unlink", refusing)
    with pytest.raises(DeletionRefused, match="a: Operation not permitted"):
        store.delete_many(["a", "b", "never", "c/d"])
    assert [info.key for info in store.list("")] == ["a"]


def test_a_branch_that_jobs_keep_writing_to_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    table, store = made()
    remove = store.delete_many

    def written_meanwhile(keys: Iterable[str]) -> None:
        remove(keys)
        store.put(f"branch/branch-side/snapshot/snapshot-{next(COUNTER) + 50}", b"{}")

    monkeypatch.setattr(store, "delete_many", written_meanwhile)
    with pytest.raises(StoreUnavailable, match=r"branch 'side' .* is not deleted yet: jobs keep writing to it"):
        table.delete_branch("side")


class Turns:
    """Automatic expiry of a table that keeps two snapshots, at times of the test's own, in the thread of the test.

    Args:
        held: which files the store never deletes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *held: str) -> None:
        self.store, self.now_s = Holding(f"memory://holding-{next(COUNTER)}/t"), 1000.0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(automatic, "_THREADS", SimpleNamespace(offer=lambda run, turn: False))
        named = {"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}
        ll.create_table(self.store.url, SCHEMA, options={**named, "write-only": "true"})
        for n in range(6):
            self.overwrite(n)
        ll.open_table(self.store.url).alter(ll.set_option("write-only", "false"))
        self.store.held = set(held)
        self.metered = MeteredStore(self.store)
        around = replace(MACHINE, monotonic_s=lambda: self.now_s, wall_s=lambda: 2.0**40)
        timeline = Timeline(self.metered, TablePaths(), first_schema=self.store.get("schema/schema-0"))
        self._after_commit = AfterCommit(timeline, TableOptions(named), around)

    def overwrite(self, value: int) -> None:
        """A commit that begins no expiry by itself."""
        table = ll.open_table(self.store.url)
        table.overwrite(rows(value))
        table.committer.settle()

    def part_ways(self) -> None:
        """From now on the newest snapshot says that it was built on another one than is there."""
        key = TablePaths().snapshot(self.snapshots[-1])
        told = json.loads(self.store.get(key))
        told["properties"]["lakelatch.base"] = f"{self.snapshots[-1] - 1}:another"
        self.store.put(key, json.dumps(told).encode())

    def run(self, pause_s: float = 100.0) -> int:
        """One run after a pause. Returns how many requests it sent."""
        self.now_s += pause_s
        self.metered.reset()
        self.store.asked.clear()
        with self._monkeypatch.context() as patch:
            patch.setattr(automatic, "_THREADS", SimpleNamespace(offer=lambda run, turn: run(turn) is None))
            assert self._after_commit()
        return sum(self.metered.snapshot().by_operation.values())

    @property
    def snapshots(self) -> list[int]:
        return Timeline(self.store, TablePaths()).snapshot_ids()


HELD = "snapshot/snapshot-1"


@pytest.mark.parametrize("apart", [False, True])
def test_a_snapshot_that_is_held_costs_the_next_expiries_nothing(monkeypatch: pytest.MonkeyPatch, apart: bool) -> None:
    """It is not tried again by this process for an hour, and keeps none of the files that its turn was for, also where each root
    is asked, as the history is not one line.
    """
    free, held = Turns(monkeypatch), Turns(monkeypatch, HELD)
    for turns in (free, held):
        if apart:
            turns.part_ways()
        turns.run()
    assert (free.snapshots, held.snapshots) == ([6], [1, 6])
    again = held.run()
    assert again <= free.run() + 4, "the hints, as the ids have a gap, and the file itself"
    assert HELD not in held.store.asked
    for turns in (free, held):
        turns.overwrite(7)
        turns.overwrite(8)
        if apart:
            turns.part_ways()
        turns.run()
    assert (free.snapshots, held.snapshots) == ([8], [1, 8])
    data = [{i.key for i in turns.store.list("bucket-0/")} for turns in (free, held)]
    assert len(data[0]) == len(data[1]) == 1, "the held snapshot keeps no file"
    held.store.held.clear()
    held.run(automatic.TRIED_AGAIN_S)
    assert held.snapshots == [8]


def test_another_snapshot_under_the_name_of_a_held_one_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """H18: the file is known as it was listed, not by its name."""
    turns = Turns(monkeypatch, HELD)
    turns.run()
    turns.store.held.clear()
    data = turns.store.get(HELD)
    turns.store.delete_many([HELD])
    turns.store.put(HELD, data + b" ")
    turns.run()
    assert turns.snapshots == [6], "it has its turn"


def test_a_consumer_that_is_held_does_not_keep_snapshots_from_expiring(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, "consumer/consumer-idle")
    table = ll.open_table(turns.store.url)
    table.alter(ll.set_option("consumer.expiration-time", "1 ms"))
    table.set_consumer("idle", 6)
    time.sleep(0.01)
    turns.run()
    assert turns.snapshots == [6]
    assert "consumer/consumer-idle" in turns.store.asked


def test_a_store_that_deletes_nothing_tells_its_time() -> None:
    """The probe file stays, is told at the end, and nothing that needs the time fails for it."""
    store = Holding(f"memory://holding-{next(COUNTER)}/t")
    store.place = 0
    with pytest.raises(DeletionRefused, match="lakelatch-clock-u"), past_refusals():
        assert orphans.store_clock_ms(store, "u") > 0
    store.held, store.place, store.asked = set(), 0, {}
    assert orphans.store_clock_ms(store, "u") > 0


def test_a_held_schema_of_a_branch_keeps_no_file_of_it() -> None:
    """The branch is being deleted, and what other branches kept for it goes, so that its files can be cleaned."""
    table, store = made()
    expired(table)
    table.create_branch("twin", snapshot=4)
    shared = [info.key for info in store.list("tag/") if "tag-branch-4-" in info.key]
    store.held = {"branch/branch-twin/schema/schema-0"}
    with pytest.raises(DeletionRefused):
        table.delete_branch("twin")
    there = {info.key for info in store.list("")}
    assert shared and there.isdisjoint(shared)
    assert {key for key in there if key.startswith("branch/branch-twin/")} == store.held | {claim_key("twin")}
    store.held = set()
    table.delete_branch("twin")
    assert list(store.list("branch/branch-twin/")) == []
