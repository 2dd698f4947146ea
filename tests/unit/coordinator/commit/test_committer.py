"""The answers of a committer: receipts, errors that say what a caller may do next, and outcomes that are found out later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.commit.committer import Committer, new_commit_user
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.commit.request import (
    CommitRequest,
    KeyedRows,
    LayoutDecision,
    RepeatableRequest,
)
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY
from lakelatch.coordinator.journal.lines import MemoryJournal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import (
    CommitConflict,
    InvalidArgument,
    LakelatchError,
    OutcomeUnknown,
    RetriesExhausted,
    StoreUnavailable,
    TableCorrupt,
    TableNotFound,
)
from lakelatch.core.metadata.data_file import ADD, DELETE, DataFile, ManifestEntry
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.snapshot import REPLACED
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.core.rows.partition import PartitionCodec

COUNT = count()
FIELDS = from_arrow_schema(pa.schema([("part", pa.string()), ("v", pa.int64())]))


class Racing(MemoryStore):
    """A store in memory: others come before the next creates of snapshots, and answers may be planned."""

    def __init__(self) -> None:
        super().__init__(f"memory://committer-{next(COUNT)}/t")
        self.before: list[Callable[[], Any]] = []
        self.answers: list[PutOutcome | Exception] = []
        self.refused: set[str] = set()
        self.read_once: set[str] = set()

    def put(self, key: str, data: bytes) -> None:
        if any(key.startswith(prefix) for prefix in self.refused):
            raise StoreUnavailable("403")
        super().put(key, data)

    def get(self, key: str) -> bytes:
        if any(key.startswith(prefix) for prefix in self.refused):
            raise StoreUnavailable("403")
        found = super().get(key)
        if key in self.read_once:
            self.delete_many([key])
        return found

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-"):
            if self.before:
                self.before.pop(0)()
            elif self.answers:
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return super().put_if_absent(key, data)


class Kept(MemoryJournal):
    """A journal in memory that counts the commits of which nothing has to be found out any more."""

    def __init__(self) -> None:
        super().__init__()
        self.concluded = 0

    def conclude(self, commit: str) -> None:
        assert commit in {entry.commit for entry in self.entries()}
        self.concluded += 1


class World:
    def __init__(self, partitioned: bool = True, **options: str) -> None:
        self.inner = Racing()
        self.store = MeteredStore(self.inner)
        named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        self.schema = new_schema(FIELDS, partition_keys=["part"] if partitioned else [], options=named)
        self.codec = PartitionCodec(self.schema.partition_fields)
        self.inner.put("schema/schema-0", self.schema.to_json())
        self.now_s, self.slept = 500.0, list[float]()
        self.around = replace(MACHINE, monotonic_s=self.tick, sleep=self.slept.append, uniform=lambda least, most: most)
        self.journal = Kept()
        self.mine, self.other = self.committer(), self.committer()

    def tick(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def committer(self, schema: TableSchema | None = None) -> Committer:
        return Committer(self.store, TablePaths(), schema or self.schema, self.journal, self.around)

    def entry(self, name: str, part: str = "a", kind: int = ADD) -> ManifestEntry:
        where = self.codec.encode((part,) if self.schema.partition_keys else ())
        return ManifestEntry(kind, where, 0, -1, DataFile(name, 4, 5))

    def request(self, *names: str, of: type[CommitRequest] = CommitRequest, **more: Any) -> CommitRequest:
        entries = tuple(self.entry(name, name[0]) for name in names)
        for name in names:
            self.inner.put(f"part={name[0]}/bucket-0/{name}", b"rows")
        return of(**{"kind": "APPEND", "entries": entries, "commit_user": "etl", **more})

    def append(self, *names: str, by: Committer | None = None, **more: Any) -> Receipt:
        chosen = by or self.mine
        receipt = chosen.commit(self.request(*names, **more))
        chosen.settle()
        return receipt

    def ids(self) -> list[int]:
        return self.mine._timeline(self.store).snapshot_ids()


def failed(world: World, kind: type[LakelatchError], request: CommitRequest) -> LakelatchError:
    with pytest.raises(kind) as found:
        world.mine.commit(request)
    world.mine.settle()
    assert type(found.value) is kind
    return found.value


# -------------------------------------------------------------------------------------------------------------- receipts


def test_a_receipt_says_what_was_done() -> None:
    world = World()
    first = world.append("a1", identifier=3)
    assert (first.snapshot_id, first.commit_user, first.identifier, first.kind) == (1, "etl", 3, "APPEND")
    assert first.snapshot_uuid == world.mine._timeline(world.store).snapshot(1).uuid
    assert (first.attempts, first.retries, first.replayed, first.leader, first.riders) == (1, 0, False, None, 0)
    assert first.partitions_replaced is None
    assert 1.0 <= first.elapsed_ms < 1000.0, "by the commit's own clock"
    world.inner.before = [lambda: world.append("a2", by=world.other)]
    second = world.append("a3")
    assert (second.snapshot_id, second.attempts, second.retries) == (3, 2, 1)
    assert second.requests >= second.sequential_requests > 3


@pytest.mark.parametrize(("parts", "replaced"), [("ab", 2), ("a", 1), ("", 0)])
def test_an_overwrite_counts_the_partitions_whose_rows_it_took_away(parts: str, replaced: int) -> None:
    world = World()
    world.append("a1", "a2", "b1")
    wanted = {world.codec.encode((part,)) for part in parts}
    read = world.mine._timeline(world.store).latest()
    request = world.request("a9", "c9", kind="OVERWRITE", target=wanted.__contains__, read_snapshot=read)
    assert world.mine.commit(request).partitions_replaced == replaced


def test_a_table_without_partitions_replaces_none() -> None:
    world = World(partitioned=False)
    world.append("a1")
    read = world.mine._timeline(world.store).latest()
    request = world.request("a9", kind="OVERWRITE", target=lambda partition: True, read_snapshot=read)
    assert world.mine.commit(request).partitions_replaced is None


def test_an_identity_is_looked_up_with_its_receipt() -> None:
    world = World()
    assert world.mine.lookup("etl", 3) is None, "the table has no snapshot"
    world.append("a1", kind="OVERWRITE", target=lambda partition: True, identifier=3)
    world.append("a2", commit_user="other", identifier=9)
    found = world.committer().lookup("etl", 3)
    assert found is not None
    assert (found.snapshot_id, found.kind, found.replayed, found.identifier) == (1, "OVERWRITE", True, 3)
    assert (found.attempts, found.retries, found.requests, found.sequential_requests, found.elapsed_ms) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert found.snapshot_uuid == world.mine._timeline(world.store).snapshot(1).uuid
    assert world.mine.lookup("etl", 2) is None
    assert world.mine.lookup("etl", 4) is None
    assert world.mine.lookup("nobody", 3) is None


def test_the_look_for_an_identity_serves_the_commit_that_follows() -> None:
    """Also if the newest schema is not the committer's, and if others commit in between, with another identity or the same."""
    world = World()
    world.append("a1")
    world.inner.put("schema/schema-1", replace(world.schema, id=1).to_json())
    first = world.committer()
    assert first.lookup("etl", 1, commits_next=True) is None
    assert first.aftercare().known([]) is None, "its manifests were not read yet"
    assert first.commit(world.request("a2", commit_user="etl", identifier=1)).attempts == 1
    timeline = world.mine._timeline(world.store)
    landed = timeline.snapshot(2)
    assert (landed.schema_id, landed.total_record_count) == (1, 2 * 5)

    second = world.committer()
    assert second.lookup("etl", 2, commits_next=True) is None
    world.append("a3", commit_user="other", identifier=1)
    assert second.commit(world.request("a4", commit_user="etl", identifier=2)).attempts == 2
    assert timeline.snapshot(4).total_record_count == 4 * 5

    third = world.committer()
    assert third.lookup("etl", 3, commits_next=True) is None
    world.committer().commit(world.request("a5", commit_user="etl", identifier=3))
    again = third.commit(world.request("a6", commit_user="etl", identifier=3))
    assert (again.replayed, again.snapshot_id, timeline.latest()) == (True, 5, timeline.snapshot(5))


