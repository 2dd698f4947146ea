"""Group commit: an append that loses a race lands in the snapshot of another, exactly once, and says so."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from changes import written
from hooked_store import HookedStore

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, PutOutcome, Unknown
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.commit.retries import Crowd
from lakelatch.coordinator.commit.steps.run import CommitRun
from lakelatch.coordinator.history.row_numbers import row_numbers
from lakelatch.coordinator.history.timeline import BASE_PROPERTY, Latest, Timeline
from lakelatch.coordinator.identities.memory import memory_of
from lakelatch.coordinator.intents.carried import (
    CARRIES_PROPERTY,
    SAID_PROPERTY,
    Carried,
    carried_by,
    riders_of,
    said_by,
    to_property,
)
from lakelatch.coordinator.intents.intent import Intent, Leader, Said
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, OutcomeUnknown, RetriesExhausted, StoreUnavailable
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.table.system import history_row
from lakelatch.table.table import Table

COUNT = count()
GROUPED = {"commit.group": "auto", "commit.min-retry-wait": "1 ms"}


class Hooked(MemoryStore):
    """A store with something to do after it has created a file."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.before: dict[str, Callable[[], Any]] = {}
        self.after: dict[str, Callable[[], Any]] = {}
        self.refuses = ""
        self.is_away = False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._due(self.before, key)
        answer = super().put_if_absent(key, data)
        instead = self._due(self.after, key)
        return instead if isinstance(instead, Unknown) else answer

    def put(self, key: str, data: bytes) -> None:
        if self.refuses and key.startswith(self.refuses):
            raise StoreUnavailable(f"{key}: access denied")
        super().put(key, data)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        if self.is_away:
            raise StoreUnavailable("the store is away")
        return super().list(prefix)

    @staticmethod
    def _due(hooks: dict[str, Callable[[], Any]], key: str) -> Any:
        found = next((prefix for prefix in hooks if key.startswith(prefix)), None)
        return hooks.pop(found)() if found is not None else None


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


class World:
    """A table with one snapshot, a writer whose next create of a snapshot loses, and another that carries it."""

    def __init__(self, **options: str) -> None:
        self.url = f"memory://group-{uuid.uuid4()}/t"
        made = ll.create_table(self.url, rows().schema, options={**GROUPED, **options})
        made.append(rows(0))
        made.committer.settle()
        self.store = Hooked(self.url)
        self.schema = made.schema
        self.table = Table(self.store, self.schema)
        self.other = Table(MemoryStore(self.url), self.schema)

    def loses(self) -> None:
        """The next snapshot of the table is another's."""
        self.store.before["snapshot/snapshot-"] = lambda: self.another(100)

    def will_ask(self, *, first: bool) -> None:
        """The writer will ask to be carried, above snapshot 2: because it knows of others, or because it loses to one."""
        if first:
            self.another(100)
            self.table.committer.meet(3, 0.5)
        else:
            self.loses()

    def another(self, value: int, *, looks: bool = False, **more: Any) -> ll.Receipt:
        """Another writer commits; `looks`: it has met others, and looks whom it can carry."""
        if looks:
            self.other.committer.meet(3, 0.001)
        receipt = self.other.append(rows(value), **more)
        self.other.committer.settle()
        return receipt

    def carried(self, **more: Any) -> None:
        """As soon as the writer has registered its intent, another carries it."""
        self.loses()
        self.store.after["lakelatch/intents/"] = lambda: self.another(200, looks=True, **more)

    def carried_again(self) -> None:
        """The same, where the table has more snapshots by now."""
        self.table.committer._knows.crowd = Crowd()
        self.carried()

    def written(self, *values: int) -> tuple[ManifestEntry, ...]:
        """A data file with these rows, which no snapshot names yet."""
        return written(self.table, rows(*values))

    @property
    def latest(self) -> Snapshot:
        found = Timeline(self.store, TablePaths()).latest()
        assert found is not None
        return found

    @property
    def values(self) -> list[int]:
        return sorted(self.fresh.to_arrow()["v"].to_pylist())

    @property
    def fresh(self) -> Table:
        return ll.open_table(self.url)

    @property
    def intents(self) -> list[str]:
        return [info.key for info in self.store.list("lakelatch/")]


