"""Each step of one commit up to its publish: which requests it makes, and which event it answers with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from steps import EARLIEST, SCHEMA, World, ours, request, resolved

from lakelatch.backends.store import AlreadyThere, Unknown
from lakelatch.coordinator.commit.attempt import MetadataFile
from lakelatch.coordinator.commit.request import RepeatableRequest
from lakelatch.coordinator.commit.steps.run import CommitRun
from lakelatch.coordinator.history.lost import replaced_before
from lakelatch.coordinator.identities import memory
from lakelatch.coordinator.identities.pages import parse_page
from lakelatch.coordinator.intents.intent import Intent
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.options import MANIFEST_MERGE_MIN_COUNT


def prepare(run: CommitRun, base: SnapshotRef) -> None:
    """The steps of an attempt from its base to its snapshot; no file is written."""
    assert isinstance(run.collect_changes(do.CollectChanges(base)), ev.ChangesCollected)
    run.compact_manifests(do.CompactManifests(base, True))
    for effect in (do.WriteBaseList(base), do.WriteDeltaList(base)):
        run.uploads(effect)
    assert isinstance(run.prepare_snapshot(do.PrepareSnapshot(ours(run))), ev.SnapshotPrepared)


# --------------------------------------------------------------------------------------------------------------- collect


def test_a_commit_begins_on_the_base_that_its_committer_knows() -> None:
    world = World(2)
    world.store.reset()
    found = resolved(world.run(request("ours", identifier=1)))
    assert world.store.snapshot().requests == 0
    assert (found.base and found.base.id, found.inspected_through, found.replay_of) == (2, 2, None)
    world.now_s += 30.0
    resolved(world.run())
    assert world.store.snapshot().requests == 0, "as old as it may be"
    world.now_s += 0.001
    resolved(world.run())
    assert world.store.snapshot().requests > 0, "older"


def test_a_base_below_the_snapshot_that_the_commit_read_is_not_built_on() -> None:
    world = World(1)
    run = world.run()
    world.append("theirs", world.another())
    read = world.run().timeline.latest()
    assert resolved(run).base == SnapshotRef(1, run.timeline.snapshot(1).identity), "nothing says that there is more"
    found = resolved(world.run(request("ours", read_snapshot=read)))
    assert found.base is not None and found.base.id == 2
    assert resolved(world.run(request("ours", read_snapshot=run.timeline.snapshot(1)))).base == resolved(run).base


def test_an_identity_that_landed_is_told_with_its_snapshot() -> None:
    world = World(0)
    world.append("mine", identifier=5)
    world.append("other")
    again = resolved(world.run(request("mine", identifier=5)))
    assert again.replay_of is not None
    assert (again.replay_of.id, again.last_identifier, again.inspected_through) == (1, 5, 2)
    lower = resolved(world.run(request("mine", identifier=4)))
    assert (lower.replay_of, lower.last_identifier) == (None, 5)
    anonymous = resolved(world.run())
    assert (anonymous.replay_of, anonymous.last_identifier) == (None, None)


def test_a_store_that_does_not_answer_fails_the_look() -> None:
    world = World(0)

    def away(operation: str, key: str) -> None:
        raise StoreUnavailable("away")

    world.inner.at = away
    world.inner.list = lambda prefix: away("list", prefix)  # type: ignore[assignment,method-assign,return-value]
    assert world.run().resolve_latest(do.ResolveLatest(1, None)) == ev.ResolveFailed("store-unavailable", "away")


def test_a_commit_does_not_go_on_while_it_is_not_known_what_became_of_its_intent() -> None:
    world = World(1)
    run = world.run()
    run.group.intent = Intent("c1", "etl", None, SnapshotRef(1, "replaced since"), 0, -1, 1, ())
    asked = do.ResolveLatest(2, SnapshotRef(1, "any"))
    answer = run.resolve_latest(replace(asked, registered_on=run.group.intent.base))
    why = "another snapshot 1 stands where its intent was registered"
    assert answer == ev.ResolveFailed("store-unavailable", why)
    assert run.group.intent is not None
    assert isinstance(run.resolve_latest(asked), ev.LatestResolved), "the machine knows of no intent: it was refused"
    assert run.group.intent is None


@pytest.mark.parametrize("renames", [True, False])
def test_the_winner_of_a_race_tells_that_another_engine_has_renamed_over_the_base(renames: bool) -> None:
    """Only engines without an atomic create do. The rows of that snapshot are gone, which is told once."""
    world = World(1)
    run, made = world.prepared()
    known = run.timeline.snapshot(1)
    if renames:
        world.inner.put("snapshot/snapshot-1", replace(known, uuid="renamed", commit_user="engine").to_json())
    world.append("theirs", world.another())
    assert isinstance(run.publish(do.Publish(made.snapshot, 1)), ev.PublishRefused)
    assert isinstance(run.read_back(do.ReadBack(made.snapshot, 1, False)), ev.FoundAnother)
    for attempt in (2, 3):
        found = run.resolve_latest(do.ResolveLatest(attempt, made.snapshot))
        assert isinstance(found, ev.LatestResolved) and found.base is not None and found.base.id == 2
        told = [(before.uuid, instead.uuid) for before, instead in run.left.replaced]
        assert told == ([(known.uuid, "renamed")] if renames else [])
    prepare(run, found.base)
    assert run.attempt is not None and run.attempt.snapshot is not None
    assert len(replaced_before(run.attempt.snapshot)) == renames, "its snapshot says so"


@pytest.mark.parametrize(
    ("attempt", "later_s", "rides", "looks"),
    [(2, 0.5, True, False), (2, 0.501, True, True), (3, 0.0, True, True), (2, 0.0, False, True)],
    ids=["just read", "a while ago", "it lost to it before", "it goes alone"],
)
def test_the_winner_of_a_race_is_the_newest_snapshot_for_a_commit_that_others_may_carry(
    attempt: int, later_s: float, rides: bool, looks: bool
) -> None:
    """If it has just been read, no other has come meanwhile that matters: whoever carries it is found by the next look."""
    world = World(1)
    run, made = world.prepared()
    run.group.allowed = rides
    world.append("theirs", world.another())
    assert isinstance(run.publish(do.Publish(made.snapshot, 1)), ev.PublishRefused)
    assert isinstance(run.read_back(do.ReadBack(made.snapshot, 1, False)), ev.FoundAnother)
    world.now_s += later_s
    world.store.reset()
    found = run.resolve_latest(do.ResolveLatest(attempt, made.snapshot))
    assert isinstance(found, ev.LatestResolved) and found.base is not None and found.base.id == 2
    assert (world.store.snapshot().requests > 0) is looks
    assert run.attempt is not None
    seen_s = world.now_s if looks else world.now_s - later_s
    assert run.attempt.base.seen_ms == seen_s * 1000, "its age counts from when it was asked for"


def test_collected_changes_are_counted() -> None:
    world = World(2)
    everything = request("ours", kind="OVERWRITE", target=lambda partition: True)
    run = world.run(replace(everything, read_snapshot=world.run().timeline.latest()))
    assert run.collect_changes(do.CollectChanges(resolved(run).base)) == ev.ChangesCollected(1, 2)


def test_a_base_that_was_left_unread_for_a_carrier_is_read_once() -> None:
    """The next attempt on the same base knows its manifests."""
    world = World(1)
    run = world.committer._run(request("ours"), "u1", world.store, rides=True, crowded=False)
    seen, again = resolved(run), do.ResolveLatest(2, resolved(run).base)
    world.append("theirs", world.another())
    requests = []
    for _ in range(2):
        found = run.resolve_latest(again)
        assert isinstance(found, ev.LatestResolved) and found.base != seen.base
        assert run.attempt is not None
        assert (run.attempt.base.schema_id, run.attempt.base.seen_ms) == (0, world.now_s * 1000)
        world.store.reset()
        assert run.collect_changes(do.CollectChanges(found.base)) == ev.ChangesCollected(1, 0)
        requests.append(world.store.snapshot().requests)
        assert run.attempt is not None and len(run.attempt.base_manifests) == 2
    assert requests == [2, 0], "its two lists"


@pytest.mark.parametrize("is_away", [False, True])
def test_a_leader_reads_the_manifests_of_its_base_while_it_looks_whom_it_can_carry(is_away: bool) -> None:
    """Early, so that a failure is none yet: it is told if they still cannot be read when they are needed."""
    world = World(1)
    run = world.committer._run(request("ours"), "u1", world.store, rides=True, crowded=False)
    again = do.ResolveLatest(2, resolved(run).base)
    world.append("theirs", world.another())
    found = run.resolve_latest(again)
    assert isinstance(found, ev.LatestResolved) and found.base is not None
    other = Intent("u2", "job", 1, found.base, 0, -1, 1, ())
    world.inner.put(f"lakelatch/intents/{other.file_name}", other.to_json())

    def away(operation: str, key: str) -> None:
        if is_away and key.startswith("manifest/"):
            raise StoreUnavailable("away")

    world.inner.at = away
    assert run.choose_riders(do.ChooseRiders(found.base, True)) == ev.RidersChosen(0)
    assert run.attempt is not None and run.attempt.base.unread is is_away
    collected = run.collect_changes(do.CollectChanges(found.base))
    assert isinstance(collected, ev.ResolveFailed if is_away else ev.ChangesCollected)


def test_history_that_is_gone_is_a_conflict_unless_the_table_is_gone_as_well() -> None:
    world = World(3)
    read = world.run().timeline.snapshot(1)
    made = request("ours", kind="OVERWRITE", target=lambda partition: True, read_snapshot=read)
    run = world.run(replace(made, isolation="serializable"))
    run.timeline.first_schema = b"another"
    found = run.collect_changes(do.CollectChanges(resolved(run).base))
    assert isinstance(found, ev.ConflictFound) and found.check == "appended_meanwhile", "nothing is missing"
    world.inner.delete_many(["snapshot/snapshot-2"])
    run = world.run(made)
    found = run.collect_changes(do.CollectChanges(resolved(run).base))
    assert isinstance(found, ev.ConflictFound) and found.check == "history_is_visible"
    run.timeline.first_schema = b"another"
    failed = run.collect_changes(do.CollectChanges(resolved(run).base))
    assert isinstance(failed, ev.ResolveFailed) and failed.code == "table-not-found"


def test_a_newer_schema_stops_rows_that_can_be_written_again() -> None:
    world = World(1)
    run, event = world.prepared(request("ours", RepeatableRequest))
    run.settler.newest_schema.saw(1)
    found = run.prepare_snapshot(do.PrepareSnapshot(event.snapshot))
    assert isinstance(found, ev.ConflictFound) and found.check == "newer_schema"
    again = run.collect_changes(do.CollectChanges(event.base))
    assert isinstance(again, ev.ConflictFound) and again.check == "newer_schema"
    assert run.tried == [event], "no other snapshot was built"


# --------------------------------------------------------------------------------------------------------------- uploads


def test_a_commit_that_lost_a_race_begins_no_merge_of_manifests() -> None:
    """H15: whatever the dice say that spare a crowd the same merge."""
    world = World(MANIFEST_MERGE_MIN_COUNT.default)
    for is_contended in (True, False):
        run = world.run()
        latest = resolved(run)
        run.collect_changes(do.CollectChanges(latest.base))
        assert run.group.may_merge()
        found = run.compact_manifests(do.CompactManifests(latest.base, is_contended))
        assert isinstance(found, ev.ManifestsCompacted) and (found.mode == "none") is is_contended


def test_the_first_commit_writes_where_the_history_begins_and_later_ones_do_not() -> None:
    world = World(0)
    run = world.run()
    resolved(run)
    run.collect_changes(do.CollectChanges(None))
    run.compact_manifests(do.CompactManifests(None, False))
    files, event = run.uploads(do.WriteBaseList(None))
    assert isinstance(event, ev.BaseListWritten)
    assert [(file.key, file.data) for file in files[:-1]] == [(EARLIEST, b"1")]
    assert (files[-1].name, event.beside) == (event.name, ())
    files, data = run.uploads(do.UploadData())
    assert ([file.key for file in files], data) == (["bucket-0/ours"], ev.DataUploaded(1))
    world.append("first")
    run, _ = world.prepared()
    assert [file.key for file in run.uploads(do.WriteBaseList(None))[0]] != []
    assert EARLIEST not in [file.key for file in run.uploads(do.WriteBaseList(None))[0]]


def test_where_the_history_begins_is_written_once_and_never_again() -> None:
    """H7: an expiry may have raised it meanwhile."""
    world = World(0)
    hint = MetadataFile("EARLIEST", EARLIEST, b"1")
    run = world.run()
    world.inner.creates = [Unknown("no answer"), Unknown("no answer")]
    run.write(hint)
    assert world.inner.get(EARLIEST) == b"1"
    run.write(replace(hint, data=b"7"))
    assert world.inner.get(EARLIEST) == b"1"
    world.inner.creates = [Unknown("no answer")] * 4
    run.write(hint)
    assert len(world.inner.creates) == 3, "it is there, whoever made it, and whether its create was answered or not"
    world.inner.delete_many([EARLIEST])
    with pytest.raises(StoreUnavailable, match="does not say whether snapshot/EARLIEST was created"):
        run.write(hint)
    assert world.inner.creates == [], "three sends"
    for data in (b"one", b"two"):
        run.write(MetadataFile("x", "manifest/x", data))
        assert world.inner.get("manifest/x") == data


def test_manifests_of_a_lost_attempt_are_used_again() -> None:
    """Only the lists are written anew: the base list always, the delta list not at all."""
    world = World(1)
    run, first = world.prepared()
    world.append("theirs", world.another())
    run.publish(do.Publish(first.snapshot, 1))
    assert isinstance(run.read_back(do.ReadBack(first.snapshot, 1, False)), ev.FoundAnother)
    found = run.resolve_latest(do.ResolveLatest(2, SnapshotRef(2, run.lost[0].identity)))
    assert isinstance(found, ev.LatestResolved) and found.base is not None and found.base.id == 2
    run.collect_changes(do.CollectChanges(found.base))
    run.compact_manifests(do.CompactManifests(found.base, True))
    assert len(run.uploads(do.WriteBaseList(found.base))[0]) == 1
    files, event = run.uploads(do.WriteDeltaList(found.base))
    assert files == []
    assert event == ev.DeltaListWritten("manifest-list-u1-1", ("manifest-u1-0",))


def test_a_commit_and_its_riders_move_others_out_of_the_memory_and_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each alone would have had room, so neither has read the page with the users who were moved out before."""
    monkeypatch.setattr(memory, "REMEMBERED_USERS", 4)
    world = World(0)
    for user in "abcdefgh":
        world.append(user, commit_user=user, identifier=1)
    latest = world.run().timeline.latest()
    assert latest is not None
    held = memory.memory_of(latest)
    (*_, rider, own), room = held.users, 4 - memory.weight(held.users)
    for number in range(room - 1):
        world.append(f"gap-{number}", commit_user=own, identifier=3 + 2 * number)
    run = world.run(request("ours", commit_user=own, identifier=50), world.another())
    base = resolved(run).base
    run.collect_changes(do.CollectChanges(base))
    run.compact_manifests(do.CompactManifests(base, False))
    run.group.riders = (Intent("c1", rider, 60, SnapshotRef(1, ""), 0, -1, 1, ()),)
    files, _ = run.uploads(do.WriteDeltaList(base))
    assert run.attempt is not None and run.attempt.memory.page not in (None, held.page)
    (page,) = (file.data for file in files if file.name == run.attempt.memory.page)
    assert {*parse_page(page, "page").users, *run.attempt.memory.users} == set("abcdefgh")


