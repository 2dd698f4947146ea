"""Changelogs that outlive their snapshots: what is kept, what can still be read, and what goes when they expire themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.maintenance.expiry.expire import ExpiryPlan, expire, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention, expirable_changelogs
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.core.errors import InvalidArgument, StoreUnavailable
from lakelatch.table.table import Table

NUMBERS = itertools.count()
NEVER_MS = 2**62
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
NUMBERS_KEPT = ("changelog.num-retained.min", "changelog.num-retained.max")
LONG = {**dict.fromkeys(NUMBERS_KEPT, "100"), "commit.min-retry-wait": "1 ms"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "rows without keys": ([], {}),
    "keys without changelog files": (["k"], {"bucket": "1"}),
    "changelog of the input": (["k"], {"bucket": "1", "changelog-producer": "input"}),
    "changelog by lookup": (["k"], {"bucket": "1", "changelog-producer": "lookup"}),
}


def rows(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}).cast(SCHEMA)


def lived(kind: str, **more: str) -> Table:
    """Six commits and a compaction in the middle."""
    primary_key, options = KINDS[kind]
    url = f"memory://changelogs-{next(NUMBERS)}/t"
    table = ll.create_table(url, SCHEMA, primary_key=primary_key, options={**LONG, **options, **more})
    for number in range(3):
        table.append(rows("a", number, number + 1))
    table.compact(full=True, **({} if primary_key else {"min_files": 2}))
    for number in range(3, 6):
        table.append(rows("b", number, number + 1))
    table.committer.settle()
    return table


def keep_changelogs(table: Table, number: int | None) -> None:
    """Keep so many snapshots' changes, or as many as snapshots."""
    table.alter(*(ll.remove_option(n) if number is None else ll.set_option(n, str(number)) for n in NUMBERS_KEPT))


def keys(table: Table, prefix: str = "") -> set[str]:
    return {info.key for info in table.store.list(prefix)}


def run(table: Table, keep: int, **arguments: Any) -> ExpiryPlan:
    """An expiry long after everything happened, as a table opened just now sees it."""
    again = Table(table.store, table.timeline.latest_schema())
    retention = Retention.of(again.schema.options, NEVER_MS, retain_max=keep, retain_min=keep, **arguments)
    return expire(again.timeline, again.schema, retention)


def told(table: Table, start: int, end: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Table(table.store, table.schema).changes(start=start, end=end).read_all().to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_changes_outlive_their_snapshots(kind: str) -> None:
    """Every change that could be read can still be read, and every state that stays."""
    table = lived(kind)
    ids = table.timeline.snapshot_ids()
    wanted, state = told(table, 0, ids[-1]), table.to_arrow().sort_by("k")
    done = run(table, keep=2)
    assert done.snapshot_ids == tuple(ids[:-2]) and done.saved and done.changelogs.ids == ()
    assert table.timeline.snapshot_ids() == ids[-2:] and table.timeline.changelog_ids() == ids[:-2]
    assert table.store.get("changelog/LATEST") == str(ids[-3]).encode()
    assert told(table, 0, ids[-1]) == wanted
    again = Table(table.store, table.schema)
    assert again.to_arrow().sort_by("k").equals(state) and again.verify("all", data=True) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_changelog_that_expires_leaves_nothing_over(kind: str) -> None:
    """Step by step, so that each changelog is the oldest one once; what is left can be read."""
    table = lived(kind)
    ids = table.timeline.snapshot_ids()
    run(table, keep=1)
    wanted = {start: told(table, start, ids[-1]) for start in range(ids[-1])}
    for kept in range(len(ids) - 1, 1, -1):
        keep_changelogs(table, kept)
        done = run(table, keep=1)
        left = table.timeline.changelog_ids()
        assert left == ids[-kept:-1] and done.changelogs.ids == (ids[-kept - 1],)
        assert table.store.get("changelog/EARLIEST") == str(left[0]).encode()
        assert told(table, left[0] - 1, ids[-1]) == wanted[left[0] - 1]
        with pytest.raises(InvalidArgument, match=f"oldest snapshot is {left[0]}"):
            told(table, left[0] - 2, ids[-1])
        again = Table(table.store, table.schema)
        assert again.verify("all", data=True) == []
    unneeded = plan_orphans(again.timeline, again.schema, NEVER_MS).files
    assert unneeded == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_whose_deletion_is_refused_holds_back_its_own_changelog_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, held, delete = lived(kind), "snapshot/snapshot-1", MemoryStore.delete_many

    def refuses(store: MemoryStore, keys: Iterable[str]) -> None:
        asked = list(keys)
        delete(store, [key for key in asked if key != held])
        if held in asked:
            raise DeletionRefused({held: "a legal hold"})

    ids = table.timeline.snapshot_ids()
    wanted = told(table, ids[-4], ids[-1])
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "delete_many", refuses)
        with pytest.raises(DeletionRefused):
            run(table, keep=1)
        assert table.timeline.changelog_ids() == ids[:-1]
        keep_changelogs(table, 4)
        with pytest.raises(DeletionRefused):
            run(table, keep=1)
        assert table.timeline.changelog_ids() == [1, *ids[-4:-1]]
        assert told(table, ids[-4], ids[-1]) == wanted
    run(table, keep=1)
    assert table.timeline.changelog_ids() == ids[-4:-1] and table.timeline.snapshot_ids() == ids[-1:]
    assert told(table, ids[-4], ids[-1]) == wanted
    again = Table(table.store, table.timeline.latest_schema())
    assert plan_orphans(again.timeline, again.schema, NEVER_MS).files == ()