def test_a_loser_lands_in_the_snapshot_of_the_next_winner() -> None:
    """It tells the truth about where it landed, its intent is gone, and the table is whole."""
    world = World()
    world.carried()
    receipt = world.table.append(rows(1, 2), commit_user="etl", identifier=7)
    world.table.committer.settle()
    assert (receipt.snapshot_id, receipt.replayed) == (3, False)
    assert world.values == [0, 1, 2, 100, 200]
    latest = Timeline(world.store, TablePaths()).latest()
    assert latest is not None
    assert (latest.id, latest.delta_record_count, latest.total_record_count) == (3, 3, 5)
    assert [(str(c), c.rows) for c in riders_of(latest)] == [("etl/7", 2)]
    assert world.intents == []
    assert world.fresh.verify("all", data=True) == []
    assert ll.open_table(world.url).append(rows(1, 2), commit_user="etl", identifier=7).replayed
    assert world.fresh.append(rows(3), commit_user="etl", identifier=8).snapshot_id == 4


def test_receipts_explain_and_the_history_name_the_leader_and_its_riders() -> None:
    world, led = World(), list[ll.Receipt]()
    world.loses()
    world.store.after["lakelatch/intents/"] = lambda: led.append(
        world.another(200, looks=True, commit_user="boss", identifier=1)
    )
    receipt = world.table.append(rows(1, 2), commit_user="etl", identifier=7, properties={"by": "me", "at": "night"})
    assert (receipt.leader, receipt.riders, led[0].leader, led[0].riders) == ("boss", 0, None, 1)
    assert "carried by boss, " in str(receipt)
    assert "with 1 other commit," in str(led[0])
    told = str(world.fresh.explain(3))
    assert "  carries   1 other commits\n            etl/7: 2 rows, by = me, at = night\n" in told
    row = history_row(world.fresh.timeline.snapshot(3))
    said = {"by": "me", "at": "night"}
    assert row["riders"] == [{"commit_user": "etl", "identifier": 7, "rows": 2, "properties": said}]


@pytest.mark.parametrize("how", ["append", "transaction"])
@pytest.mark.parametrize(("option", "group", "rides"), [("off", "auto", True), ("auto", "off", False)])
def test_one_append_may_ride_or_go_alone_whatever_the_table_says(
    option: str, group: Any, how: str, rides: bool
) -> None:
    world = World(**{"commit.group": option})
    world.loses()
    world.store.after["lakelatch/intents/"] = lambda: world.another(200, looks=True, group="auto")
    if how == "append":
        world.table.append(rows(1), group=group)
    else:
        with world.table.transaction(group=group) as tx:
            tx.append(rows(1))
    assert world.values == ([0, 1, 100, 200] if rides else [0, 1, 100])


def test_an_anonymous_append_rides_too() -> None:
    world = World()
    world.carried()
    assert world.table.append(rows(1)).snapshot_id == 3
    assert world.values == [0, 1, 100, 200]


def test_a_loser_that_nobody_carries_leads_itself_and_names_itself() -> None:
    """Others look in its snapshot whether its intent still holds."""
    world = World()
    world.loses()
    assert world.table.append(rows(1), commit_user="etl", identifier=7).snapshot_id == 3
    latest = Timeline(world.store, TablePaths()).latest()
    assert latest is not None
    assert [str(c) for c in carried_by(latest)] == ["etl/7"]
    world.table.committer.settle()
    assert world.intents == []