# --------------------------------------------------------------------------------------------------------------- publish


def test_a_snapshot_needs_its_own_files_and_those_of_its_base() -> None:
    world = World(1)
    run, event = world.prepared()
    assert run.attempt is not None
    latest = run.timeline.snapshot(1)
    inherited = {line.file_name for line in run.timeline.manifests(latest)}
    own = {"manifest-u1-0", "manifest-list-u1-0", "manifest-list-u1-1"}
    assert run.attempt.needs == own | inherited
    assert event.names == tuple(sorted(own))
    assert (event.snapshot, event.base) == (run.attempt.ours, SnapshotRef(1, latest.identity))
    assert event.text.encode() == run.attempt.data
    assert run.landed is not None and run.landed.id == 2
    assert replace(run.attempt, base_list=None).needs == frozenset()


@pytest.mark.parametrize(
    ("answer", "event"),
    [
        (None, ev.SnapshotPublished()),
        (AlreadyThere(), ev.PublishRefused(False)),
        (AlreadyThere(earlier_send=True), ev.PublishRefused(True)),
        (Unknown("reset"), ev.AnswerLost("reset")),
        (StoreUnavailable("403"), ev.UploadFailed("snapshot/snapshot-2", "403")),
    ],
)
def test_each_answer_to_a_publish_is_an_event(answer: Any, event: ev.Event) -> None:
    world = World(1)
    run, made = world.prepared()
    assert not run.sent
    world.inner.creates = [answer] if answer is not None else []
    assert run.publish(do.Publish(made.snapshot, 1)) == event
    assert world.slept[1:] == []
    assert run.sent and run.attempt is not None and run.attempt.sent_ms == world.now_s * 1000


