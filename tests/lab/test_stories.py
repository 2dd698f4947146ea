"""The stories (a) to (h) that a commit coordinator must survive, step by step on the shipped code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.commit.attempt import FileNames, MetadataWriter
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.errors import Fenced, LakelatchError, OutcomeUnknown
from lakelatch.lab.actors.jobs import Actor, data_entry, foreign_snapshot
from lakelatch.lab.actors.maintainers import expirer, rollback
from lakelatch.lab.world.reading import look
from lakelatch.lab.world.simulated_store import SILENCE, Objects, Reply, Request, answer
from lakelatch.lab.world.stage import PATHS, Stage, lab_schema


class World:
    """One store with its jobs. A test decides what happens just before a request, or instead of it."""

    def __init__(self, **options: str) -> None:
        self.objects: Objects = {"schema/schema-0": lab_schema(**options).to_json()}
        self.schema = lab_schema(**options)
        self._jobs = 0

    def apply(self, request: Request) -> Reply:
        self.objects, reply = answer(self.objects, request)
        return reply

    def job(self, name: str, wire: Callable[[Request], Reply] | None = None) -> Job:
        self._jobs += 1
        return Job(Stage(name, self._jobs, wire or self.apply, schema=self.schema))

    def play(self, role: Any, name: str) -> None:
        role(self.job(name).stage)

    def files(self) -> list[str]:
        """The files that a fresh reader sees."""
        reading = look(self.objects)
        assert reading.failure == ""
        return sorted(reading.top.files) if reading.top else []

    def ids(self) -> list[int]:
        return sorted(int(k.rpartition("-")[2]) for k in self.objects if k.startswith("snapshot/snapshot-"))

    def top(self) -> int:
        top = look(self.objects).top
        return top.snapshot.id if top else 0


class Job:
    """A process with one committer."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.committer = stage.committer()
        self._number = 0

    def commit(self, identity: tuple[str, int] | None = None) -> Receipt:
        self._number += 1
        entry = data_entry(f"{self.stage.name}{self._number}")
        return self.committer.commit(
            CommitRequest(
                kind="APPEND",
                entries=(entry,),
                commit_user=identity[0] if identity else self.stage.name,
                identifier=identity[1] if identity else None,
                uploads=(PendingUpload(f"bucket-0/{entry.file.file_name}", b"rows"),),
            )
        )

    def commits(self, count: int) -> Job:
        for _ in range(count):
            self.commit()
        self.committer.settle()
        return self


class Interrupted:
    """A wire that calls a function before a chosen request."""

    def __init__(self, world: World, operation: str, key: str, happens: Callable[[Request], Reply | None]) -> None:
        self.world, self.operation, self.key, self.happens = world, operation, key, happens
        self.struck = False

    def __call__(self, request: Request) -> Reply:
        if not self.struck and request.operation == self.operation and request.key == self.key:
            self.struck = True
            reply = self.happens(request)
            if reply is not None:
                return reply
        return self.world.apply(request)


def data(*labels: str) -> list[str]:
    return sorted(f"data-{label}.parquet" for label in labels)


def test_a_a_sleeper_publishes_on_a_name_that_expiry_freed() -> None:
    """H6: W commits 100 and sleeps; others commit to 160 and expire to 150; W publishes 101 on the freed name."""
    world = World()
    world.job("old").commits(99)

    def meanwhile(request: Request) -> None:
        world.job("B").commits(60)
        world.play(expirer(retained=11), "X")

    sleeper = world.job("W", Interrupted(world, "create", "snapshot/snapshot-101", meanwhile))
    sleeper.commit()
    with pytest.raises(Fenced):
        sleeper.commit()
    assert world.ids() == [101, *range(150, 161)]
    assert world.top() == 160
    assert "data-W2.parquet" not in world.files()
    assert len(world.files()) == 160
    assert world.job("C").commit().snapshot_id == 161


def test_b_a_rollback_under_a_writer() -> None:
    """H6: Apache Paimon rolls back from 50 to 40, then W publishes 51. A fresh W2 lists 51 and is not misled."""
    world = World()
    world.job("old").commits(50)
    world.apply(Request("write", "snapshot/EARLIEST", b"1"))
    wire = Interrupted(world, "create", "snapshot/snapshot-51", lambda request: world.play(rollback(40), "Z"))
    with pytest.raises(Fenced):
        world.job("W", wire).commit()
    assert world.ids() == [*range(1, 41), 51]
    assert world.top() == 40
    assert world.job("W2").commit().snapshot_id == 41
    assert "data-W1.parquet" not in world.files()