def test_an_uncontended_append_sees_nothing_of_it() -> None:
    world = World()
    world.table.append(rows(1), commit_user="etl", identifier=7)
    latest = Timeline(world.store, TablePaths()).latest()
    assert latest is not None
    assert carried_by(latest) == ()
    assert not any(key.startswith("lakelatch.carries") for key in latest.own_properties)


def test_the_properties_of_each_commit_in_a_snapshot_are_told_apart() -> None:
    """Those of the leader are the snapshot's own; a rider without any is not mentioned."""
    world = World()
    world.loses()

    def carried() -> None:
        world.another(200, looks=True, properties={"by": "boss"})

    world.store.after["lakelatch/intents/"] = carried
    world.table.append(rows(1), properties={"by": "me", "lang": "é"})
    snapshot = world.latest
    ((rider, said),) = said_by(snapshot).items()
    assert [rider] == [one.commit for one in riders_of(snapshot)]
    assert (said, snapshot.own_properties["by"]) == ({"by": "me", "lang": "é"}, "boss")
    world.carried_again()
    world.table.append(rows(2))
    assert said_by(world.latest) == {}
    assert SAID_PROPERTY not in world.latest.own_properties


@pytest.mark.parametrize(
    ("base", "leader", "rider", "wanted"),
    [
        (None, None, 5, 5),
        (None, 7, 5, 7),
        (9, 7, 5, 9),
        (None, 5, 7, 7),
        (7, None, None, 7),
        (None, None, None, None),
        (None, None, 0, 0),
    ],
)
def test_the_watermark_of_a_snapshot_is_the_largest_of_all_in_it_and_of_its_base(
    base: int | None, leader: int | None, rider: int | None, wanted: int | None
) -> None:
    world = World()
    world.fresh.append(rows(50), watermark_ms=base)
    world.carried(watermark_ms=leader)
    assert world.table.append(rows(1), watermark_ms=rider).leader is not None
    assert world.latest.watermark == wanted
    assert world.values == [0, 1, 50, 100, 200]


def batch_beside(leader: str, identifier: int) -> tuple[World, Callable[[], ll.Receipt]]:
    """Batch 3 of a stream asks to be carried, and this commit looks whom it can carry."""
    world = World()
    world.carried(commit_user=leader, identifier=identifier)
    request = CommitRequest("APPEND", world.written(1), "pages", 3, in_order=True, query="q1")

    def commit() -> ll.Receipt:
        receipt = world.table.committer.commit(request)
        world.table.committer.settle()
        return receipt

    return world, commit


def test_a_batch_of_a_stream_rides_beside_others_and_its_query_is_remembered() -> None:
    world, commit = batch_beside("boss", 4)
    receipt = commit()
    assert (receipt.leader, receipt.snapshot_id, world.values) == ("boss", 3, [0, 1, 100, 200])
    assert memory_of(world.latest).users["pages"].query == "q1"
    assert memory_of(world.latest).users["boss"].query == ""
    assert commit().replayed


def test_a_batch_of_a_stream_does_not_ride_beside_one_of_its_own_user() -> None:
    """Of a stream the last batch alone is known: one that lands beside a later one would be as if it had never been."""
    world, commit = batch_beside("pages", 2)
    receipt = commit()
    assert (receipt.leader, receipt.snapshot_id, world.values) == (None, 4, [0, 1, 100, 200])
    world, commit = batch_beside("pages", 4)
    with pytest.raises(InvalidArgument, match="identifier 3 of 'pages' is not above 4"):
        commit()
    assert world.values == [0, 100, 200]


def test_of_two_batches_of_one_stream_a_leader_carries_the_first_it_finds() -> None:
    world = World()
    intents = [
        Intent(f"c{n}", "pages", n, SnapshotRef(1, "u"), 0, -1, 1, (), said=Said("q1", in_order=True)) for n in (1, 2)
    ]
    base = replace(world.latest, id=1, uuid="u")
    assert Leader(base, "own", "boss", 0, -1).choose(intents) == (intents[0],)
    taken = to_property([Carried("boss", 1, "c8", 1), Carried("pages", 0, "c9", 1)])
    later = replace(base, id=2, properties={**base.own_properties, CARRIES_PROPERTY: taken, BASE_PROPERTY: "1:u"})
    assert Leader(later, "own", "boss", 0, -1).choose(intents) == (), "its user has a batch in the base"
    assert len(Leader(later, "own", "boss", 0, -1).choose([replace(one, said=Said()) for one in intents])) == 2