def test_a_snapshot_whose_schema_cannot_be_read_is_not_built() -> None:
    """Another writer made a newer schema; whether it has the layout of the files is not known."""
    world = World(1)
    world.inner.put("schema/schema-1", replace(SCHEMA, id=1).to_json())
    run = world.run(committer=world.another())
    latest = resolved(run)
    run.collect_changes(do.CollectChanges(latest.base))
    run.compact_manifests(do.CompactManifests(latest.base, False))
    for effect in (do.WriteBaseList(latest.base), do.WriteDeltaList(latest.base)):
        run.uploads(effect)

    def away(operation: str, key: str) -> None:
        if key.startswith("schema/"):
            raise StoreUnavailable("away")

    world.inner.at = away
    assert run.prepare_snapshot(do.PrepareSnapshot(ours(run))) == ev.UploadFailed("snapshot", "away")
    assert (run.tried, run.sent, run.landed) == ([], False, None)


def test_another_send_waits_and_its_time_is_that_of_the_first() -> None:
    world = World(1)
    run, made = world.prepared()
    world.inner.creates = [Unknown("reset")]
    run.publish(do.Publish(made.snapshot, 1))
    first_ms, before = world.now_s * 1000, len(world.slept)
    world.now_s += 1
    assert run.publish(do.Publish(made.snapshot, 2)) == ev.SnapshotPublished()
    assert world.slept[before:] == [0.2]
    assert run.attempt is not None and run.attempt.sent_ms == first_ms


@pytest.mark.parametrize("there", [True, False, None], ids=["stands", "gone", "not told"])
def test_an_aged_base_is_looked_at_before_the_send(there: bool | None) -> None:
    world = World(1)
    run, made = world.prepared()
    world.now_s += 30.001
    if there is False:
        world.inner.delete_many(["snapshot/snapshot-1"])

    def away(operation: str, key: str) -> None:
        if there is None:
            raise StoreUnavailable("away")

    world.inner.at = away
    found = run.publish(do.Publish(made.snapshot, 1))
    assert found == (ev.SnapshotPublished() if there else ev.BaseAged())
    assert run.sent is bool(there)
    assert run.attempt is not None and (run.attempt.base.seen_ms == world.now_s * 1000) is bool(there)


def test_a_look_at_the_base_that_takes_too_long_proves_nothing() -> None:
    world = World(1)
    run, made = world.prepared()
    world.now_s += 31

    def slow(operation: str, key: str) -> None:
        world.now_s += 31

    world.inner.at = slow
    assert run.publish(do.Publish(made.snapshot, 1)) == ev.BaseAged()
