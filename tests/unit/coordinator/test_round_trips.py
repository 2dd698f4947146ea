"""The store requests of each operation, by kind of file: reading again what a cache or an answer already holds is a defect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from changes import written
from fragile import Died, Fragile
from histories import expire as expire_histories
from marked_rows import mark

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore, StoreRequest
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.commit.request import KeyedRows, RepeatableRequest
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.recovery.recover import recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import OutcomeUnknown
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import parse_snapshot
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table
from lakelatch.table.writing.beginning import Beginning
from lakelatch.table.writing.transaction import Transaction
from lakelatch.table.writing.writer import TableWriter

FIELDS = pa.schema([("p", pa.string()), ("v", pa.int64())])
NOON = 2_000_000_000_000
"""A moment, in milliseconds since 1970."""
VERBS = {"put_if_absent": "create", "get_range": "get part of", "delete_many": "delete", "head": "look at"}
KINDS = (
    ("snapshot/snapshot-", "snapshot"),
    ("snapshot/EARLIEST", "EARLIEST"),
    ("snapshot/LATEST", "LATEST"),
    ("snapshot/", "snapshots"),
    ("schema/schema-", "schema"),
    ("schema/", "schemas"),
    ("manifest/manifest-list-", "list"),
    ("manifest/index-manifest-", "index manifest"),
    ("manifest/", "manifest"),
    ("index/", "index"),
    ("tag/", "tags"),
    ("lakelatch/intents/", "intent"),
    ("branch/", "branches"),
    ("consumer/", "consumers"),
    ("statistics/", "statistics"),
)


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": pa.array(values, pa.int64())})


def kind_of(key: str) -> str:
    return next((kind for prefix, kind in KINDS if key.startswith(prefix)), "data" if "bucket-" in key else key)


@dataclass
class World:
    """A table in a store that counts requests, with a hook before the next create of a snapshot."""

    folder: Path
    strikes: Fragile = field(default_factory=Fragile)
    asked: Counter[str] = field(default_factory=Counter)
    sent: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        create = self.strikes.put_if_absent

        def remembered(key: str, data: bytes) -> PutOutcome:
            self.sent[key] = data
            return create(key, data)

        self.strikes.put_if_absent = remembered  # type: ignore[method-assign]
        self.store = MeteredStore(self.strikes, self._count)
        self.others = MeteredStore(self.strikes)

    def _count(self, request: StoreRequest) -> None:
        verb = VERBS.get(request.operation, request.operation)
        self.asked[f"{verb} {kind_of(request.key)}"] += request.requests

    def opened(self, journal: Any = None) -> Table:
        return Table(self.store, self.schema, journal=journal)

    def fill(self, commits: int, **options: str) -> Table:
        """A table with a commit for each number, by a handle that knows it."""
        made = {"commit.min-retry-wait": "1 ms", **options}
        self.schema = new_schema(from_arrow_schema(FIELDS), partition_keys=["p"], options=made)
        self.strikes.put("schema/schema-0", self.schema.to_json())
        table = self.opened()
        for number in range(commits):
            table.append(rows("a", number), commit_user="etl", identifier=number)
        table.committer.settle()
        return table

    def cost_of(self, operation: Callable[[], Any], *tables: Table) -> str:
        """The requests of an operation, including its hint and clean-up: "2 get snapshot, create snapshot"."""
        self.asked.clear()
        operation()
        for table in tables:
            table.committer.settle()
        return ", ".join(f"{count} {what}" if count > 1 else what for what, count in sorted(self.asked.items()))

    def another(self, part: str = "b", times: int = 1) -> None:
        """Another process appends; its requests are not counted."""
        other = Table(self.others, self.schema)
        for _ in range(times):
            other.append(rows(part, 9))
        other.committer.settle()

    def silent(self, number: int, *, lands: bool) -> None:
        """The next creates of a snapshot get no answer; the first of them lands, or none does."""
        key = f"snapshot/snapshot-{number}"

        def unanswered() -> Unknown:
            if lands:
                self.strikes.put(key, self.sent[key])
            return Unknown("no answer")

        self.strikes.before[f"create {key}"] = unanswered


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def beaten(world: World, table: Table, times: int) -> str:
    first = max(table.timeline.snapshot_ids()) + 1
    for number in range(first, first + times):
        world.strikes.before[f"create snapshot/snapshot-{number}"] = world.another
    return world.cost_of(lambda: table.append(rows("c", 1)), table)


def first_append(world: World) -> str:
    table = world.fill(0)
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def warm_append(world: World) -> str:
    table = world.fill(2)
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def warm_append_to_one_bucket(world: World) -> str:
    """The bucket's last number is known from the commit before."""
    table = world.fill(2, bucket="1", **{"bucket-key": "v"})
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def with_a_changelog(table: Table) -> None:
    entries = written(table, rows("a", 1))
    table.committer.commit(
        RepeatableRequest(kind="APPEND", entries=entries, commit_user="etl", keyed=KeyedRows(entries))
    )