@pytest.mark.parametrize("kind", ["keys without changelog files", "changelog of the input"])
def test_tags_and_branches_keep_what_a_changelog_no_longer_needs(kind: str) -> None:
    """A tag keeps its state; the changelog of its snapshot goes, as Apache Paimon's expiry has it."""
    table = lived(kind)
    for target in ("tag/tag-eod", "branch/branch-dev/snapshot/snapshot-3"):
        table.store.put(target, table.store.get("snapshot/snapshot-3"))
    table.store.put("branch/branch-dev/schema/schema-0", table.store.get("schema/schema-0"))
    wanted = table.at(snapshot=3).to_arrow().sort_by("k")
    run(table, keep=1)
    keep_changelogs(table, 2)
    assert run(table, keep=1).changelogs.ids
    again = Table(table.store, table.timeline.latest_schema())
    assert again.at(tag="eod").to_arrow().sort_by("k").equals(wanted)
    assert again.branch("dev").to_arrow().sort_by("k").equals(wanted)
    assert again.verify("all", data=True) == []


@pytest.mark.parametrize(("changelog_only", "goes"), [("false", (1,)), ("true", (1, 2, 3, 4, 5, 6))])
def test_a_consumer_may_hold_back_changelogs_only(changelog_only: str, goes: tuple[int, ...]) -> None:
    """`consumer.changelog-only`: the snapshots go, and their changes stay for the consumer."""
    table = lived("changelog of the input", **{"consumer.changelog-only": changelog_only})
    table.set_consumer("etl", 2)
    wanted = told(table, 1, 7)
    assert run(table, keep=1).snapshot_ids == goes
    keep_changelogs(table, 2)
    done = run(table, keep=1)
    if changelog_only == "true":
        assert done.changelogs.ids == (1,) and table.timeline.changelog_ids()[0] == 2
    assert told(table, 1, 7) == wanted


def test_changelogs_go_with_their_snapshots_again_once_the_option_is_gone() -> None:
    """Those that exist stay where they are, and hold what they name."""
    table = lived("keys without changelog files")
    run(table, keep=4)
    wanted = told(table, 0, 7)
    keep_changelogs(table, None)
    assert run(table, keep=2).snapshot_ids == (4, 5)
    assert table.timeline.changelog_ids() == [1, 2, 3]
    assert told(table, 5, 7) == [row for row in wanted if row["_snapshot_id"] > 5]
    assert Table(table.store, table.schema).verify("all", data=True) == []
    named = {m.file_name for i in (1, 2, 3) for m in table.timeline.delta_manifests(table.timeline.changelog(i))}
    assert {f"manifest/{name}" for name in named} <= keys(table)


