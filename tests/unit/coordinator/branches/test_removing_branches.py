"""A branch is deleted or renamed: which files go in which order, what is copied, and what is refused."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from by_hand.snapshots import Refusing, bare, keys, landed, raising, snapshot, timeline

from lakelatch.backends.local import LocalStore
from lakelatch.backends.probe import PROBED
from lakelatch.backends.store import Created, ObjectNotFound
from lakelatch.coordinator.branches.claim import Claim, claim_key, claim_of
from lakelatch.coordinator.branches.hold import maker_of
from lakelatch.coordinator.branches.names import Branch, list_branches
from lakelatch.coordinator.branches.remove import (
    BranchDeletion,
    apply_deletion,
    no_branch,
    plan_deletion,
    rename_branch,
)
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import InvalidArgument, TableExists, UnsafeBackend
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.rows.arrow import from_arrow_schema

AROUND = replace(MACHINE, new_uuid=lambda: uuid.UUID(int=7), wall_s=lambda: 5.0, sleep=lambda seconds: None)
MADE = Claim("maker", "main", 2, "uuid-2", None, 1, 3)
ROOT = "branch/branch-b/"
SCHEMAS = ("schema/schema-0", "schema/schema-1")
OTHERS = ("changelog/LATEST", "consumer/consumer-c", "notes", "snapshot/EARLIEST", "snapshot/LATEST")
ROOTS = ("changelog/changelog-1", "snapshot/snapshot-2", "snapshot/snapshot-3", "tag/tag-eod", "tag/tag-success-file/x")


def schema(**options: str) -> TableSchema:
    return new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])), options=options)


@pytest.fixture
def store() -> Refusing:
    """Branch `b` has files of every kind; `z` and `a` are other branches."""
    store = bare()
    landed(store, snapshot(2), snapshot(3), branch="b")
    for name in (*ROOTS, *OTHERS, *reversed(SCHEMAS)):
        if not name.startswith("snapshot/snapshot-"):
            store.plain().put(ROOT + name, b"1")
    store.plain().put(claim_key("b"), MADE.to_json())
    for other in ("z", "a"):
        bare(branch=other, store=store)
    PROBED.remember(store.url)
    return store


def within(*names: str) -> tuple[str, ...]:
    return tuple(ROOT + name for name in names)


def planned(store: Refusing, name: str = "b") -> BranchDeletion:
    return plan_deletion(timeline(store), schema(), name)


# ------------------------------------------------------------------------------------------------------------ deletion


def test_a_plan_names_the_files_in_the_order_in_which_they_go(store: Refusing) -> None:
    """Schemas first, and what keeps data files last; hints keep nothing."""
    plan = planned(store)
    assert (plan.schemas, plan.others, plan.roots) == (within(*SCHEMAS), within(*OTHERS), within(*ROOTS))
    assert plan.branch == Branch("b", plan.branch.created_ms if plan.branch else 0, 1, 3, 1)
    assert str(plan) == "branch 'b': snapshot 3, schema 1, 1 tags: 12 files of metadata"
    assert plan.to_dict() == {"branch": "b", "snapshot": 3, "files": list(within(*SCHEMAS, *OTHERS, *ROOTS))}
    assert store.changes == []


def test_what_is_left_of_a_branch_is_planned_without_it(store: Refusing) -> None:
    store.plain().delete_many(within(*SCHEMAS))
    plan = planned(store)
    assert (plan.branch, plan.schemas) == (None, ())
    assert str(plan) == "what is left of branch 'b': 10 files of metadata"
    assert plan.to_dict()["snapshot"] is None


def test_a_claim_alone_is_something_to_delete(store: Refusing) -> None:
    store.plain().delete_many(within(*SCHEMAS, *OTHERS, *ROOTS))
    assert planned(store) == BranchDeletion("b", None, (), (), ())
    apply_deletion(timeline(store), planned(store), AROUND)
    assert keys(store, ROOT) == []


def test_the_deletion_marks_the_claim_and_ends_with_it(store: Refusing) -> None:
    plan = planned(store)
    assert apply_deletion(timeline(store), plan, AROUND) is plan
    files = within(*SCHEMAS, *OTHERS, *ROOTS)
    assert store.changes == [f"put {claim_key('b')}", *(f"delete {key}" for key in files), f"delete {claim_key('b')}"]
    assert keys(store, "branch/") == ["branch/branch-a/schema/schema-0", "branch/branch-z/schema/schema-0"]


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (MADE, replace(MADE, deleted=True)),
        (None, Claim(maker_of(None, "b"), "main", *[None] * 3, 0, 5_000, None, True)),
    ],
)
def test_while_it_is_deleted_the_claim_says_so(store: Refusing, held: Claim | None, wanted: Claim) -> None:
    """Also that of a branch that another engine made, and which has none."""
    if held is None:
        store.plain().delete_many([claim_key("b")])
    seen: list[bytes] = []
    store.once(f"delete {ROOT}schema/", lambda: seen.append(store.plain().get(claim_key("b"))))
    apply_deletion(timeline(store), planned(store), AROUND)
    (said,) = seen
    assert json.loads(said) == {"version": 1, **vars(wanted)}
    assert keys(store, ROOT) == []


@pytest.mark.parametrize("group", ["schemas", "others", "roots"])
def test_a_rest_of_any_kind_is_deleted(store: Refusing, group: str) -> None:
    plan = planned(store)
    gone = [key for name in ("schemas", "others", "roots") if name != group for key in getattr(plan, name)]
    store.plain().delete_many(gone)
    apply_deletion(timeline(store), planned(store), AROUND)
    assert keys(store, ROOT) == []


def test_what_a_job_writes_to_the_branch_meanwhile_goes_too(store: Refusing) -> None:
    store.once(f"delete {ROOT}changelog/changelog-", lambda: landed(store, snapshot(4), branch="b"))
    apply_deletion(timeline(store), planned(store), AROUND)
    assert keys(store, ROOT) == []


def test_two_deletions_at_once_both_end(store: Refusing) -> None:
    store.once(f"delete {ROOT}changelog/changelog-", lambda: store.plain().delete_many(keys(store, ROOT)))
    apply_deletion(timeline(store), planned(store), AROUND)
    assert keys(store, ROOT) == []


def test_at_most_a_thousand_files_go_with_one_request(store: Refusing) -> None:
    """No store takes more."""
    many = tuple(f"{ROOT}notes-{n:04}" for n in range(2_001))
    for key in many:
        store.plain().put(key, b"")
    sizes: list[int] = []
    delete = store.delete_many
    store.delete_many = lambda names: (sizes.append(len(names := list(names))), delete(names))  # type: ignore[method-assign,assign]
    apply_deletion(timeline(store), BranchDeletion("b", None, (), many, ()), AROUND)
    assert sizes == [1_000, 1_000, 1, 2, 5, 5, 1], "those of the plan, then what else there is, then the claim"
    assert keys(store, ROOT) == []


def test_no_folder_stays(tmp_path: Path) -> None:
    """Apache Paimon would take it for a branch."""
    store = LocalStore(str(tmp_path / "t"))
    for key in ("schema/schema-0", f"{ROOT}schema/schema-0", f"{ROOT}snapshot/LATEST"):
        store.put(key, b"1")
    apply_deletion(timeline(store), plan_deletion(timeline(store), schema(), "b"), AROUND)  # type: ignore[arg-type]
    assert not (tmp_path / "t" / "branch" / "branch-b").exists()


def test_main_and_branches_that_do_not_exist_are_not_deleted(store: Refusing) -> None:
    with pytest.raises(InvalidArgument, match="branch 'main' is the table itself, and cannot be deleted"):
        planned(store, "main")
    with pytest.raises(InvalidArgument) as raised:
        planned(store, "x")
    assert (raised.value.message, raised.value.next_step) == (
        f"{store.url} has no branch 'x'",
        "branches are: a, b, z",
    )


def test_at_most_twenty_names_of_branches_are_told() -> None:
    store = bare()
    assert no_branch(store, "x").next_step == "the table has no branches"
    for number in range(25):
        bare(branch=f"b{number:02}", store=store)
    assert no_branch(store, "x").next_step == "branches are: " + ", ".join(f"b{n:02}" for n in range(20))


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
@pytest.mark.parametrize("doing", ["deleted", "renamed"])
def test_a_branch_that_partitions_are_read_from_is_kept(store: Refusing, option: str, doing: str) -> None:
    def attempt(named: str) -> Any:
        found = schema(**{option: named})
        if doing == "deleted":
            return plan_deletion(timeline(store), found, "b")
        return rename_branch(timeline(store), found, "b", "c", AROUND)

    with pytest.raises(InvalidArgument) as raised:
        attempt("b")
    assert raised.value.message == f"branch 'b' cannot be {doing}: option '{option}' names it"
    assert raised.value.next_step == f"remove the option first: table.alter(ll.remove_option('{option}'))"
    assert store.changes == []
    attempt("z")


# ------------------------------------------------------------------------------------------------------------- renamed


def renamed(store: Refusing, name: str = "b", new: str = "c") -> None:
    rename_branch(timeline(store), schema(), name, new, AROUND)


def held(store: Refusing, branch: str) -> dict[str, bytes]:
    root = f"branch/branch-{branch}/"
    return {key.removeprefix(root): store.plain().get(key) for key in keys(store, root) if key != claim_key(branch)}


def test_a_renamed_branch_has_the_same_files_and_the_same_origin(store: Refusing) -> None:
    before = held(store, "b")
    renamed(store)
    assert held(store, "c") == before
    assert keys(store, ROOT) == []
    assert claim_of(store, "c") == replace(MADE, time_ms=5_000)


def test_a_branch_without_a_claim_gets_one_with_its_newest_schema(store: Refusing) -> None:
    store.plain().delete_many([claim_key("b")])
    renamed(store)
    assert claim_of(store, "c") == Claim(maker_of(None, "b"), "main", None, None, None, 1, 5_000)


def test_the_new_name_does_not_inherit_that_a_deletion_was_begun(store: Refusing) -> None:
    store.plain().put(claim_key("b"), replace(MADE, deleted=True).to_json())
    renamed(store)
    assert claim_of(store, "c") == replace(MADE, time_ms=5_000)


def test_what_is_written_under_the_new_name_comes_in_the_order_of_a_new_branch(store: Refusing) -> None:
    """The claim, everything else, the schemas with schema 0 last; only then the old schema 0 goes."""
    renamed(store)
    new = "branch/branch-c/"
    created = [c.removeprefix(f"create {new}") for c in store.changes if c.startswith(f"create {new}")]
    assert created[0] == "lakelatch/origin"
    assert created[-2:] == ["schema/schema-1", "schema/schema-0"]
    assert sorted(created[1:-2]) == sorted([*ROOTS, "changelog/LATEST", "consumer/consumer-c", "notes"])
    at = store.changes.index
    assert (
        at(f"create {new}schema/schema-0") < at(f"delete {ROOT}schema/schema-0") < at(f"delete {ROOT}schema/schema-1")
    )


def test_while_it_is_renamed_the_new_claim_names_the_old_name(store: Refusing) -> None:
    seen: list[Claim | None] = []
    store.once("create branch/branch-c/schema/schema-0", lambda: seen.append(claim_of(store.plain(), "c")))
    renamed(store)
    assert seen == [replace(MADE, time_ms=5_000, renamed="b")]


def test_what_is_committed_before_the_old_name_goes_comes_along(store: Refusing) -> None:
    """With the hints as they are by then."""

    def committed() -> None:
        landed(store, snapshot(4), branch="b")
        store.plain().put(f"{ROOT}snapshot/LATEST", b"4")
        store.plain().put(f"{ROOT}snapshot/EARLIEST", b"3")

    store.once("create branch/branch-c/schema/schema-0", committed)
    renamed(store)
    after = held(store, "c")
    assert after["snapshot/snapshot-4"] == snapshot(4).to_json()
    assert (after["snapshot/LATEST"], after["snapshot/EARLIEST"]) == (b"4", b"3")


def test_a_file_that_expires_before_it_is_copied_is_left_out(store: Refusing) -> None:
    store.plans[f"get {ROOT}snapshot/snapshot-2"] = raising(ObjectNotFound("gone"))
    renamed(store)
    assert set(held(store, "c")) == {*SCHEMAS, *OTHERS, *ROOTS} - {"snapshot/snapshot-2"}


def test_files_that_are_there_are_not_read_again(store: Refusing) -> None:
    renamed(store)
    assert store.reads.count(f"get {ROOT}tag/tag-eod") == 1
    assert store.reads.count(f"get {ROOT}snapshot/LATEST") == 2


def cut_off(store: Refusing, request: str) -> None:
    store.plans[request] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        renamed(store)
    store.plans.clear()


@pytest.mark.parametrize(
    "request_",
    [
        "create branch/branch-c/snapshot/snapshot-3", "create branch/branch-c/schema/schema-0",
        f"delete {ROOT}schema/schema-0", f"put {ROOT}lakelatch/origin", f"delete {ROOT}schema/schema-1",
        f"delete {ROOT}changelog/changelog-", f"delete {ROOT}lakelatch/origin", "put branch/branch-c/lakelatch/origin",
    ],
)  # fmt: skip
def test_a_renaming_that_was_cut_off_is_finished_by_the_same_call(store: Refusing, request_: str) -> None:
    before = held(store, "b")
    cut_off(store, request_)
    renamed(store)
    assert held(store, "c") == before
    assert keys(store, ROOT) == []
    found = claim_of(store, "c")
    assert found == replace(MADE, time_ms=5_000)


def test_a_renaming_that_was_cut_off_does_not_ask_for_the_new_name_again(store: Refusing) -> None:
    """It has it, even if by now nothing says where the old branch came from."""
    before = held(store, "b")
    cut_off(store, "create branch/branch-c/schema/schema-0")
    store.plain().delete_many([claim_key("b")])
    store.changes.clear()
    renamed(store)
    assert f"create {claim_key('c')}" not in store.changes
    assert held(store, "c") == before
    assert keys(store, ROOT) == []


def test_the_name_of_a_renaming_that_was_cut_off_is_not_given_to_another_branch(store: Refusing) -> None:
    cut_off(store, f"delete {ROOT}schema/schema-0")
    with pytest.raises(TableExists) as raised:
        renamed(store, "z")
    assert raised.value.message == f"{store.url} has a branch 'c'"
    store.plain().delete_many(keys(store, ROOT))
    with pytest.raises(InvalidArgument, match="has no branch 'x'"):
        renamed(store, "x")
    renamed(store)
    found = claim_of(store, "c")
    assert found is not None
    assert found.renamed is None


def test_a_name_under_which_other_bytes_come_up_is_another_calls(store: Refusing) -> None:
    store.once(
        "create branch/branch-c/tag/tag-eod", lambda: store.plain().put("branch/branch-c/tag/tag-eod", b"theirs")
    )
    with pytest.raises(TableExists) as raised:
        renamed(store)
    told = f"branch/branch-c/tag/tag-eod of {store.url} holds something else than branch/branch-b/tag/tag-eod"
    assert raised.value.message == told
    assert raised.value.next_step == "another call is making branch 'c': choose another name"
    assert f"{ROOT}schema/schema-0" in keys(store)


@pytest.mark.parametrize("new", ["z", "a"])
def test_a_name_that_is_taken_is_refused(store: Refusing, new: str) -> None:
    with pytest.raises(TableExists) as raised:
        renamed(store, "b", new)
    assert (raised.value.message, raised.value.next_step) == (
        f"{store.url} has a branch '{new}'",
        "choose another name",
    )
    assert store.changes == []


def test_a_name_that_somebody_takes_at_the_same_time_is_refused(store: Refusing) -> None:
    theirs = replace(MADE, snapshot=9)
    store.once("create branch/branch-c/lakelatch/origin", lambda: store.plain().put(claim_key("c"), theirs.to_json()))
    with pytest.raises(TableExists, match="another call is making it: from snapshot 9"):
        renamed(store)
    assert list(list_branches(timeline(store))) == ["a", "b", "z"]


@pytest.mark.parametrize(
    ("name", "new", "told"),
    [
        ("main", "c", "branch 'main' is the table itself, and cannot be renamed"),
        ("b", "main", "branch 'main' is the table itself"),
        ("b", "5", "branch '5' is a number"),
        ("x", "c", "has no branch 'x'"),
        ("x", "z", "has no branch 'x'"),
    ],
)
def test_what_cannot_be_renamed(store: Refusing, name: str, new: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        renamed(store, name, new)
    assert store.changes == []


def test_a_store_that_overwrites_is_found_out_first(store: Refusing) -> None:
    PROBED.forget(store.url)
    store.plans["create "] = Created
    with pytest.raises(UnsafeBackend):
        renamed(store)
    assert set(store.changes) == {f"create {ROOT}schema/schema-1"}, "with what the newest schema holds already"