def warm_append_with_a_changelog(world: World) -> str:
    """Its manifest and list are written beside the others."""
    table = world.fill(2)
    return world.cost_of(lambda: with_a_changelog(table), table)


def append_with_a_changelog_that_lost_once(world: World) -> str:
    """The changelog's manifest and list are not written again."""
    table = world.fill(2)
    world.strikes.before["create snapshot/snapshot-3"] = world.another
    return world.cost_of(lambda: with_a_changelog(table), table)


def cold_append_to_one_bucket(world: World) -> str:
    world.fill(2, bucket="1", **{"bucket-key": "v"})
    table = world.opened()
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


DYNAMIC = {"bucket": "-1", "primary-key": "p,v", "write-only": "true"}
KEYED = {"bucket": "1", "primary-key": "p,v"}


def warm_upsert(world: World) -> str:
    """Beside the requests of an append, one look at the newest snapshot while the rows are prepared."""
    table = world.fill(2, **KEYED)
    return world.cost_of(lambda: table.upsert(rows("a", 1)), table)


def cold_upsert(world: World) -> str:
    """The commit builds on the snapshot that was looked up for the numbers, and reads no manifest again."""
    world.fill(2, **KEYED)
    table = world.opened()
    return world.cost_of(lambda: table.upsert(rows("a", 1)), table)


def upsert_after_another(world: World) -> str:
    """The look finds the other's snapshot, so that no race is lost."""
    table = world.fill(2, **KEYED)
    world.another("a")
    return world.cost_of(lambda: table.upsert(rows("a", 1)), table)


def upserts_at_once(world: World, moments: tuple[int, int], part: str = "a") -> str:
    """Another job upserts while ours is under way; both look at the same snapshot."""
    table = world.fill(2, **KEYED)
    other = Table(world.others, world.schema)

    def theirs() -> None:
        with patch.object(Beginning, "now", lambda: Beginning(moments[1], 0.5)):
            other.upsert(rows(part, 9))

    world.strikes.before["create snapshot/snapshot-3"] = theirs
    with patch.object(Beginning, "now", lambda: Beginning(moments[0], 0.5)):
        return world.cost_of(lambda: table.upsert(rows("a", 1)), table)


def upsert_beaten_by_an_older_job(world: World) -> str:
    """Its numbers are smaller, so nothing is read but what every lost race reads, and their manifest."""
    return upserts_at_once(world, (NOON + 5, NOON))


def upsert_beaten_by_a_newer_job(world: World) -> str:
    """The changes since our job began are read."""
    return upserts_at_once(world, (NOON, NOON + 5))


def upsert_beaten_by_a_job_with_its_numbers(world: World) -> str:
    """The file is written again, and the first one deleted."""
    return upserts_at_once(world, (NOON, NOON))


def upsert_beaten_in_another_partition(world: World) -> str:
    return upserts_at_once(world, (NOON, NOON), "b")