def test_rows_of_fixed_buckets_ride_with_numbers_of_their_own() -> None:
    world = World(**{"bucket": "2", "bucket-key": "v"})
    world.carried(commit_user="boss", identifier=1)
    receipt = world.table.append(rows(*range(1, 9)), commit_user="etl", identifier=7)
    world.table.committer.settle()
    assert receipt.leader == "boss"
    assert world.values == [*range(9), 100, 200]
    said = row_numbers(world.latest)
    assert said is not None and said.writes is not None
    leader, rider = said.writes
    assert not leader.meets(rider) and (said.largest, said.buckets) == (max(leader.last, rider.last), 2)
    assert world.fresh.verify("all", data=True) == []
    assert ll.open_table(world.url).append(rows(1), commit_user="etl", identifier=7).replayed


def test_row_ids_that_follow_those_of_the_base_go_alone() -> None:
    world = World(**{"row-tracking.enabled": "true"})
    world.carried()
    world.table.append(rows(1))
    assert "lakelatch/intents/" in world.store.after, "it registered an intent"
    assert world.values == [0, 1, 100]


def test_a_twin_in_the_leaders_seat_does_not_carry_its_own_identity() -> None:
    """G3: the same job runs twice; the second meets the intent of the first."""
    world = World()
    world.carried(commit_user="etl", identifier=7)
    receipt = world.table.append(rows(1), commit_user="etl", identifier=7)
    assert (receipt.snapshot_id, receipt.replayed) == (3, True)
    assert world.values == [0, 100, 200]


def test_a_refused_intent_is_no_intent() -> None:
    """The store says no: the commit goes alone."""
    world = World()
    world.loses()

    def refuses() -> None:
        raise StoreUnavailable("403")

    world.store.before["lakelatch/intents/"] = refuses
    assert world.table.append(rows(1)).snapshot_id == 3
    assert world.values == [0, 1, 100]


def test_an_intent_without_an_answer_counts_as_registered() -> None:
    """It was carried although its writer never learned that it was registered."""
    world = World()
    world.loses()

    def carried_in_silence() -> Unknown:
        world.another(200, looks=True)
        return Unknown("no answer")

    world.store.after["lakelatch/intents/"] = carried_in_silence
    assert world.table.append(rows(1)).snapshot_id == 3
    assert world.values == [0, 1, 100, 200]


def test_a_commit_whose_intent_is_open_is_never_reported_as_not_committed() -> None:
    """Its next look fails: it is unknown until others have published both ids, and then it is told."""
    world = World()
    world.loses()

    def passed_and_away() -> None:
        world.another(200)
        world.store.is_away = True

    world.store.after["lakelatch/intents/"] = passed_and_away
    with pytest.raises(OutcomeUnknown, match="may still carry it") as unknown:
        world.table.append(rows(1), commit_user="etl", identifier=7)
    world.store.is_away = False
    world.another(300, looks=True)
    assert unknown.value.resolve().snapshot_id == 4
    assert world.values == [0, 1, 100, 200, 300]


