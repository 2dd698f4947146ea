"""The steps after a snapshot was sent: whose it is, whether it stands, the hint, and what is cleaned up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from steps import EARLIEST, LATEST, SCHEMA, World

from lakelatch.backends.requests.deadline import left_s
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.core.errors import ProtocolViolation, StoreUnavailable


def test_reading_back_tells_whose_snapshot_it_is() -> None:
    world = World(1)
    run, made = world.prepared()
    before = len(world.slept)
    assert run.read_back(do.ReadBack(made.snapshot, 1, True)) == ev.FoundNothing()
    assert (len(world.slept), run.others_met) == (before, 0)
    run.publish(do.Publish(made.snapshot, 1))
    assert run.read_back(do.ReadBack(made.snapshot, 3, True)) == ev.FoundOurs()
    assert world.slept[before:] == [0.4]
    other, lost = World(1), World(1)
    run, made = other.prepared()
    other.append("theirs", other.another(), commit_user="rival")
    found = run.read_back(do.ReadBack(made.snapshot, 1, False))
    assert isinstance(found, ev.FoundAnother)
    assert (found.winner.id, found.user, [s.id for s in run.lost]) == (2, "rival", [2])
    run.lost += [run.lost[0], replace(run.lost[0], properties={})]
    assert run.others_met == 2, "two committers, one of them twice"
    run, made = lost.prepared()
    lost.inner.put("snapshot/snapshot-2", b"{")
    assert isinstance(run.read_back(do.ReadBack(made.snapshot, 1, False)), ev.ReadBackFailed)
    assert run.lost == []


# ---------------------------------------------------------------------------------------------------------------- verify


def test_a_base_that_was_replaced_is_looked_at_twice() -> None:
    """The table may be in the middle of a move at the first look."""
    world = World(1)
    run, made = world.sent()
    assert run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 1)) == ev.LineageVerified()
    world.inner.delete_many(["schema/schema-0"])
    run.timeline.first_schema = SCHEMA.to_json()
    world.inner.delete_many(["snapshot/snapshot-1"])
    first = run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 1))
    assert isinstance(first, ev.LineageUnread)
    before = len(world.slept)
    world.inner.delete_many([EARLIEST])
    second = run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 2))
    assert world.slept[before:] == [0.2]
    assert isinstance(second, ev.LineageBroken)
    assert (second.code, second.table_gone) == ("table-not-found", True)
    assert "snapshot/snapshot-2" in world.inner.deleted, "it was taken away again"
    assert not run.sent, "no snapshot names its data files any more"


def test_a_snapshot_on_another_table_that_stands_is_taken_away_and_the_table_is_not_gone() -> None:
    world = World(1)
    run, made = world.sent()
    run.timeline.first_schema = b"another"
    world.inner.delete_many(["snapshot/snapshot-1"])
    found = run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 2))
    assert isinstance(found, ev.LineageBroken)
    assert (found.code, found.table_gone) == ("table-not-found", False)


def test_a_snapshot_that_cannot_be_taken_away_is_not_given_up() -> None:
    world = World(1)
    run, made = world.sent()
    run.timeline.first_schema = b"another"
    world.inner.delete_many(["snapshot/snapshot-1"])

    def away(operation: str, key: str) -> None:
        if operation == "delete":
            raise StoreUnavailable("403")

    world.inner.at = away
    found = run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 2))
    assert isinstance(found, ev.LineageUnread)
    assert found.reason.endswith("; 403")
    assert run.sent


def test_a_snapshot_whose_base_was_renamed_over_is_read_by_everybody() -> None:
    world, foreign = World(1), World(1)
    run, made = world.sent()
    world.inner.put("snapshot/snapshot-1", foreign.inner.get("snapshot/snapshot-1"))
    assert run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 1)) == ev.LineageVerified()


def test_an_aged_base_is_verified_with_the_hint_of_expiry() -> None:
    world = World(1)
    run, made = world.sent()
    world.store.reset()
    world.now_s += 1.0
    run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 1))
    assert world.store.snapshot().requests == 1, "seen a second ago"
    world.now_s += 0.001
    run.verify_lineage(do.VerifyLineage(made.base, made.snapshot, 1))
    assert world.store.snapshot().requests == 1 + 2, "and EARLIEST"


# ----------------------------------------------------------------------------------------------------- hint and clean-up


def test_a_hint_is_written_unless_a_newer_snapshot_is_known() -> None:
    world = World(1)
    run, _ = world.sent()
    world.store.reset()
    assert run.write_hint(do.WriteHint(2), 3) == ev.HintSkipped("snapshot 3 is newer")
    assert world.store.snapshot().requests == 0
    assert run.write_hint(do.WriteHint(2), 2) == ev.HintWritten(2)
    assert (world.inner.get(LATEST), world.store.snapshot().by_operation) == (b"2", {"put": 1})


@pytest.mark.parametrize(
    ("hint", "wanted"),
    [(b"1", ev.HintWritten(2)), (b"", ev.HintWritten(2)), (b"2", None), (b"3", None), (None, ev.HintWritten(2))],
)
def test_after_a_lost_race_the_hint_of_others_is_read_first(hint: bytes | None, wanted: ev.Event | None) -> None:
    """H7: a hint never goes back."""
    world = World(1)
    run, _ = world.sent()
    run.lost.append(run.timeline.snapshot(1))
    world.inner.delete_many([LATEST])
    if hint is not None:
        world.inner.put(LATEST, hint)
    assert run.write_hint(do.WriteHint(2), 0) == (wanted or ev.HintSkipped("another writer's hint is newer"))
    assert world.inner.get(LATEST) == (b"2" if wanted else hint)


def test_a_store_that_takes_a_file_now_and_then_gets_the_next_hint_as_soon_as_it_may() -> None:
    world = World(1)
    run, _ = world.sent()
    assert run.write_hint(do.WriteHint(2), 2) == ev.HintWritten(2)
    before = len(world.slept)
    run.rest_before_hint()
    assert world.slept[before:] == [], "most stores take another one at once"
    world.inner.rewrite_seconds = 1.0  # type: ignore[attr-defined]
    world.now_s += 0.25
    run.rest_before_hint()
    assert world.slept[before:] == [0.75]
    world.now_s += 0.75
    run.rest_before_hint()
    assert world.slept[before:] == [0.75]


def test_a_hint_is_written_within_five_seconds_of_the_send() -> None:
    world, left = World(1), list[float]()
    run, _ = world.sent()
    run.lost.append(run.timeline.snapshot(1))
    world.inner.at = lambda operation, key: left.append(left_s())
    world.now_s += 4.0
    assert run.write_hint(do.WriteHint(2), 0) == ev.HintWritten(2)
    assert left == [pytest.approx(1.0, abs=0.3)] * 2, "reading it, and writing it"
    world.now_s += 1.0
    assert run.write_hint(do.WriteHint(2), 0) == ev.HintSkipped("too late")
    assert run.attempt is not None
    run.attempt = replace(run.attempt, sent_ms=None)
    assert run.write_hint(do.WriteHint(2), 0) == ev.HintSkipped("too late"), "it was never sent"


def test_only_what_no_snapshot_names_is_deleted() -> None:
    """H5, H20."""
    world = World(1)
    run, made = world.prepared()
    run.discard(do.Discard(("manifest-list-u1-9",)), landed=False)
    assert sorted(set(world.inner.deleted)) == ["bucket-0/ours", "manifest/manifest-list-u1-9"], "nothing was sent"
    run.publish(do.Publish(made.snapshot, 1))
    world.inner.deleted.clear()
    run.settler.key_rules.superseded.append("bucket-0/older")
    run.discard(do.Discard(("manifest-list-u1-9",)), landed=False)
    assert world.inner.deleted == ["manifest/manifest-list-u1-9"]
    world.inner.deleted.clear()
    run.discard(do.Discard(("manifest-list-u1-9",)), landed=True)
    assert world.inner.deleted == ["manifest/manifest-list-u1-9", "bucket-0/older"]
    world.inner.deleted.clear()
    with pytest.raises(ProtocolViolation):
        run.discard(do.Discard(("manifest-u1-0",)), landed=True)
    assert world.inner.deleted == []


def test_index_files_that_were_made_for_nothing_are_deleted_when_another_process_landed_the_commit() -> None:
    world = World(1)
    run, _ = world.prepared()
    assert run.attempt is not None
    run.attempt = replace(run.attempt, settled=None)
    run.left.made.append("index/index-u1-0")
    run.discard_superseded()
    assert world.inner.deleted == ["index/index-u1-0"]


def test_a_clean_up_that_fails_is_left_to_the_cleaner() -> None:
    world = World(1)
    run, _ = world.sent()

    def away(operation: str, key: str) -> None:
        raise StoreUnavailable("away")

    world.inner.at = away
    run.discard(do.Discard(("manifest-list-u1-9",)), landed=True)
    run.remove_intents(do.RemoveIntents(("intent-2-u1.json",)))
    assert world.inner.deleted == ["manifest/manifest-list-u1-9", "lakelatch/intents/intent-2-u1.json"]


def test_the_next_commit_builds_on_what_landed_without_reading_it() -> None:
    world = World(1)
    run, made = world.sent()
    base = run.next_base()
    assert (base.ref, base.schema_id, base.seen_ms) == (made.snapshot, 0, world.now_s * 1000)
    assert base.snapshot is not None
    assert base.manifests == run.timeline.manifests(base.snapshot)
    assert (base.unread, base.unhinted) == (False, None)
