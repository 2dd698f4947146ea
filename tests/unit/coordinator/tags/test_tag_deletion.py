"""Tags are deleted: which files a plan names, in which order they go, and what an interrupted deletion leaves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pytest
from by_hand.snapshots import Refusing, bare, chain, keys, landed, snapshot, timeline

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.deletion import Steps
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.tags.creation import list_tags, replace_tag
from lakelatch.coordinator.tags.deletion import (
    UntaggingPlan,
    apply_untagging,
    plan_untagging,
    record_of,
    success_file,
    unfinished,
)
from lakelatch.core.errors import CommitConflict, InvalidArgument
from lakelatch.core.metadata.schema import TableSchema, new_schema, parse_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.metadata.tag import Tag
from lakelatch.core.rows.arrow import from_arrow_schema

COUNTER = itertools.count()
HISTORY = chain(1, 2, 3)
SCHEMA = new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])))
RECORDS = "lakelatch/untagged/main/"


@pytest.fixture
def store() -> Refusing:
    """Tags `a` and `b` of two snapshots that are there, and a branch with a tag of its own."""
    store = bare(branch="dev", store=bare())
    landed(store, *HISTORY)
    put(store, a=HISTORY[1], b=HISTORY[0])
    store.plain().put("branch/branch-dev/tag/tag-a", HISTORY[0].to_json())
    return store


def put(store: Refusing, **tags: Snapshot) -> None:
    for name, found in tags.items():
        store.plain().put(f"tag/tag-{name}", found.to_json())


def recorded(store: Refusing, name: str, found: Snapshot) -> str:
    """The record of a deletion that was cut off; its key."""
    key = record_of(timeline(store), Tag(name, found), found.to_json())
    store.plain().put(key, found.to_json())
    return key


def planned(store: Refusing, names: Iterable[str], interrupted: Iterable[str] = ()) -> UntaggingPlan:
    return plan_untagging(timeline(store), SCHEMA, names, interrupted)


def tags(store: Refusing) -> list[str]:
    return [tag.name for tag in list_tags(timeline(store.plain()))]


# ------------------------------------------------------------------------------------------------- a plan that frees nothing


def test_tags_of_snapshots_that_are_there_only_lose_their_own_files(store: Refusing) -> None:
    plan = planned(store, ["a", "b", "a"])
    assert [(tag.name, tag.snapshot.id) for tag in plan.tags] == [("a", 2), ("b", 1)]
    assert plan.files == (("tag/tag-a", HISTORY[1].to_json()), ("tag/tag-b", HISTORY[0].to_json()))
    assert (plan.steps, plan.records, plan.usage) == (Steps(), (), None)
    others = {"snapshot/snapshot-1", "snapshot/snapshot-2", "snapshot/snapshot-3", "branch/branch-dev/tag/tag-a"}
    assert {info.key for info in plan.seen} == others
    assert store.changes == []
    assert apply_untagging(timeline(store), plan) is plan
    deleted = ["tag/tag-a", "tag/tag-b", "tag/tag-success-file/a_SUCCESS", "tag/tag-success-file/b_SUCCESS"]
    assert store.changes == [f"delete {key}" for key in deleted]
    assert keys(store, "branch/branch-dev/tag/") == ["branch/branch-dev/tag/tag-a"]


def test_the_tags_of_a_branch_are_its_own(store: Refusing) -> None:
    landed(store, HISTORY[0], branch="dev")
    dev = timeline(store, "dev")
    apply_untagging(dev, plan_untagging(dev, SCHEMA, ["a"]))
    assert (keys(store, "branch/branch-dev/tag/"), tags(store)) == ([], ["b", "a"])
    assert record_of(dev, Tag("a", HISTORY[0]), b"x").startswith("lakelatch/untagged/dev/a/")
    assert success_file(dev, "a") == "branch/branch-dev/tag/tag-success-file/a_SUCCESS"


@pytest.mark.parametrize("happens", ["never there", "gone after the listing"])
def test_a_tag_that_does_not_exist_is_named(store: Refusing, happens: str) -> None:
    if happens == "never there":
        store.plain().delete_many(["tag/tag-a"])
    store.plans["get tag/tag-a"] = lambda: store.plain().delete_many(["tag/tag-a"])
    with pytest.raises(InvalidArgument) as raised:
        planned(store, ["b", "a"])
    assert (raised.value.message, raised.value.next_step) == ("there is no tag 'a'", "tags() lists them")


def test_a_tag_that_was_replaced_since_the_plan_stays_and_one_that_is_gone_does_no_harm(store: Refusing) -> None:
    plan = planned(store, ["b", "a"])
    put(store, a=HISTORY[2])
    with pytest.raises(CommitConflict) as raised:
        apply_untagging(timeline(store), plan)
    assert raised.value.message == "tag/tag-a was replaced since its deletion was planned"
    assert store.changes == []
    store.plain().delete_many(["tag/tag-a"])
    apply_untagging(timeline(store), plan)
    assert tags(store) == []


# -------------------------------------------------------------------------------------------------- interrupted deletions


def test_a_record_has_the_name_of_its_tag_and_a_digest() -> None:
    store = bare()
    data = HISTORY[0].to_json()
    assert record_of(timeline(store), Tag("eod", HISTORY[0]), data) == f"{RECORDS}eod/{sha256(data).hexdigest()[:16]}"


def test_deletions_that_were_cut_off_are_found_by_their_records(store: Refusing) -> None:
    """Not that of a tag that still is what the record says: its deletion had not begun."""
    for name in ("z", "y", "x", "c", "d"):
        recorded(store, name, HISTORY[0])
    recorded(store, "a", HISTORY[1])
    assert unfinished(timeline(store)) == ["c", "d", "x", "y", "z"]
    recorded(store, "a", HISTORY[2])
    assert unfinished(timeline(store)) == ["a", "c", "d", "x", "y", "z"], "it was replaced earlier"
    assert unfinished(timeline(store, "dev")) == []


def test_what_was_cut_off_is_part_of_a_plan_once(store: Refusing) -> None:
    key = recorded(store, "cut", HISTORY[2])
    plan = planned(store, ["cut"], ["cut"])
    assert plan.records == ((key, HISTORY[2].to_json()),)
    assert [tag.name for tag in plan.tags] == ["cut"]
    assert plan.files == ()
    apply_untagging(timeline(store), plan)
    assert keys(store, "lakelatch/") == []
    assert tags(store) == ["b", "a"]


def test_only_the_records_of_the_names_that_are_given_go(store: Refusing) -> None:
    recorded(store, "a", HISTORY[0])
    left = [recorded(store, name, HISTORY[0]) for name in ("aa", "other")]
    plan = planned(store, ["a"])
    assert [tag.name for tag in plan.tags] == ["a", "a"]
    apply_untagging(timeline(store), plan)
    assert keys(store, "lakelatch/") == left


def test_the_tag_of_an_interrupted_name_stays_with_its_success_file(store: Refusing) -> None:
    """Another tag had the name before; only what that one left goes."""
    mark = success_file(timeline(store), "a")
    store.plain().put(mark, b"{}")
    key = recorded(store, "a", HISTORY[0])
    assert planned(store, [], ["a"]).records == ((key, HISTORY[0].to_json()),)
    apply_untagging(timeline(store), planned(store, [], ["a"]))
    assert keys(store, "lakelatch/") == []
    assert tags(store) == ["b", "a"]
    assert mark in keys(store)


def test_a_record_of_what_the_tag_still_is_stays(store: Refusing) -> None:
    key = recorded(store, "a", HISTORY[1])
    plan = planned(store, [], ["a"])
    assert (plan.tags, plan.records) == ((), ())
    apply_untagging(timeline(store), plan)
    assert keys(store, "lakelatch/") == [key]
    apply_untagging(timeline(store), planned(store, ["a"], ["a"]))
    assert keys(store, "lakelatch/") == []
    assert tags(store) == ["b"]


# ------------------------------------------------------------------------------------------------------------- the plan


def test_a_plan_prints_as_one_line_and_goes_into_json() -> None:
    assert str(UntaggingPlan()) == "no tag is deleted"
    steps = Steps(("d1", "d2", "d3"), ("l1", "l2"), ("m",))
    one = UntaggingPlan((Tag("a", snapshot(9)),), steps)
    assert str(one) == "tag a: 3 data files, 3 files of metadata"
    more = UntaggingPlan((Tag("a", snapshot(19)), Tag("b", snapshot(8)), Tag("a", snapshot(8))), steps)
    assert str(more) == "3 tags (a, b): 3 data files, 3 files of metadata"
    assert more.to_dict() == {
        "tags": ["a", "b", "a"], "snapshots": [8, 19], "data_files": ["d1", "d2", "d3"],
        "metadata_files": ["l1", "l2", "m"],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ tags of expired snapshots


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """1: p=1; 2: p=1, p=2; 3 and 4: p=3 alone. Snapshots 1 to 3 have expired; tags `one`, `two` and `again` (of 2) are left."""
    rewritten = {"manifest.full-compaction-threshold-size": "1 b"}  # so that newer snapshots do not keep old manifests
    url = f"memory://tag-deletion-{next(COUNTER)}/t"
    table = ll.create_table(url, pa.schema([("v", pa.int64())]), options=rewritten)
    for value in (1, 2):
        table.append(pa.table({"v": [value]}))
    table.create_tag("one", snapshot=1)
    table.create_tag("two", snapshot=2)
    table.create_tag("again", snapshot=2, keep="1 d")
    for value in (3, 4):
        table.overwrite(pa.table({"v": [value]}), partition={})
    table.committer.settle()
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=1)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    return {info.key: table.store.get(info.key) for info in table.store.list("")}


@pytest.fixture
def expired(objects: dict[str, bytes]) -> Refusing:
    store = Refusing(f"memory://tag-deletion-{next(COUNTER)}/t")
    for key, data in objects.items():
        MemoryStore.put(store, key, data)
    return store


def schema_of(store: Refusing) -> TableSchema:
    return parse_schema(store.plain().get("schema/schema-0"), "schema/schema-0")


def freeing(store: Refusing, *names: str, interrupted: Iterable[str] = ()) -> UntaggingPlan:
    return plan_untagging(timeline(store), schema_of(store), names, interrupted)


def test_a_plan_names_what_nothing_else_keeps_and_records_its_tag(expired: Refusing) -> None:
    assert len(freeing(expired, "two").steps) == 0, "the other tag of the snapshot keeps all of it"
    plan = freeing(expired, "two", "again")
    assert (len(plan.steps.data), len(plan.steps.leaves), len(plan.steps.lists)) == (1, 1, 2)
    assert plan.steps.data == tuple(sorted(plan.steps.data))
    assert [key.rpartition("/")[0] for key, _ in plan.records] == [f"{RECORDS}two", f"{RECORDS}again"]
    assert dict(plan.files) == {key: expired.plain().get(key) for key in ("tag/tag-two", "tag/tag-again")}
    assert {info.key for info in plan.seen} == {"snapshot/snapshot-4", "tag/tag-one"}
    assert freeing(expired, "two", "again") == plan
    assert "usage" not in repr(plan) and "records" not in repr(plan) and "seen" not in repr(plan)


def test_all_tags_at_once_free_what_any_of_them_kept(expired: Refusing) -> None:
    plan = freeing(expired, "one", "two", "again")
    assert (len(plan.steps.data), len(plan.steps.leaves), len(plan.steps.lists)) == (2, 2, 4)
    assert plan.steps.data == tuple(sorted(plan.steps.data))
    found = [timeline(expired).tag(name) for name in ("one", "two")]
    lists = [sorted((one.base_manifest_list, one.delta_manifest_list)) for one in found]
    assert plan.steps.lists == tuple(f"manifest/{name}" for names in lists for name in names)
    apply_untagging(timeline(expired), plan)
    assert tags(expired) == []
    assert not set(plan.to_dict()["data_files"] + plan.to_dict()["metadata_files"]) & set(keys(expired))


def test_records_come_first_and_go_last(expired: Refusing) -> None:
    told: list[tuple[int, int]] = []
    plan = freeing(expired, "two", "again")
    done = apply_untagging(timeline(expired), plan, lambda count, total: told.append((count, total)))
    assert done == plan
    records = [key for key, _ in plan.records]
    assert expired.changes[:2] == [f"put {key}" for key in records]
    assert expired.changes[2:4] == ["delete tag/tag-two", "delete tag/tag-again"]
    assert expired.changes[-2:] == [f"delete {key}" for key in records]
    assert told[-1] == (4, 4)
    assert keys(expired, "lakelatch/untagged/") == []


def test_a_tag_that_comes_after_the_plan_keeps_its_files_and_the_answer_says_so(expired: Refusing) -> None:
    plan = freeing(expired, "two", "again")
    copy = expired.plain().get("tag/tag-two")
    expired.once("delete tag/tag-two", lambda: expired.plain().put("tag/tag-copy", copy))
    done = apply_untagging(timeline(expired), plan)
    assert len(done.steps) == 0
    assert replace(done, steps=plan.steps) == plan
    assert set(plan.steps.data) <= set(keys(expired))
    assert keys(expired, "lakelatch/untagged/") == []


def test_a_tag_that_is_replaced_frees_what_only_it_kept(expired: Refusing) -> None:
    """With a record until it is gone."""
    expired.plain().delete_many(["tag/tag-again"])
    plan, old = freeing(expired, "two"), Tag("two", timeline(expired).tag("two"))
    new = Tag("two", timeline(expired).snapshot(4))
    assert replace_tag(timeline(expired), schema_of(expired), old, new) is new
    ((key, _),) = plan.records
    assert expired.changes[:2] == [f"put {key}", "put tag/tag-two"]
    assert expired.changes[-1] == f"delete {key}"
    assert not set(plan.steps.data) & set(keys(expired))
    assert [(tag.name, tag.snapshot.id) for tag in list_tags(timeline(expired))] == [("one", 1), ("two", 4)]


def test_a_name_that_another_snapshot_has_by_now_keeps_nothing_of_the_tags(expired: Refusing) -> None:
    """A rollback and new commits have given the id to another snapshot."""
    newest = timeline(expired).snapshot(4)
    landed(expired, replace(newest, id=2, uuid="theirs"), replace(newest, id=3, uuid="third"))
    assert len(freeing(expired, "two", "again").steps.data) == 1


def test_what_a_deletion_has_left_is_deleted_by_the_next_plan_of_its_name(expired: Refusing) -> None:
    plan = freeing(expired, "two", "again")
    for key, data in plan.records:
        expired.plain().put(key, data)
    expired.plain().delete_many([key for key, _ in plan.files])
    for found in (freeing(expired, "two", "again"), freeing(expired, interrupted=["again", "two"])):
        assert found.steps == plan.steps
        assert sorted(found.records) == sorted(plan.records)
        assert found.files == ()
    assert freeing(expired, "two", interrupted=["again"]).steps == plan.steps
    apply_untagging(timeline(expired), freeing(expired, interrupted=["again", "two"]))
    assert not set(plan.steps.data) & set(keys(expired))
    assert keys(expired, "lakelatch/untagged/") == []
    assert tags(expired) == ["one"]