def warm_upsert_of_known_keys(world: World) -> str:
    """With dynamic buckets: the index that the writer made itself is not read, and stays as it is."""
    table = world.fill(2, **DYNAMIC)
    return world.cost_of(lambda: table.upsert(rows("a", 1)), table)


def warm_upsert_of_new_keys(world: World) -> str:
    """The index file and its manifest are written beside the others."""
    table = world.fill(2, **DYNAMIC)
    return world.cost_of(lambda: table.upsert(rows("a", 77)), table)


def cold_upsert_of_new_keys(world: World) -> str:
    """The index manifest and the index file of the one partition are read before the rows are placed."""
    world.fill(2, **DYNAMIC)
    table = world.opened()
    return world.cost_of(lambda: table.upsert(rows("a", 77)), table)


def cold_append(world: World) -> str:
    world.fill(2)
    table = world.opened()
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def append_after_another(world: World) -> str:
    table = world.fill(2)
    world.another()
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def append_after_five_others(world: World) -> str:
    table = world.fill(2)
    world.another(times=5)
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def append_that_lost_once(world: World) -> str:
    return beaten(world, world.fill(2), 1)


def append_that_lost_twice(world: World) -> str:
    return beaten(world, world.fill(2), 2)


def grouped(world: World, *, carried: bool) -> str:
    """An append loses a race, asks to be carried, and is, or leads itself."""
    table = world.fill(2, **{"commit.group": "auto"})
    world.strikes.before["create snapshot/snapshot-3"] = world.another
    if carried:
        leader = Table(world.others, world.schema)
        leader.committer.meet(3, 0.001)

        def leads() -> None:
            leader.append(rows("b", 8))

        world.strikes.before["create snapshot/snapshot-4"] = leads
    return world.cost_of(lambda: table.append(rows("c", 1)), table)


def warm_append_to_a_table_with_groups(world: World) -> str:
    """It sees nothing of them while it is alone. (In a row of commits it looks around now and then, after the receipt.)"""
    table = world.fill(2, **{"commit.group": "auto"})
    table.committer._knows.crowd.ended_at_s -= 60
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def append_that_leads(world: World) -> str:
    return grouped(world, carried=False)


def append_that_was_carried(world: World) -> str:
    """It reads no manifests, and verifies its carrier with one read."""
    return grouped(world, carried=True)


def append_whose_answer_was_lost(world: World) -> str:
    table = world.fill(2)
    world.silent(3, lands=True)
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def append_whose_send_was_lost(world: World) -> str:
    table = world.fill(2)
    world.silent(3, lands=False)
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def replay(world: World) -> str:
    table = world.fill(4)
    return world.cost_of(lambda: table.append(rows("a", 3), commit_user="etl", identifier=3), table)


def replay_elsewhere(world: World) -> str:
    world.fill(4)
    table = world.opened()
    return world.cost_of(lambda: table.append(rows("a", 3), commit_user="etl", identifier=3), table)


def append_of_a_new_user(world: World) -> str:
    world.fill(4)
    table = world.opened()
    return world.cost_of(lambda: table.append(rows("a", 1), commit_user="new", identifier=1), table)


def append_of_files_that_were_written_before(world: World) -> str:
    """A batch of a stream: what is found when its identity is looked up is what the commit builds on."""
    world.fill(4)
    table = world.opened()
    writer = TableWriter(table.store, table.schema, "task-0", travelling=False)
    writer.write(rows("a", 1))
    messages = writer.finish()

    def commit() -> None:
        identity = {"commit_user": "query", "identifier": 1}
        options: Any = {"isolation": "snapshot", "properties": {}, "written_before": True, **identity}
        with Transaction(table.committer, table.timeline, **options) as tx:
            tx.append_messages(messages)

    return world.cost_of(commit, table)