def test_a_rider_that_nobody_carries_goes_on_when_it_is_resolved() -> None:
    """The table is quiet, so nobody else would close its window: it publishes the next id itself."""
    world = World()
    world.loses()

    def away() -> None:
        world.another(200)
        world.store.is_away = True

    world.store.after["lakelatch/intents/"] = away
    with pytest.raises(OutcomeUnknown) as unknown:
        world.table.append(rows(1), commit_user="etl", identifier=7)
    world.store.is_away = False
    receipt = unknown.value.resolve()
    assert (receipt.snapshot_id, receipt.leader) == (4, None)
    events = [entry.event for entry in world.table.committer.journal.entries()]  # type: ignore[attr-defined]
    assert not any(isinstance(event, ev.CommitResolved) for event in events), "its own events tell how it ended"
    assert unknown.value.resolve().snapshot_id == 4, "asking again changes nothing"
    assert world.values == [0, 1, 100, 200]
    world.table.committer.settle()
    assert world.intents == []


def test_an_exhausted_rider_closes_its_window_before_it_gives_up() -> None:
    """G2: one attempt is granted. It loses to others that do not carry it, until both ids are theirs."""
    world = World(**{"commit.max-retries": "1"})

    def again() -> None:
        world.another(100, group="off")
        world.store.before["snapshot/snapshot-"] = again

    world.store.before["snapshot/snapshot-"] = again
    with pytest.raises(RetriesExhausted):
        world.table.append(rows(1), commit_user="etl", identifier=7)
    world.store.before.clear()
    world.table.committer.settle()
    assert world.intents == []
    assert 1 not in world.values
    assert world.fresh.append(rows(1), commit_user="etl", identifier=7).replayed is False


def test_a_writer_that_knows_of_others_asks_them_before_it_tries_itself() -> None:
    """Nobody answers here, so it publishes itself, once, with the manifests that are there already."""
    world = World()
    world.another(100)
    world.table.committer.meet(3, 0.5)
    receipt = world.table.append(rows(1, 2), commit_user="etl", identifier=7)
    world.table.committer.settle()
    events = [type(entry.event).__name__ for entry in world.table.committer.journal.entries()]  # type: ignore[attr-defined]
    asked, sent = events.index("IntentPrepared"), events.index("SnapshotPrepared")
    assert events.index("ManifestsWritten") < asked < events.index("IntentRegistered") < sent
    assert (receipt.snapshot_id, receipt.attempts, receipt.leader) == (3, 1, None)
    assert world.values == [0, 1, 2, 100]
    assert world.intents == []
    assert world.fresh.verify("all", data=True) == []


def test_a_writer_that_asks_first_is_carried_like_one_that_has_lost() -> None:
    world = World()
    world.another(100)
    world.table.committer.meet(3, 0.5)
    world.store.after["lakelatch/intents/"] = lambda: world.another(200, looks=True)
    receipt = world.table.append(rows(1), commit_user="etl", identifier=7)
    assert (receipt.snapshot_id, receipt.leader is not None) == (3, True)
    assert world.values == [0, 1, 100, 200]
    assert world.table.append(rows(2)).snapshot_id == 4, "it builds on the snapshot that carried it"


@pytest.mark.parametrize("first", [True, False], ids=["asks first", "has lost"])
def test_a_list_that_could_not_be_written_is_written_anew(first: bool) -> None:
    """The store refused it while the intent was open, so that the commit goes on when it is resolved: under another name."""
    world = World()
    world.will_ask(first=first)

    def refuse() -> None:
        world.store.refuses = "manifest/manifest-list"

    world.store.after["lakelatch/intents/"] = refuse
    with pytest.raises(OutcomeUnknown, match="access denied") as told:
        world.table.append(rows(1, 2), commit_user="etl", identifier=7)
    world.store.refuses = ""
    assert world.values == [0, 100]
    receipt = told.value.resolve(timeout=0)
    world.table.committer.settle()
    assert (receipt.snapshot_id, world.values, world.intents) == (3, [0, 1, 2, 100], [])
    assert world.fresh.verify("all", data=True) == []


