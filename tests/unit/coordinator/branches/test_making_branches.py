"""A branch is made: what is written and in which order, what is refused, and what is left after a refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from by_hand.snapshots import Refusing, bare, chain, keys, landed, raising, snapshot, timeline

from lakelatch.backends.probe import PROBED
from lakelatch.backends.store import Created
from lakelatch.coordinator.branches.claim import Claim, claim_key, claim_of
from lakelatch.coordinator.branches.create import create_branch, ensure_safe, source_of
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, TableCorrupt, TableExists, UnsafeBackend
from lakelatch.core.metadata.snapshot import Snapshot

HISTORY = [replace(one, schema_id=one.id - 1) for one in chain(1, 2, 3)]
AROUND = replace(MACHINE, new_uuid=lambda: uuid.UUID(int=7), wall_s=lambda: 5.0, sleep=lambda seconds: None)
MAKER = f"{7:032x}"
KEPT = f"tag/tag-branch-3-{MAKER[:8]}"


@pytest.fixture
def store() -> Refusing:
    """Snapshots 1 to 3, written with schemas 0 to 2, and tag `eod` of the second."""
    store = bare(0, 1, 2)
    landed(store, *HISTORY)
    store.plain().put("tag/tag-eod", HISTORY[1].to_json())
    PROBED.remember(store.url)
    return store


def made(store: Refusing, begin: Snapshot | None = None, tag: str | None = None, branch: str = "main") -> None:
    create_branch(source_of(timeline(store, branch), begin, tag), "b", AROUND)


def files(store: Refusing) -> list[str]:
    return [key.removeprefix("branch/branch-b/") for key in keys(store, "branch/branch-b/")]


# ------------------------------------------------------------------------------------------------------------ the source


def test_a_source_has_the_schemas_up_to_that_of_its_snapshot(store: Refusing) -> None:
    here = timeline(store)
    assert source_of(here, HISTORY[1], "eod") == replace(source_of(here, HISTORY[1], None), tag="eod")
    assert source_of(here, HISTORY[1], None).schema_ids == (0, 1)
    assert source_of(here, None, None).schema_ids == (0, 1, 2)
    assert source_of(here, HISTORY[0], None).snapshot is HISTORY[0]


def test_a_source_whose_schemas_are_lost_is_damaged() -> None:
    store = bare(2)
    with pytest.raises(TableCorrupt) as raised:
        source_of(timeline(store), HISTORY[1], None)
    assert raised.value.message == "schema/schema-0 is missing; snapshot/snapshot-2 needs it"
    tagged = replace(HISTORY[1], read_from="tag/tag-eod")
    with pytest.raises(TableCorrupt, match="schema/schema-0 is missing; tag/tag-eod needs it"):
        source_of(timeline(store), tagged, "eod")
    store.plain().delete_many(["schema/schema-2"])
    with pytest.raises(TableCorrupt) as raised:
        source_of(timeline(store), None, None)
    assert raised.value.message == "schema/schema-0 is missing"


# ---------------------------------------------------------------------------------------------------------------- made


def test_the_claim_says_what_the_branch_is_made_from(store: Refusing) -> None:
    made(store, HISTORY[1])
    assert claim_of(store, "b") == Claim(MAKER, "main", 2, "uuid-2", None, 1, 5_000)
    store.plain().delete_many(keys(store, "branch/"))
    made(store, HISTORY[1], "eod")
    assert claim_of(store, "b") == Claim(MAKER, "main", 2, "uuid-2", "eod", 1, 5_000)
    store.plain().delete_many(keys(store, "branch/"))
    made(store)
    assert claim_of(store, "b") == Claim(MAKER, "main", None, None, None, 2, 5_000)


def test_each_file_is_the_sources_own_and_schema_0_comes_last(store: Refusing) -> None:
    made(store, HISTORY[2])
    root = "create branch/branch-b/"
    order = ["lakelatch/origin", KEPT, "snapshot/snapshot-3", "schema/schema-2", "schema/schema-1", "schema/schema-0"]
    assert [change for change in store.changes if change != f"create {KEPT}"] == [root + name for name in order]
    assert store.changes[1] == f"create {KEPT}"
    for name in order[1:]:
        assert store.get(f"branch/branch-b/{name}") == store.get(name)


def test_a_branch_of_a_branch_is_made_from_that_branchs_files(store: Refusing) -> None:
    bare(0, 1, branch="a", store=store)
    store.plain().put("branch/branch-a/schema/schema-1", b"altered in a")
    theirs = snapshot(4, schema_id=1)
    landed(store, theirs, branch="a")
    made(store, theirs, branch="a")
    assert store.get("branch/branch-b/schema/schema-1") == b"altered in a"
    assert claim_of(store, "b") == Claim(MAKER, "a", 4, "uuid-4", None, 1, 5_000)


def test_a_snapshot_is_copied_byte_for_byte_where_it_is_still_there(store: Refusing) -> None:
    """What else its file says stays, too; a tag's own fields do not come into the snapshot."""
    written = HISTORY[1].to_json().replace(b'"version"', b'"fromTheFuture": 1, "version"')
    store.plain().put("snapshot/snapshot-2", written)
    made(store, HISTORY[1], "eod")
    assert store.get("branch/branch-b/snapshot/snapshot-2") == written
    store.plain().delete_many(keys(store, "branch/"))
    landed(store, snapshot(2, "theirs"))
    made(store, HISTORY[1], "eod")
    assert store.get("branch/branch-b/snapshot/snapshot-2") == HISTORY[1].to_json()
    store.plain().delete_many([*keys(store, "branch/"), "snapshot/snapshot-2"])
    made(store, HISTORY[1], "eod")
    assert store.get("branch/branch-b/snapshot/snapshot-2") == HISTORY[1].to_json()