def append_of_a_new_user_above_foreign_commits(world: World) -> str:
    """Nothing in them records which users committed before, so they are read themselves, as far as needed."""
    world.fill(30)
    for info in [i for i in world.strikes.list("snapshot/") if "snapshot-" in i.key]:
        snapshot = parse_snapshot(world.strikes.get(info.key), info.key)
        world.strikes.put(info.key, replace(snapshot, properties={}).to_json())
    table = world.opened()
    return world.cost_of(lambda: table.append(rows("a", 1), commit_user="new", identifier=1), table)


def second_append_above_foreign_commits(world: World) -> str:
    append_of_a_new_user_above_foreign_commits(world)
    table = world.opened()
    return world.cost_of(lambda: table.append(rows("a", 1), commit_user="newer", identifier=1), table)


def look_up(world: World) -> str:
    committer = world.fill(4).committer
    return world.cost_of(lambda: (committer.lookup("etl", 9), committer.lookup("nobody", 2)))


def look_up_of_an_earlier_commit(world: World) -> str:
    committer = world.fill(4).committer
    return world.cost_of(lambda: committer.lookup("etl", 2))


def overwrite_of_a_partition(world: World) -> str:
    table = world.fill(2)
    return world.cost_of(lambda: table.overwrite(rows("a", 5), partition={"p": "a"}), table)


def dynamic_overwrite(world: World) -> str:
    table = world.fill(2)
    return world.cost_of(lambda: table.overwrite(rows("a", 5), dynamic=True), table)


def overwrite_after_another(world: World) -> str:
    table = world.fill(2)
    world.another()
    return world.cost_of(lambda: table.overwrite(rows("a", 5), partition={"p": "a"}), table)


def overwrite_that_lost_once(world: World) -> str:
    table = world.fill(2)
    world.strikes.before["create snapshot/snapshot-3"] = world.another
    return world.cost_of(lambda: table.overwrite(rows("a", 5), partition={"p": "a"}), table)


def truncate(world: World) -> str:
    table = world.fill(2)
    return world.cost_of(table.truncate, table)


def overwrite_beside_vectors(world: World) -> str:
    table = world.fill(1)
    mark(table, {table.entries()[0].file.file_name: {0}})
    again = world.opened()
    return world.cost_of(lambda: again.overwrite(rows("a", 5), partition={"p": "a"}), again)


def overwrite_beside_vectors_after_another(world: World) -> str:
    """The index manifest is read once: the other commit did not change it."""
    table = world.fill(1)
    mark(table, {table.entries()[0].file.file_name: {0}})
    again = world.opened()
    again.append(rows("a", 1))
    world.another()
    return world.cost_of(lambda: again.overwrite(rows("a", 5), partition={"p": "a"}), again)


def compact(world: World) -> str:
    table = world.fill(5)
    return world.cost_of(lambda: table.compact(min_files=2), table)


def append_that_merges_manifests(world: World) -> str:
    table = world.fill(5, **{"manifest.merge-min-count": "3"})
    return world.cost_of(lambda: table.append(rows("a", 1)), table)


def rollback(world: World) -> str:
    table = world.fill(4)
    return world.cost_of(lambda: table.rollback(snapshot=2), table)


def expire(world: World) -> str:
    world.fill(6)
    return world.cost_of(lambda: expire_histories(world.store))


def clean(world: World) -> str:
    table = world.fill(3)
    return world.cost_of(lambda: table.clean(older_than=datetime.now(timezone.utc) - timedelta(hours=2)))


def alter(world: World) -> str:
    table = world.fill(2)
    return world.cost_of(lambda: table.alter(ll.add_column("w", "INT")))


def alter_of_the_layout(world: World) -> str:
    table = world.fill(0)
    # Two commits in one call: without this pause the first one's hint is skipped where the second lands before it.
    world.strikes.before["create snapshot/snapshot-2"] = table.committer.settle
    return world.cost_of(lambda: table.alter(ll.set_option("bucket", "2"), ll.set_option("bucket-key", "v")))


def explain(world: World) -> str:
    table = world.fill(3)
    return world.cost_of(lambda: (table.explain(), table.explain(("etl", 2))))