def test_a_leader_that_slept_until_its_base_was_too_old_keeps_the_files_that_another_has_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H5: it has sent nothing itself. Only the snapshot of the other tells that its data is needed."""
    world = World()
    world.will_ask(first=True)
    prepare = CommitRun.prepare_snapshot

    def slowly(run: CommitRun, effect: do.PrepareSnapshot) -> ev.Event:
        made = prepare(run, effect)
        if run.request.commit_user == "etl":
            monkeypatch.undo()
            world.another(200, looks=True)
            monkeypatch.setattr(CommitRun, "_is_fresh", lambda run, base: base.id > 2)  # its clock says so
        return made

    monkeypatch.setattr(CommitRun, "prepare_snapshot", slowly)
    receipt = world.table.append(rows(1, 2), commit_user="etl", identifier=7)
    world.table.committer.settle()
    assert (receipt.snapshot_id, receipt.leader is not None) == (3, True)
    assert world.values == [0, 1, 2, 100, 200]
    assert world.fresh.verify("all", data=True) == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("first", [True, False], ids=["asks first", "has lost"])
@pytest.mark.parametrize("carried", [True, False])
def test_an_append_that_is_interrupted_after_it_has_asked_is_resolved(
    interrupt: type[BaseException], first: bool, carried: bool
) -> None:
    """Its rows may land without it, so the error says how to find out; and if nobody carries them, that publishes them (H23)."""
    world = World()
    world.will_ask(first=first)

    def stop() -> None:
        raise interrupt

    world.store.after["lakelatch/intents/"] = stop
    with pytest.raises((OutcomeUnknown, KeyboardInterrupt)) as told:
        world.table.append(rows(1, 2), commit_user="etl", identifier=7)
    unknown = told.value if isinstance(told.value, OutcomeUnknown) else told.value.__cause__
    assert isinstance(unknown, OutcomeUnknown)
    if carried:
        world.another(200, looks=True)
    receipt = unknown.resolve(timeout=0)
    assert (receipt.snapshot_id, world.values) == (3, [0, 1, 2, 100, *([200] if carried else [])])
    assert (receipt.leader is not None) == carried
    assert world.table.append(rows(1, 2), commit_user="etl", identifier=7).replayed
    assert world.fresh.verify("all", data=True) == []


def test_a_writer_that_commits_in_a_row_finds_those_who_ask() -> None:
    """It never loses, and nobody tells it: it looks after a receipt, and carries them with its next commit."""
    world = World()
    world.loses()

    def twice() -> None:
        world.store.after.clear()
        world.another(200)
        world.another(300)

    world.store.after["lakelatch/intents/"] = twice
    receipt = world.table.append(rows(1), commit_user="etl", identifier=7)
    assert (receipt.snapshot_id, receipt.leader is not None) == (4, True)
    assert world.values == [0, 1, 100, 200, 300]


def test_a_writer_that_commits_now_and_then_looks_for_nobody() -> None:
    crowd = Crowd()
    assert not crowd.may_be_unseen(began_s=5.0, now_s=5.1), "its first commit"
    crowd.observe(0, 0.1, 5.1)
    assert crowd.may_be_unseen(began_s=5.2, now_s=5.3)
    crowd.observe(0, 0.1, 5.3)
    assert not crowd.may_be_unseen(began_s=5.4, now_s=5.5), "it has looked less than four attempts ago"
    assert crowd.may_be_unseen(began_s=5.6, now_s=5.7)
    crowd.observe(0, 0.1, 5.7)
    assert not crowd.may_be_unseen(began_s=7.0, now_s=7.1), "the last commit was a second ago"
    crowd.observe(2, 0.1, 7.1)
    assert not crowd.may_be_unseen(began_s=7.2, now_s=7.3), "it knows of others, and asks them"


def test_the_winner_that_was_read_is_the_newest_after_one_loss_but_not_after_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A writer that believed each winner would come late each time, and stay behind for ever."""
    looks = list[bool]()
    look = Timeline.look

    def counted(self: Timeline, seen: Snapshot | None = None, *, just_read: bool = False) -> Latest:
        looks.append(just_read)
        return look(self, seen, just_read=just_read)

    world = World()
    monkeypatch.setattr(Timeline, "look", counted)

    def loses_again() -> None:
        world.store.before["snapshot/snapshot-"] = lambda: world.another(200, group="off")
        world.another(100, group="off")
        looks.clear()

    world.store.before["snapshot/snapshot-"] = loses_again
    receipt = world.table.append(rows(1))
    assert receipt.snapshot_id == 4
    assert looks.count(True) == 1, "only the second loss is followed by a look above the winner"