# -------------------------------------------------------------------------------------------------- a name that is taken


def refused(store: Refusing, begin: Snapshot | None = None) -> TableExists:
    before = keys(store)
    with pytest.raises(TableExists) as raised:
        made(store, begin)
    assert keys(store) == before, "a refusal leaves everything as it was"
    return raised.value


def test_a_branch_that_is_whole_is_not_written_to_again(store: Refusing) -> None:
    """Its first snapshot has expired in it since: the same call must not bring that back."""
    made(store, HISTORY[1])
    store.plain().delete_many(["branch/branch-b/snapshot/snapshot-2"])
    told = refused(store, HISTORY[1])
    assert told.message == f"{store.url} has a branch 'b'"
    assert told.next_step == "open it, or choose another name"


def test_a_branch_of_another_engine_is_whole_with_schema_0(store: Refusing) -> None:
    store.plain().put("branch/branch-b/schema/schema-0", b"{}")
    store.plain().put("branch/branch-b/snapshot/LATEST", b"1")
    assert refused(store).message == f"{store.url} has a branch 'b'"


def test_files_that_nobody_explains_hold_the_name(store: Refusing) -> None:
    store.plain().put("branch/branch-b/schema/schema-1", b"{}")
    told = refused(store)
    assert told.message == f"{store.url}: branch/branch-b/ holds files, but no schema and no word of their origin"
    assert told.next_step == "delete what is left of branch 'b' with delete_branch, or choose another name"


HELD = Claim("other", "dev", 9, "uuid-9", None, 0, 3)


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (HELD, "{url} has a branch 'b', or another call is making it: from snapshot 9 of branch 'dev'"),
        (replace(HELD, snapshot=None), "{url} has a branch 'b', or another call is making it: without a snapshot"),
        (
            replace(HELD, renamed="old"),
            "{url} has a branch 'b', or another call is making it: from branch 'old', which is being renamed",
        ),
        (replace(HELD, deleted=True), "branch 'b' of {url} is being deleted"),
    ],
)
def test_a_name_that_another_call_has_taken_says_by_what(store: Refusing, held: Claim, told: str) -> None:
    store.plain().put(claim_key("b"), held.to_json())
    assert refused(store, HISTORY[1]).message == told.format(url=store.url)


def test_a_claim_that_is_gone_by_the_time_it_is_read_was_somebodys(store: Refusing) -> None:
    store.once("create branch/branch-b/lakelatch/origin", lambda: store.plain().put(claim_key("b"), HELD.to_json()))
    reads = 0

    def second() -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            store.plain().delete_many([claim_key("b")])

    store.plans[f"get {claim_key('b')}"] = second
    assert refused(store).message == f"{store.url} has a branch 'b'"


@pytest.mark.parametrize(
    "left", ["snapshot/snapshot-2", "schema/schema-1", "tag/tag-eod", f"tag/tag-branch-2-{MAKER[:8]}"]
)
def test_a_call_that_was_cut_off_is_finished_unless_a_file_is_not_its_own(store: Refusing, left: str) -> None:
    """Other bytes under a name of the branch are those of another call."""
    made(store, HISTORY[1], "eod")
    whole = files(store)
    cut = ["branch/branch-b/schema/schema-0", f"branch/branch-b/{left}"]
    store.plain().delete_many(cut)
    made(store, HISTORY[1], "eod")
    assert files(store) == whole
    store.plain().delete_many(cut[:1])
    store.plain().put(cut[1], b"theirs")
    with pytest.raises(TableExists) as raised:
        made(store, HISTORY[1], "eod")
    told = f"{cut[1]} of {store.url} holds something else: another call made branch 'b' meanwhile"
    assert raised.value.message == told
    assert "schema/schema-0" not in files(store)