def test_c_an_old_writer_replaces_the_base() -> None:
    """G1's limit: a 1.x writer without uuid rolls N back and commits N again. W publishes on the old N; everybody reads it."""
    world = World()
    world.job("old").commits(3)

    def again(request: Request) -> None:
        stage = world.job("F").stage
        timeline, made = stage.timeline(), MetadataWriter(world.schema, PATHS, FileNames("old-writer"))
        base = timeline.snapshot(2)
        delta = made.manifests([data_entry("F1")])
        lists = made.manifest_list(timeline.manifests(base)), made.manifest_list([line for line, _ in delta])
        for blob in (*lists, *(blob for _, blob in delta)):
            stage.store.put(blob.key, blob.data)
        snapshot = foreign_snapshot(base, "F", lists[0], lists[1], None, stage.around.wall_ms)
        stage.store.put("bucket-0/data-F1.parquet", b"rows")
        stage.store.put(PATHS.snapshot(3), snapshot.to_json())

    assert world.job("W", Interrupted(world, "create", "snapshot/snapshot-4", again)).commit().snapshot_id == 4


def test_d_a_hint_an_hour_later_is_not_written() -> None:
    """H7: W commits 101, sleeps for an hour, and must not write its hint then."""
    world = World()
    job = world.job("W")
    job.commit()
    job.committer.settle()
    assert world.objects["snapshot/LATEST"] == b"1"
    job.commit()
    job.stage.clock.now_s += 3600
    world.job("B").commits(2)
    job.committer.settle()
    assert world.objects["snapshot/LATEST"] == b"4"


def test_d_a_publish_that_took_an_hour_writes_no_hint_and_is_old_knowledge() -> None:
    """H6, H7: knowledge of a published snapshot is as old as its send. The next commit checks it before building on it."""
    world = World()

    def an_hour(request: Request) -> Reply:
        reply = world.apply(request)
        world.job("B").commits(3)
        return Reply(reply.status, reply.body, 3600.0)

    wire = Interrupted(world, "create", "snapshot/snapshot-1", an_hour)
    job = world.job("W", wire)
    inner = job.stage.store._wire

    def timed(request: Request) -> Reply:
        reply = inner(request)
        job.stage.clock.now_s += reply.nap_s
        return reply

    job.stage.store._wire = timed
    job.commit()
    job.committer.settle()
    assert world.objects["snapshot/LATEST"] == b"4"
    asked: list[str] = []
    job.stage.store._wire = lambda request: (asked.append(request.label), world.apply(request))[1]
    assert job.commit().snapshot_id == 5
    assert asked.index("list snapshot/") < asked.index("create snapshot/snapshot-5")


def test_e_a_put_that_hangs_lands_after_resolve() -> None:
    """H9: the PUT hangs in a proxy, W gets an unknown outcome, `resolve` runs, and the PUT lands."""
    world = World()
    world.job("old").commits(1)
    hanging: list[Request] = []

    def wire(request: Request) -> Reply:
        if request.key == "snapshot/snapshot-2" and request.operation == "create" and len(hanging) < 3:
            hanging.append(request)
            return Reply(SILENCE)
        return world.apply(request)

    with pytest.raises(OutcomeUnknown) as unknown:
        world.job("W", wire).commit()
    receipt = unknown.value.resolve(timeout=0)
    assert receipt.snapshot_id == 2
    assert len({request.data for request in hanging}) == 1, "every send has the same bytes"
    assert [world.apply(request).status for request in hanging] == [412, 412, 412]
    assert world.files() == data("old1", "W1")
    assert len(world.objects) == len({*world.objects})


def test_f_a_zombie_publishes_under_its_retry() -> None:
    """G3: zombie A and retry B share an identity. B looks it up, A publishes, then B resolves and publishes."""
    world = World()
    world.job("old").commits(1)
    zombie = world.job("A")
    wire = Interrupted(world, "create", "snapshot/snapshot-2", lambda request: zombie.commit(("etl", 7)) and None)
    receipt = world.job("B", wire).commit(("etl", 7))
    assert receipt.replayed
    assert receipt.snapshot_id == 2
    assert world.files() == data("old1", "A1")