def resolve(world: World) -> str:
    table = world.fill(2)
    key = "snapshot/snapshot-3"
    create = world.strikes.put_if_absent
    world.strikes.put_if_absent = (  # type: ignore[method-assign]
        lambda name, data: Unknown("no answer") if name == key else create(name, data)
    )
    with pytest.raises(OutcomeUnknown) as unknown:
        table.append(rows("a", 1))
    world.strikes.put_if_absent = create  # type: ignore[method-assign]
    table.committer.settle()
    return world.cost_of(lambda: unknown.value.resolve(timeout=5), table)


def read(world: World) -> str:
    world.fill(3)
    table = world.opened()
    return world.cost_of(lambda: table.to_arrow(where="v = 1"))


def plan_again(world: World) -> str:
    """What was read of the table is kept: nothing is asked but whether there is something new."""
    world.fill(25)
    table = world.opened()
    table.plan()
    return world.cost_of(table.plan)


def plan_after_another(world: World) -> str:
    """Only what is new is read."""
    world.fill(25)
    table = world.opened()
    table.plan()
    world.another()
    return world.cost_of(table.plan)


def recover(world: World) -> str:
    """A writer died right after its send."""
    world.fill(2)
    journal = FileJournal(world.folder / "journal.jsonl")
    dying = world.opened(journal)
    create = world.strikes.put_if_absent

    def dies(key: str, data: bytes) -> PutOutcome:
        answer = create(key, data)
        if key.startswith("snapshot/snapshot-"):
            raise Died
        return answer

    world.strikes.put_if_absent = dies  # type: ignore[method-assign]
    with pytest.raises(Died):
        dying.append(rows("a", 1))
    world.strikes.put_if_absent = create  # type: ignore[method-assign]
    return world.cost_of(lambda: recover_journal(journal, world.store, MACHINE, writers_are_gone=True))