def test_many_threads_land_in_few_snapshots(tmp_path: Path) -> None:
    """Real threads on a local disk: every row is there once, and some snapshots carry several commits."""
    made = ll.create_table(str(tmp_path / "t"), rows().schema, options={**GROUPED})
    made.append(rows(-1))

    def job(number: int) -> list[ll.Receipt]:
        table = ll.open_table(str(tmp_path / "t"))
        return [table.append(rows(10 * number + n), commit_user=f"job-{number}", identifier=n) for n in range(3)]

    with ThreadPoolExecutor(6) as pool:
        receipts = [r for found in pool.map(job, range(6)) for r in found]
    table = ll.open_table(str(tmp_path / "t"))
    assert sorted(table.to_arrow()["v"].to_pylist()) == sorted([-1, *(10 * j + n for j in range(6) for n in range(3))])
    assert table.verify("all", data=True) == []
    for receipt in receipts:
        snapshot = table.timeline.snapshot(receipt.snapshot_id)
        named = {(c.user, c.identifier) for c in carried_by(snapshot)}
        named.add((snapshot.commit_user, snapshot.commit_identifier))
        assert (receipt.commit_user, receipt.identifier) in named
    memory = json.loads(table.timeline.latest().own_properties["lakelatch.identifiers"])  # type: ignore[union-attr]
    assert {user: last[0] for user, last in memory["users"].items() if user.startswith("job-")} == {
        f"job-{number}": 2 for number in range(6)
    }


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_whatever_ends_a_rider_leaves_with_a_way_to_its_outcome(stop: type[BaseException]) -> None:
    """H23: its intent is registered, and another carries it after the caller has gone."""
    world = World()
    world.loses()

    def stops() -> None:
        raise stop

    world.store.after["lakelatch/intents/"] = stops
    with pytest.raises((KeyboardInterrupt, OutcomeUnknown)) as ended:
        world.table.append(rows(1), commit_user="etl", identifier=7)
    unknown = ended.value if isinstance(ended.value, OutcomeUnknown) else ended.value.__cause__
    assert isinstance(unknown, OutcomeUnknown)
    assert world.another(200, looks=True).riders == 1
    assert unknown.resolve().snapshot_id == 3
    assert world.values == [0, 1, 100, 200]


def test_a_rider_is_in_no_table_that_was_made_in_the_place_of_its_own() -> None:
    """Its intent is bound to the snapshot that it was registered on; the new table has others with the same ids."""
    world = World()
    world.loses()

    def made_again() -> None:
        world.store.delete_many([info.key for info in world.store.list("")])
        new = ll.create_table(world.url, rows().schema, options=GROUPED)
        for value in (7, 8, 9):
            new.append(rows(value))
        new.committer.settle()

    world.store.after["lakelatch/intents/"] = made_again
    with pytest.raises((OutcomeUnknown, ll.TableNotFound)):
        world.table.append(rows(1), commit_user="etl", identifier=7)
    assert world.values == [7, 8, 9]
    assert world.fresh.verify("all", data=True) == []