def test_g_both_merged_the_same_manifests() -> None:
    """H15: W merged manifests m1…m30, and so did the winner."""
    world = World(**{"manifest.merge-min-count": "10"})
    world.job("old").commits(9)
    wire = Interrupted(world, "create", "snapshot/snapshot-10", lambda request: world.job("B").commits(1) and None)
    receipt = world.job("W", wire).commit()
    assert (receipt.snapshot_id, receipt.attempts) == (11, 2)
    top = look(world.objects).top
    assert top is not None
    assert top.snapshot.total_record_count == top.rows == 11
    assert len(set(top.files)) == 11


def test_h_a_late_put_finds_its_name_freed() -> None:
    """H5, H9: the PUT of 5 times out, another writer's 5 is seen, W cleans up, a rollback frees 5, and the PUT lands."""
    world = World()
    world.job("old").commits(4)
    world.apply(Request("write", "snapshot/EARLIEST", b"1"))
    late: list[Request] = []

    def times_out(request: Request) -> Reply:
        late.append(request)
        world.job("B").commits(1)
        return Reply(SILENCE)

    job = world.job("W", Interrupted(world, "create", "snapshot/snapshot-5", times_out))
    assert job.commit().snapshot_id == 6
    job.committer.settle()
    world.play(rollback(4), "Z")
    assert world.apply(late[0]).status == 200
    reading = look(world.objects)
    assert reading.failure == ""
    assert reading.top is not None
    assert reading.top.needs <= set(world.objects), "no file that a late snapshot names was deleted"
    assert world.files() == data("old1", "old2", "old3", "old4", "W1")


# ------------------------------------------------------------------------------------------- found by the lab


def test_a_listing_that_lags_behind_is_no_fork() -> None:
    """G2, decision 3: the listing lacks the snapshot that just landed."""
    world = World()
    lagging = [True, True]

    def wire(request: Request) -> Reply:
        reply = world.apply(request)
        if request.operation == "list" and request.key == "snapshot/" and world.ids() and lagging:
            lagging.pop()
            return Reply(200, ())
        return reply

    assert world.job("W", wire).commit().snapshot_id == 1


def test_an_expiry_under_way_is_asked_again() -> None:
    """H6: a stale listing, a freed first name, and an expiry that removes the next one between listing and look."""
    world = World()
    world.job("old").commits(4)
    stale = [True]

    def wire(request: Request) -> Reply:
        if request.operation == "list" and stale:
            stale.clear()
            return Reply(200, ())
        if request.operation == "create" and request.key.startswith("snapshot/snapshot-"):
            world.apply(Request("delete", "", keys=("snapshot/snapshot-1",)))
        if request.label == "read snapshot/snapshot-2":
            world.apply(Request("delete", "", keys=("snapshot/snapshot-2", "snapshot/snapshot-3")))
        return world.apply(request)

    with pytest.raises((Fenced, OutcomeUnknown)):
        world.job("W", wire).commit()
    world.apply(Request("write", "snapshot/EARLIEST", b"4"))  # as Apache Paimon's expiry does at its end
    assert world.files() == data("old1", "old2", "old3", "old4")


def test_a_missing_manifest_list_is_an_error() -> None:
    """G4: the error for a snapshot that names a missing manifest list names that list."""
    world = World()
    world.job("old").commits(1)
    name = next(key for key in world.objects if key.startswith("manifest/manifest-list"))
    world.apply(Request("delete", "", keys=(name,)))
    assert name in look(world.objects).failure
    with pytest.raises(LakelatchError, match="missing"):
        world.job("W").commit()
    with pytest.raises(ObjectNotFound):
        world.job("W").stage.store.get(name)


def test_names_of_actors_are_unique() -> None:
    """Labels of a scenario distinguish its data files, so they must be unique."""
    from lakelatch.lab.scenarios.catalogue import DAILY, NIGHTLY

    for scenario in (*DAILY, *NIGHTLY):
        actors: tuple[Actor, ...] = (*scenario.before, *scenario.actors)
        assert len({actor.name for actor in actors}) == len(actors), scenario.name