@pytest.mark.parametrize("data", [b"schema 0", b"theirs"])
def test_only_the_call_that_creates_schema_0_has_made_the_branch(store: Refusing, data: bytes) -> None:
    store.once(
        "create branch/branch-b/schema/schema-0",
        lambda: store.plain().put("branch/branch-b/schema/schema-0", data),
    )
    with pytest.raises(TableExists) as raised:
        made(store, HISTORY[1])
    assert raised.value.message == f"{store.url} has a branch 'b'"
    assert store.get("branch/branch-b/schema/schema-0") == data


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (None, "branch 'b' of {url} is being deleted"),
        (replace(HELD, deleted=True), "branch 'b' of {url} is being deleted"),
        (HELD, "{url} has a branch 'b', or another call is making it: from snapshot 9 of branch 'dev'"),
    ],
)
def test_a_name_that_was_taken_away_in_the_meantime_leaves_no_schema_0(
    store: Refusing, held: Claim | None, told: str
) -> None:
    def taken() -> None:
        store.plain().delete_many([claim_key("b")])
        if held is not None:
            store.plain().put(claim_key("b"), held.to_json())

    store.once("create branch/branch-b/schema/schema-0", taken)
    with pytest.raises(TableExists) as raised:
        made(store, HISTORY[1])
    assert raised.value.message == told.format(url=store.url)
    assert [key for key in files(store) if key.startswith("schema/")] == ["schema/schema-1"]
    assert keys(store, "tag/") == ["tag/tag-eod"]


@pytest.mark.parametrize("name", [7, "main", "5", "a/b"])
def test_a_name_that_no_branch_can_have_is_refused_without_a_request(store: Refusing, name: Any) -> None:
    source = source_of(timeline(store), HISTORY[1], None)
    store.reads.clear()
    with pytest.raises(InvalidArgument, match="branch"):
        create_branch(source, name, AROUND)
    assert store.reads == store.changes == []


# -------------------------------------------------------------------------------------------------- a source that expires


def expired(number: int) -> Callable[[Refusing], None]:
    return lambda store: store.plain().put("snapshot/EARLIEST", str(number).encode())


def deleted(key: str) -> Callable[[Refusing], None]:
    return lambda store: store.plain().delete_many([key])


def replaced(key: str) -> Callable[[Refusing], None]:
    return lambda store: store.plain().put(key, snapshot(2, "theirs").to_json())


@pytest.mark.parametrize(
    ("tag", "happens"),
    [
        (None, expired(3)), (None, expired(9)), (None, deleted("snapshot/snapshot-2")),
        (None, replaced("snapshot/snapshot-2")), ("eod", deleted("tag/tag-eod")), ("eod", replaced("tag/tag-eod")),
    ],
)  # fmt: skip
def test_a_source_that_goes_while_the_branch_is_made_leaves_nothing_of_it(
    store: Refusing, tag: str | None, happens: Callable[[Refusing], None]
) -> None:
    store.once("create branch/branch-b/snapshot/snapshot-2", lambda: happens(store))
    key = "snapshot/snapshot-2" if tag is None else "tag/tag-eod"
    with pytest.raises(InvalidArgument, match=f"^{key} has expired, or is about to") as raised:
        made(store, HISTORY[1], tag)
    assert raised.value.next_step == "choose a later snapshot, or a tag"
    assert files(store) == []


@pytest.mark.parametrize(
    ("tag", "happens"),
    [(None, expired(2)), (None, deleted("tag/tag-eod")), ("eod", expired(9)), ("eod", deleted("snapshot/snapshot-2"))],
)
def test_what_the_branch_does_not_need_may_go(
    store: Refusing, tag: str | None, happens: Callable[[Refusing], None]
) -> None:
    store.once("create branch/branch-b/snapshot/snapshot-2", lambda: happens(store))
    made(store, HISTORY[1], tag)
    assert "schema/schema-0" in files(store)


def test_an_interrupted_refusal_leaves_the_claim_to_the_end(store: Refusing) -> None:
    """What is left can still be explained, and deleted."""
    store.plain().put("snapshot/EARLIEST", b"3")
    store.plans["delete branch/branch-b/snapshot/snapshot-2"] = raising(StoreUnavailable("503"))
    with pytest.raises(InvalidArgument, match="has expired, or is about to") as raised:
        made(store, HISTORY[1])
    assert isinstance(raised.value.__cause__, StoreUnavailable)
    assert files(store) == ["lakelatch/origin", "snapshot/snapshot-2", f"tag/tag-branch-2-{MAKER[:8]}"]


# ------------------------------------------------------------------------------------------------------ unsafe stores


def test_a_store_that_overwrites_is_found_out_before_anything_is_written(store: Refusing) -> None:
    PROBED.forget(store.url)
    store.plans["create "] = Created
    with pytest.raises(UnsafeBackend):
        made(store, HISTORY[1])
    assert store.changes == ["create schema/schema-1"] * 2, "with what the newest schema holds already"
    assert files(store) == []


def test_a_store_that_has_refused_once_is_not_asked_again(store: Refusing) -> None:
    PROBED.forget(store.url)
    ensure_safe(timeline(store), (0, 1, 2))
    assert store.changes == ["create schema/schema-2"]
    ensure_safe(timeline(store), (0, 1, 2))
    assert store.changes == ["create schema/schema-2"]
    assert store.get("schema/schema-2") == b"schema 2"