def test_the_receipt_of_an_expired_snapshot_says_what_is_still_known() -> None:
    """Its file is gone, or another has its name: the kind is that of most commits."""
    world = World()
    world.append("a1", kind="OVERWRITE", target=lambda partition: True, identifier=3)
    uuid = world.mine._timeline(world.store).snapshot(1).uuid
    world.append("a2")
    world.inner.put("snapshot/EARLIEST", b"2")
    world.inner.delete_many(["snapshot/snapshot-1"])
    found = world.committer().lookup("etl", 3)
    assert found is not None
    assert (found.snapshot_id, found.snapshot_uuid, found.kind) == (1, uuid, "APPEND")
    again = world.mine.commit(world.request("a1", identifier=3))
    assert (again.snapshot_id, again.replayed, again.kind) == (1, True, "APPEND")


@pytest.mark.parametrize(("kind", "garbled"), [("APPEND", CARRIES_PROPERTY), ("OVERWRITE", REPLACED)])
def test_that_a_commit_landed_is_said_even_where_its_snapshot_does_not_say_what_it_did(kind: str, garbled: str) -> None:
    world = World()
    about: dict[str, Any] = {} if kind == "APPEND" else {"target": lambda partition: True}
    world.append("a1", kind=kind, identifier=3, **about)
    landed = world.mine._timeline(world.store).snapshot(1)
    world.inner.put("snapshot/snapshot-1", replace(landed, properties={**landed.properties, garbled: "["}).to_json())
    found = world.committer().lookup("etl", 3)
    assert found is not None and (found.snapshot_id, found.replayed, found.kind) == (1, True, kind)
    assert (found.rows, found.partitions) == (None, None)