@pytest.mark.parametrize("second", [False, True], ids=["in the first snapshot of its window", "in the second one"])
def test_a_writer_that_was_carried_builds_its_next_commit_on_all_rows(second: bool) -> None:
    """It has not read the manifests of the snapshot that carried it."""
    world = World()
    world.loses()

    def carried() -> None:
        if second:
            world.another(150)
        world.another(200, looks=True)

    world.store.after["lakelatch/intents/"] = carried
    receipt = world.table.append(rows(1))
    world.table.committer.settle()
    assert receipt.leader is not None and receipt.snapshot_id == (4 if second else 3)
    base, now_ms = world.table.committer._knows.newest.get(), MACHINE.now_ms
    assert base is not None and (base.id, base.schema_id) == (receipt.snapshot_id, 0)
    assert base.is_fresh(now_ms, 3_600_000) and base.seen_ms <= now_ms
    world.table.append(rows(2))
    world.table.committer.settle()
    assert world.values == sorted([0, 1, 2, 100, 200, *([150] if second else [])])


# ------------------------------------------------------------------------------------------- beside changes of the table


def altered(world: World) -> None:
    world.fresh.alter(ll.add_column(f"x{next(COUNT)}", "INT"))


@pytest.mark.parametrize("first", [True, False])
def test_a_schema_from_before_the_commit_is_settled_before_anybody_is_asked(first: bool) -> None:
    """The rows are written again under it, as those of a commit that goes alone are."""
    world = World()
    world.table.append(rows(5))
    world.table.committer.settle()
    world.will_ask(first=first)
    altered(world)
    assert world.table.append(rows(1), commit_user="etl", identifier=1).snapshot_id == 4
    assert world.values == [0, 1, 5, 100]
    newest = world.fresh.snapshot()
    assert newest is not None and newest.schema_id == 1
    assert {entry.file.schema_id for entry in world.fresh.entries()} == {0, 1}


@pytest.mark.parametrize("carried", [True, False])
def test_a_schema_that_comes_while_a_commit_waits_does_not_stop_it(carried: bool) -> None:
    """Others may carry it all the while, so that its rows land as they are, once, and readers cast them."""
    world = World()
    world.loses()

    def meanwhile() -> None:
        altered(world)
        world.table.committer._knows.newest.forget()
        if carried:
            world.another(200, looks=True)

    world.store.after["lakelatch/intents/"] = meanwhile
    assert world.table.append(rows(1), commit_user="etl", identifier=1).replayed is False
    assert world.values == sorted([0, 1, 100] + [200] * carried)
    assert world.fresh.append(rows(1), commit_user="etl", identifier=1).replayed
    assert world.intents == [] and world.fresh.verify("all", data=True) == []


@pytest.mark.parametrize("carried", [True, False])
def test_a_rider_of_a_table_that_is_renamed_is_told_by_its_journal(carried: bool, tmp_path: Path) -> None:
    """It may have been carried before the table went; nobody carries it at the new place, unless recovery does."""
    url, new_url, journal = str(tmp_path / "t"), str(tmp_path / "u"), FileJournal(tmp_path / "journal")
    made = ll.create_table(url, rows().schema, options={**GROUPED, "commit.timeout": "2 s"})
    made.append(rows(0))
    store: Any = HookedStore(LocalStore(url))
    table = Table(store, made.schema, journal=journal, first_schema=made._first_schema)

    def meanwhile() -> None:
        if carried:
            leader = ll.open_table(url)
            leader.committer.meet(3, 0.001)
            leader.append(rows(200))
            leader.committer.settle()
        ll.rename_table(url, new_url)

    store.before["snapshot/snapshot-"] = lambda: ll.open_table(url).append(rows(100), group="off")
    store.after["lakelatch/intents/"] = meanwhile
    with pytest.raises(OutcomeUnknown, match="was dropped or renamed"):
        table.append(rows(1), commit_user="etl", identifier=1)
    told = ll.recover(tmp_path / "journal", table=new_url, writers_are_gone=True).commits
    assert [commit.outcome for commit in told] == ["landed" if carried else "finished"]
    again = ll.open_table(new_url)
    assert again.append(rows(1), commit_user="etl", identifier=1).replayed
    assert sorted(again.to_arrow()["v"].to_pylist()) == sorted([0, 1, 100] + [200] * carried)