class Crashing(MemoryStore):
    """Dies at the n-th change, or at the n-th request."""

    left = 10**9
    counts_reads = False

    def _count(self) -> None:
        if self.left == 0:
            raise StoreUnavailable("cut off")
        self.left -= 1

    def get(self, key: str) -> bytes:
        if self.counts_reads:
            self._count()
        return super().get(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if self.counts_reads:
            self._count()
        return super().list(prefix)

    def put(self, key: str, data: bytes) -> None:
        self._count()
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> Any:
        self._count()
        return super().put_if_absent(key, data)

    def delete_many(self, keys: Any) -> None:
        for key in keys:
            self._count()
            super().delete_many([key])


@pytest.mark.parametrize(
    ("kind", "step"), [("keys without changelog files", 1), ("changelog of the input", 1 if NIGHTLY else 3)]
)
def test_a_run_cut_off_anywhere_is_finished_by_the_next(kind: str, step: int) -> None:
    """Killed at each change of the store, by day at each third: changes can be read at any time; the next run ends the same."""
    table = lived(kind, **dict.fromkeys(NUMBERS_KEPT, "4"))
    space = {key: table.store.get(key) for key in keys(table)}
    ids = table.timeline.snapshot_ids()
    wanted = told(table, ids[-3] - 1, ids[-1])
    run(table, keep=2)
    state = keys(table)
    for changes in itertools.count(step=step):
        store = Crashing(f"memory://changelogs-{next(NUMBERS)}/t")
        for key, value in space.items():
            store.put(key, value)
        again = Table(store, table.schema)
        store.left = changes
        try:
            run(again, keep=2)
        except StoreUnavailable:
            store.left = 10**9
            assert told(again, ids[-3] - 1, ids[-1]) == wanted
            run(again, keep=2)
            assert keys(again) == state, f"after {changes} changes"
        else:
            break
    assert changes > 12


@pytest.mark.parametrize("kept", [None, 4])
def test_a_run_cut_off_at_any_request_is_finished_by_the_next(kept: int | None) -> None:
    """Killed at every request (by day every fourth), reads included, with and without changelogs that stay: the tag reads on."""
    table = lived("keys without changelog files")
    keep_changelogs(table, kept)
    table.store.put("tag/tag-eod", table.store.get("snapshot/snapshot-3"))
    space = {key: table.store.get(key) for key in keys(table)}
    tagged = table.at(tag="eod").to_arrow().sort_by("k")
    run(table, keep=2)
    state = keys(table)
    for requests in itertools.count(step=1 if NIGHTLY else 4):
        store = Crashing(f"memory://changelogs-{next(NUMBERS)}/t")
        for key, value in space.items():
            store.put(key, value)
        again = Table(store, table.schema)
        store.counts_reads, store.left = True, requests
        try:
            run(again, keep=2)
        except StoreUnavailable:
            store.left = 10**9
            run(again, keep=2)
            assert keys(again) == state, f"after {requests} requests"
            assert again.at(tag="eod").to_arrow().sort_by("k").equals(tagged)
        else:
            break
    assert requests > 40


def test_which_changelogs_expire() -> None:
    """The minimum comes before the maximum, the maximum before the time; the newest changelog and consumers come before all."""
    times = {number: 10 * number for number in range(1, 6)}

    def end(
        latest: int = 8, needed: int | None = None, least: int = 1, most: int = 100, until: int = 0, limit: int = 50
    ) -> int | None:
        return expirable_changelogs(sorted(times), latest, times, Retention(least, most, until, 0, limit), needed)

    assert end() is None
    assert end(until=35) == 4
    assert end(until=10**6) == 5, "the newest stays"
    assert end(most=6) == 3 and end(most=1) == 5
    assert end(most=6, limit=1) == 2 and end(most=1, least=7) == 2 and end(most=1, needed=2) == 2
    assert end(most=1, needed=1) is None
    assert expirable_changelogs([], 8, {}, Retention(1, 1, 0, 0, 50), None) is None


def test_a_dry_run_names_what_would_be_kept_and_what_would_go() -> None:
    table = lived("changelog of the input")
    run(table, keep=3)
    retention = Retention.of(table.schema.options, NEVER_MS, retain_max=2, retain_min=2)
    plan = plan_expiry(table.timeline, table.schema, retention)
    assert str(plan).startswith("snapshot 5: 0 data files, ") and "changes are kept" in str(plan)
    assert plan.to_dict()["saved_as_changelogs"] == [5] and plan.to_dict()["changelogs"] == []