def test_the_receipt_of_an_older_writers_snapshot_has_no_uuid() -> None:
    """Its identity is made of the names of its lists."""
    world = World()
    world.append("a1")
    timeline = world.mine._timeline(world.store)
    old = replace(timeline.snapshot(1), uuid=None, version=2, writer_version=None, commit_identifier=7, properties={})
    world.inner.put("snapshot/snapshot-1", old.to_json())
    found = world.committer().lookup("etl", 7)
    assert found is not None and (found.snapshot_id, found.snapshot_uuid, found.kind) == (1, None, "APPEND")


def test_a_commit_user_of_its_own_has_the_tables_prefix() -> None:
    plain, named = new_schema(FIELDS), new_schema(FIELDS, options={"commit.user-prefix": "etl"})
    assert len(new_commit_user(plain)) == 36
    assert new_commit_user(named).startswith("etl_") and len(new_commit_user(named)) == 40
    assert new_commit_user(plain) != new_commit_user(plain)


# ---------------------------------------------------------------------------------------------------------------- errors


def test_an_invalid_request_asks_nothing_of_the_store() -> None:
    world = World()
    error = failed(world, InvalidArgument, world.request("a1", commit_user=""))
    assert "commit_user" in error.message
    assert world.store.snapshot().requests == 0


def test_a_conflict_before_a_send_says_that_nothing_was_sent() -> None:
    world = World()
    gone = world.request(kind="COMPACT", entries=(world.entry("a1", kind=DELETE),))
    error = failed(world, CommitConflict, gone)
    assert error.message.startswith(f"not committed to {world.store.url}: deletes_unknown_file: ")
    assert (error.sent, error.keys_changed, error.newer_schema, error.moved_keys) == (False, False, False, ())


def test_a_lost_race_says_that_no_snapshot_can_name_its_files_any_more() -> None:
    world = World(commit__max_retries="0")
    world.inner.before = [lambda: world.append("a1", by=world.other)]
    error = failed(world, RetriesExhausted, world.request("a2"))
    assert not error.sent
    assert world.ids() == [1]


def test_keys_that_came_are_told() -> None:
    world = World()
    world.append("a1")
    read = world.mine._timeline(world.store).latest()
    world.append("a2")
    error = failed(world, CommitConflict, world.request("a3", read_snapshot=read, keyed=KeyedRows(reads_keys=True)))
    assert (error.keys_changed, error.newer_schema) == (True, False)
    read = world.mine._timeline(world.store).latest()
    assert world.mine.commit(world.request("a3", read_snapshot=read, keyed=KeyedRows(reads_keys=True))).snapshot_id == 3


def test_only_the_conflict_with_a_newer_schema_says_so() -> None:
    world = World()
    world.append("a1")
    world.inner.put("schema/schema-1", replace(world.schema, id=1).to_json())
    error = failed(world, CommitConflict, world.request("a2", of=RepeatableRequest))
    assert (error.newer_schema, error.keys_changed) == (True, False)
    refused = World()
    refused.append("a1")
    refused.inner.put("schema/schema-1", replace(world.schema, id=1).to_json())
    refused.inner.refused = {"manifest/"}
    other = failed(refused, StoreUnavailable, refused.request("a2", of=RepeatableRequest))
    assert (other.newer_schema, other.keys_changed, other.moved_keys) == (False, False, ())