EXPECTED: dict[Callable[[World], str], str] = {
    warm_append_to_a_table_with_groups: (
        "create snapshot, get schema, get snapshot, put LATEST, put data, 2 put list, put manifest"
    ),
    append_that_leads: (
        "create intent, 2 create snapshot, delete intent, delete list, get LATEST, 2 get list, get schema, 2 get snapshot, "
        "list intent, put LATEST, put data, 3 put list, put manifest"
    ),
    append_that_was_carried: (
        "create intent, 2 create snapshot, delete intent, delete list, 2 get list, get schema, 3 get snapshot, list intent, "
        "put data, 3 put list, put manifest"
    ),
    first_append: (
        "create EARLIEST, create schema, create snapshot, get LATEST, 2 get schema, get snapshot, list "
        "schemas, 2 list snapshots, put LATEST, put data, 2 put list, put manifest"
    ),
    warm_append: "create snapshot, get schema, get snapshot, put LATEST, put data, 2 put list, put manifest",
    warm_append_to_one_bucket: "create snapshot, get schema, get snapshot, put LATEST, put data, 2 put list, put manifest",
    warm_append_with_a_changelog: (
        "create snapshot, get schema, get snapshot, put LATEST, put data, 3 put list, 2 put manifest"
    ),
    append_with_a_changelog_that_lost_once: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 4 get snapshot, list snapshots, put LATEST, "
        "put data, 4 put list, 2 put manifest"
    ),
    cold_append_to_one_bucket: (
        "create snapshot, 2 get list, 2 get snapshot, list schemas, list snapshots, put LATEST, put data, 2 put list, "
        "put manifest"
    ),
    warm_upsert: (
        "create snapshot, get schema, 3 get snapshot, list snapshots, put LATEST, put data, 2 put list, put manifest"
    ),
    cold_upsert: (
        "create snapshot, 2 get list, get schema, 2 get snapshot, list schemas, list snapshots, put LATEST, "
        "put data, 2 put list, put manifest"
    ),
    upsert_beaten_by_an_older_job: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 6 get snapshot, "
        "2 list snapshots, put LATEST, put data, 3 put list, put manifest"
    ),
    upsert_beaten_by_a_newer_job: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 6 get snapshot, "
        "2 list snapshots, put LATEST, put data, 3 put list, put manifest"
    ),
    upsert_beaten_by_a_job_with_its_numbers: (
        "2 create snapshot, delete list, get LATEST, 3 get list, get manifest, get schema, 6 get snapshot, "
        "2 list snapshots, put LATEST, 2 put data, 4 put list, 2 put manifest"
    ),
    upsert_beaten_in_another_partition: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 6 get snapshot, "
        "2 list snapshots, put LATEST, put data, 3 put list, put manifest"
    ),
    upsert_after_another: (
        "create snapshot, 2 get list, get schema, 3 get snapshot, list snapshots, put LATEST, put data, "
        "2 put list, put manifest"
    ),
    warm_upsert_of_known_keys: (
        "create snapshot, get schema, 3 get snapshot, list snapshots, put LATEST, put data, 2 put list, put manifest"
    ),
    warm_upsert_of_new_keys: (
        "create snapshot, get schema, 3 get snapshot, list snapshots, put LATEST, put data, put index, put index manifest, "
        "2 put list, put manifest"
    ),
    cold_upsert_of_new_keys: (
        "create snapshot, get index, get index manifest, 2 get list, 2 get manifest, get schema, 2 get snapshot, list schemas, "
        "list snapshots, put LATEST, put data, put index, put index manifest, 2 put list, put manifest"
    ),
    cold_append: (
        "create snapshot, 2 get list, 2 get snapshot, list schemas, list snapshots, put LATEST, put data, 2 "
        "put list, put manifest"
    ),
    append_after_another: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 4 get snapshot, list snapshots, put LATEST, "
        "put data, 3 put list, put manifest"
    ),
    append_after_five_others: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 5 get snapshot, list snapshots, put LATEST, "
        "put data, 3 put list, put manifest"
    ),
    append_that_lost_once: (
        "2 create snapshot, delete list, get LATEST, 2 get list, get schema, 4 get snapshot, list snapshots, put LATEST, "
        "put data, 3 put list, put manifest"
    ),
    append_that_lost_twice: (
        "3 create snapshot, delete intent, delete list, get LATEST, 4 get list, get schema, 7 get snapshot, "
        "list intent, 2 list snapshots, put LATEST, put data, put intent, 4 put list, put manifest"
    ),
    append_whose_answer_was_lost: "create snapshot, get schema, 2 get snapshot, put LATEST, put data, 2 put list, put manifest",
    append_whose_send_was_lost: "2 create snapshot, get schema, 2 get snapshot, put LATEST, put data, 2 put list, put manifest",
    replay: "get EARLIEST, 3 get snapshot, list snapshots",
    replay_elsewhere: "get EARLIEST, 3 get snapshot, list snapshots",
    append_of_a_new_user: (
        "create snapshot, 2 get list, 3 get snapshot, list schemas, 2 list snapshots, put LATEST, put data, 2 "
        "put list, put manifest"
    ),
    append_of_files_that_were_written_before: (
        "create snapshot, 2 get list, 2 get snapshot, list schemas, list snapshots, put LATEST, 2 put list, put manifest"
    ),
    append_of_a_new_user_above_foreign_commits: (
        "create snapshot, 2 get list, 30 get manifest, 32 get snapshot, list schemas, 2 list snapshots, put LATEST, "
        "put data, 2 put list, 2 put manifest"
    ),
    second_append_above_foreign_commits: (
        "create snapshot, 2 get list, 3 get snapshot, list schemas, 2 list snapshots, put LATEST, put data, 2 put list, "
        "put manifest"
    ),
    look_up: "2 get snapshot, 2 list snapshots",
    look_up_of_an_earlier_commit: "get EARLIEST, 4 get snapshot, list snapshots",
    overwrite_of_a_partition: (
        "create snapshot, 2 get manifest, get schema, 2 get snapshot, list snapshots, put LATEST, put data, 2 put list, "
        "put manifest"
    ),
    dynamic_overwrite: (
        "create snapshot, 2 get manifest, get schema, 2 get snapshot, list snapshots, put LATEST, put data, 2 put list, "
        "put manifest"
    ),
    overwrite_after_another: (
        "create snapshot, 2 get list, 3 get manifest, get schema, 5 get snapshot, 2 list snapshots, put LATEST, put data, "
        "2 put list, put manifest"
    ),
    overwrite_that_lost_once: (
        "2 create snapshot, delete list, get LATEST, 3 get list, 3 get manifest, get schema, 5 get snapshot, 2 list "
        "snapshots, put LATEST, put data, 3 put list, put manifest"
    ),
    truncate: ("create snapshot, 2 get manifest, 2 get snapshot, list snapshots, put LATEST, 2 put list, put manifest"),
    overwrite_beside_vectors: (
        "create snapshot, get index manifest, 2 get list, get manifest, 5 get snapshot, list schemas, 2 list "
        "snapshots, put LATEST, put data, put index manifest, 2 put list, put manifest"
    ),
    overwrite_beside_vectors_after_another: (
        "create snapshot, get index manifest, 2 get list, 3 get manifest, get schema, 5 get snapshot, 2 list snapshots, "
        "put LATEST, put data, put index manifest, 2 put list, put manifest"
    ),
    compact: (
        "create snapshot, 5 get data, 2 get list, 5 get manifest, get schema, 2 get snapshot, list intent, list schemas, "
        "list snapshots, put LATEST, put data, 2 put list, put manifest"
    ),
    append_that_merges_manifests: (
        "create snapshot, 3 get manifest, get schema, get snapshot, list intent, put LATEST, put data, 2 put list, 2 put manifest"
    ),
    rollback: (
        "create snapshot, 2 create tags, 4 get EARLIEST, 6 get list, 16 get manifest, get schema, 8 get snapshot, "
        "2 list schemas, list snapshots, put LATEST, 2 put list, 2 put manifest"
    ),
    expire: (
        "delete list, 5 delete snapshot, get EARLIEST, get LATEST, 12 get list, 5 get manifest, get schema, 8 get "
        "snapshot, 2 list branches, 2 list changelog/, 2 list consumers, list schemas, 5 list snapshots, 2 list "
        "tags, put EARLIEST"
    ),
    clean: (
        "delete manifest, 6 get list, 3 get manifest, get schema, 3 get snapshot, list , 2 list branches, list changelog/, "
        "list intent, list lakelatch/journal/, list lakelatch/quarantine/heads/, list schemas, list snapshots, "
        "list tags, look at manifest, put manifest"
    ),
    alter: "create schema, 2 get schema, 4 get snapshot, list schemas, 2 list snapshots",
    alter_of_the_layout: (
        "create EARLIEST, 2 create schema, 2 create snapshot, get LATEST, 2 get list, 3 get schema, 7 get "
        "snapshot, 5 list schemas, 5 list snapshots, 2 put LATEST, 4 put list"
    ),
    explain: "get EARLIEST, 2 get list, 2 get manifest, 7 get snapshot, 2 list snapshots",
    resolve: (
        "create snapshot, 2 get EARLIEST, 2 get list, get manifest, 5 get snapshot, look at data, 2 look at manifest"
    ),
    read: "get data, 2 get list, 3 get manifest, get snapshot, list schemas, list snapshots",
    plan_again: "list schemas, list snapshots",
    plan_after_another: "2 get list, get manifest, get snapshot, list schemas, list snapshots",
    recover: "get EARLIEST, 2 get snapshot",
}


@pytest.mark.parametrize(
    ("operation", "expected"), list(EXPECTED.items()), ids=lambda value: getattr(value, "__name__", "")
)
def test_the_requests_of_each_operation(world: World, operation: Callable[[World], str], expected: str) -> None:
    assert operation(world) == expected