def test_a_table_without_its_schema_is_not_written() -> None:
    world = World()
    world.inner.delete_many(["schema/schema-0"])
    error = failed(world, TableCorrupt, world.request("a1"))
    assert "the table's schema schema/schema-0 is missing" in error.message
    assert world.ids() == []
    dropped = World()
    dropped.mine._first_schema = dropped.schema.to_json()
    dropped.inner.delete_many(["schema/schema-0"])
    failed(dropped, TableNotFound, dropped.request("a1"))
    leaving = World()
    leaving.mine._first_schema = leaving.schema.to_json()
    leaving.inner.read_once = {"schema/schema-0"}
    failed(leaving, TableNotFound, leaving.request("a1"))


# -------------------------------------------------------------------------------------------------------------- outcomes


def unknown(world: World, request: CommitRequest) -> OutcomeUnknown[Receipt]:
    error: Any = failed(world, OutcomeUnknown, request)
    return error


def test_an_unknown_outcome_carries_the_identity_of_its_commit() -> None:
    world = World()
    world.inner.answers = [Unknown("reset")] * 3
    error = unknown(world, world.request("a1", identifier=4))
    uuid = error.identity["snapshot_uuid"]
    assert error.identity == {"snapshot_id": 1, "snapshot_uuid": uuid, "commit_user": "etl", "identifier": 4}
    assert error.message.startswith(f"it is not known whether snapshot 1 of {world.store.url} was committed: the store")
    world.store.reset()
    receipt = error.resolve(timeout=5)
    assert (receipt.snapshot_id, receipt.snapshot_uuid, receipt.replayed) == (1, uuid, False)
    assert (receipt.attempts, receipt.retries, receipt.identifier) == (1, 0, 4)
    assert receipt.requests == world.store.snapshot().requests > 0
    assert receipt.elapsed_ms >= 1.0
    assert world.journal.concluded == 1
    resolved = [e.event for e in world.journal.entries() if isinstance(e.event, ev.CommitResolved)]
    assert [one.snapshot and one.snapshot.id for one in resolved] == [1]


def test_a_commit_that_did_not_land_resolves_to_its_error_and_the_journal_keeps_it() -> None:
    world = World()
    world.inner.answers = [Unknown("reset")] * 3
    error = unknown(world, world.request("a1"))
    world.append("a2", by=world.other)
    with pytest.raises(CommitConflict, match="belongs to another writer"):
        error.resolve(timeout=5)
    (resolved,) = [e.event for e in world.journal.entries() if isinstance(e.event, ev.CommitResolved)]
    assert (resolved.snapshot, resolved.code) == (None, "commit-conflict")
    assert world.journal.concluded == 2, "of both"


def test_an_outcome_that_stays_unknown_is_not_recorded_and_can_be_asked_again() -> None:
    world = World()
    world.inner.answers = [Unknown("reset")] * 3
    error = unknown(world, world.request("a1"))
    world.inner.refused = {"snapshot/"}
    with pytest.raises(OutcomeUnknown) as again:
        error.resolve(timeout=0)
    assert [e for e in world.journal.entries() if isinstance(e.event, ev.CommitResolved)] == []
    assert world.journal.concluded == 0
    world.inner.refused = set()
    assert again.value.resolve(timeout=5).snapshot_id == 1


def test_another_commit_after_an_unknown_one_looks_at_the_store_first() -> None:
    world = World()
    world.append("a1")
    world.inner.answers = [Unknown("reset")] * 3
    unknown(world, world.request("a2"))
    world.append("a3", by=world.other)
    assert world.append("a4").attempts == 1


# ------------------------------------------------------------------------------------------------------ between commits


def test_what_landed_last_is_known_without_a_request() -> None:
    world = World()
    assert world.mine.aftercare().known([(world.codec.encode(("a",)), 0)]) is None
    world.append("a1")
    world.store.reset()
    found = world.mine.aftercare().known([])
    assert found is not None and found[0].id == 1
    assert world.store.snapshot().requests == 0
    known, other = world.mine.aftercare().known([(world.codec.encode(("a",)), 0)]), world.other.aftercare().known([])
    assert known is not None and other is None
    assert known[1].counts == {world.codec.encode(("a",)): {-1}}


def test_a_replay_and_a_failure_make_the_next_commit_look() -> None:
    world = World()
    world.append("a1", identifier=1)
    world.append("a2", by=world.other)
    assert world.append("a1", identifier=1).replayed
    assert world.append("a3").attempts == 1, "the base that it knew is forgotten"


def tickets(world: World) -> list[str]:
    return [info.key for info in world.inner.list("lakelatch/intents/")]


def test_who_met_others_lets_those_go_first_that_wait() -> None:
    world = World()
    world.append("a1")
    world.inner.put("lakelatch/intents/ticket-0-another", b"")
    world.slept.clear()
    world.append("a2")
    assert world.slept == [], "it has met nobody, and so does not look"
    world.mine.meet(3, 0.5)
    world.append("a3")
    assert world.slept == [pytest.approx(0.7 * 0.5)]
    assert tickets(world) == ["lakelatch/intents/ticket-0-another"], "its own is gone"
    world.inner.delete_many(tickets(world))
    world.slept.clear()
    world.append("a4")
    assert world.slept == [0.0], "nobody waits, whatever it has met"


def test_a_ticket_is_given_back_however_the_commit_ends() -> None:
    world = World()
    world.append("a1")
    world.mine.meet(3, 0.5)
    failed(world, CommitConflict, world.request(of=LayoutDecision))
    assert tickets(world) == []


def test_an_interrupt_while_it_waits_gives_the_ticket_back() -> None:
    world = World()
    world.append("a1")
    world.inner.put("lakelatch/intents/ticket-0-another", b"")
    seen: list[list[str]] = []

    def interrupted(seconds: float) -> None:
        seen.append(tickets(world))
        raise KeyboardInterrupt

    world.mine._around = replace(world.around, sleep=interrupted)
    world.mine.meet(3, 0.5)
    with pytest.raises(KeyboardInterrupt) as raised:
        world.append("a2")
    world.mine.settle()
    assert raised.value.__cause__ is None, "it was not sent, so nothing is unknown"
    assert len(seen[0]) == 2 and tickets(world) == ["lakelatch/intents/ticket-0-another"]
    assert world.ids() == [1]


@pytest.mark.parametrize(("drawn", "others", "does"), [(1.0, 0, True), (0.24, 3, True), (0.26, 3, False)])
def test_one_of_those_who_commit_at_once_does_what_any_of_them_could(drawn: float, others: int, does: bool) -> None:
    world = World()
    world.mine._around = replace(world.around, uniform=lambda least, most: drawn)
    if others:
        world.mine.meet(others, 0.5)
    assert world.mine.aftercare().does_its_share() is does
    world.now_s += 60.0
    assert world.mine.aftercare().does_its_share() is (drawn <= 1.0), "they have gone"


def test_who_loses_again_takes_a_ticket() -> None:
    world = World()
    world.append("a1")
    seen: list[list[str]] = []

    def another() -> None:
        seen.append(tickets(world))
        world.append(f"a{len(seen) + 1}", by=world.other)
        world.inner.before = [another] if len(seen) < 3 else []

    world.inner.before = [another]
    assert world.append("a5").attempts == 4
    assert [len(names) for names in seen] == [0, 0, 1]
    assert seen[2][0].startswith("lakelatch/intents/ticket-2-"), "since snapshot 2"
    assert tickets(world) == []


def test_who_may_ride_takes_no_ticket() -> None:
    rider = World(partitioned=False, commit__group="auto")
    rider.append("a1")
    rider.slept.clear()
    rider.mine.meet(3, 0.5)
    rider.append("a2")
    assert rider.slept == [], "who may ride need not wait"


def test_a_journal_tells_each_commit_by_its_table_and_branch() -> None:
    world = World()
    world.append("a1")
    world.append("a2")
    entries = world.journal.entries()
    assert len({entry.commit for entry in entries}) == 2
    assert {entry.table for entry in entries} == {world.store.url}
    first = next(entry.event for entry in entries if isinstance(entry.event, ev.CommitRequested))
    assert first == ev.CommitRequested("etl", None, "APPEND", False, False)
    upload = PendingUpload("part=a/bucket-0/a3", b"rows")
    world.append("a3", uploads=(upload,), identifier=1)
    last = [entry.event for entry in world.journal.entries() if isinstance(entry.event, ev.CommitRequested)][-1]
    assert last == ev.CommitRequested("etl", 1, "APPEND", True, False)


def test_an_empty_decision_of_the_layout_lands_before_files_only() -> None:
    world = World()
    assert world.mine.commit(world.request(of=LayoutDecision)).snapshot_id == 1
    world.append("a1")
    error = failed(world, CommitConflict, world.request(of=LayoutDecision))
    assert "first_files_came_first" in error.message
