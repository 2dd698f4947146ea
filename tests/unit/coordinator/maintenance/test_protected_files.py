"""Plans of undo and rollback in words, and the tags that protect what they bring back until they are committed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import AlreadyThere, PutOutcome, Unknown
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.maintenance.rollback import RollbackPlan, plan_rollback, protect, protected
from lakelatch.coordinator.maintenance.undo import UndoPlan
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.data_file import ADD, DELETE, DataFile, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.table.table import Table

COUNTER = itertools.count()
NO_PARTITION = bytes(12)
SCHEMA = pa.schema([("v", pa.int64())])


def file(name: str, rows: int) -> ManifestEntry:
    return ManifestEntry(ADD, NO_PARTITION, 0, -1, DataFile(f"data-{name}", 1, rows))


def index(name: str, kind: int = ADD) -> IndexEntry:
    return IndexEntry(kind, NO_PARTITION, 0, IndexFile("HASH", f"index-{name}", 4, 1))


def snapshot(number: int, **more: Any) -> Snapshot:
    made = Snapshot(number, 0, f"base-{number}", f"delta-{number}", "etl", 7, "APPEND", 0, 1, 1)
    return replace(made, **{"read_from": f"snapshot/snapshot-{number}", **more})


ONE, TWO, THREE = file("one", 10), file("two", 200), file("three", 3_000)

# -------------------------------------------------------------------------------------------------------------- words


def test_an_undo_is_told_with_what_comes_back_and_what_goes() -> None:
    plan = UndoPlan(snapshot(3), snapshot(2), snapshot(6), (ONE, TWO), (THREE,))
    told = "without snapshot 3 (APPEND by etl), as snapshot 7: 2 files with 210 rows come back, 1 with 3000 go"
    assert str(plan) == told
    dictionary = {
        "snapshot": 3,
        "commit": None,
        "latest": 6,
        "comes_back": {"files": ["data-one", "data-two"], "rows": 210},
        "goes": {"files": ["data-three"], "rows": 3000},
        "marked_files": [],
    }
    assert plan.to_dict() == dictionary
    owners = frozenset((NO_PARTITION, 0, f"data-{name}") for name in ("b", "c", "a", "d"))
    marked = replace(plan, marked=owners)
    assert str(marked) == f"{told}, deleted rows of 4 files are as before"
    assert marked.to_dict() == {**dictionary, "marked_files": ["data-a", "data-b", "data-c", "data-d"]}


def test_a_rollback_is_told_with_what_comes_back_and_what_goes() -> None:
    plan = RollbackPlan(snapshot(2), "tag/tag-a", snapshot(6), (ONE, TWO), (), (ONE, TWO), (THREE,))
    assert str(plan) == "back to snapshot 2, as snapshot 7: 2 files with 210 rows come back, 1 with 3000 go"
    assert plan.to_dict() == {
        "snapshot": 2,
        "latest": 6,
        "comes_back": {"files": ["data-one", "data-two"], "rows": 210},
        "goes": {"files": ["data-three"], "rows": 3000},
    }


def test_what_an_undo_brings_back_needs_protection_unless_the_undo_writes_it_itself() -> None:
    bare = UndoPlan(snapshot(3), snapshot(2), snapshot(6), (), (THREE,))
    assert bare.restored is None
    files = replace(bare, added=(ONE,)).restored
    assert files == RollbackPlan(snapshot(2), "snapshot/snapshot-2", snapshot(6), (), (), (ONE,), (THREE,))
    assert replace(bare, added=(ONE,), before=None).restored is None, "nothing was deleted before the first snapshot"
    entries = (index("gone", DELETE), index("back"), index("new"))
    written = replace(bare, index=entries, uploads=(PendingUpload("index/index-new", b""),))
    assert written.restored is not None
    assert written.restored.index == (index("back"),)
    assert replace(written, index=(entries[0], entries[2])).restored is None


def test_the_request_of_an_undo_names_the_commit_and_the_tag() -> None:
    owner = (NO_PARTITION, 0, "data-four")
    plan = UndoPlan(
        snapshot(3), snapshot(2), snapshot(6), (ONE,), (THREE,), frozenset({owner}), (index("new"),),
        (PendingUpload("index/index-new", b""),), frozenset({(NO_PARTITION, 1)}),
    )  # fmt: skip
    request = plan.request("ops", 4, "rollback-2-x")
    assert (request.kind, request.commit_user, request.identifier) == ("OVERWRITE", "ops", 4)
    assert request.entries == (THREE.deletion(), ONE)
    assert (request.index_entries, request.uploads) == (plan.index, plan.uploads)
    assert (request.marked, request.closed) == (plan.marked, plan.closed)
    assert request.read_snapshot == snapshot(3)
    assert request.remarks.properties == {"undo.snapshot": "3", "rollback.tag": "rollback-2-x"}
    assert plan.request("ops", 4, None).remarks.properties == {"undo.snapshot": "3"}


def test_the_request_of_a_rollback_replaces_the_whole_table_by_the_state() -> None:
    plan = RollbackPlan(snapshot(2), "tag/tag-a", snapshot(6), (ONE, TWO), (index("kept"),), (ONE,), (THREE,))
    request = plan.request("ops", 4, "serializable", "rollback-2-x")
    assert (request.kind, request.commit_user, request.identifier) == ("OVERWRITE", "ops", 4)
    assert (request.entries, request.index_entries) == ((ONE, TWO), (index("kept"),))
    assert (request.read_snapshot, request.isolation) == (snapshot(6), "serializable")
    assert request.target is not None and request.target(NO_PARTITION) is True
    assert request.remarks.properties == {"rollback.snapshot": "2", "rollback.tag": "rollback-2-x"}


# --------------------------------------------------------------------------------------------------------------- tags


class Answering(MemoryStore):
    """A store in memory whose tags are there already, if a test says so.

    Attributes:
        resent: an earlier send of its own has created them.
        vanished: somebody else had, and has deleted them since.
        silent: nobody says so.
    """

    resent = vanished = silent = False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if self.vanished and key.startswith("tag/"):
            return AlreadyThere()
        answer = super().put_if_absent(key, data)
        if self.silent and key.startswith("tag/"):
            return Unknown("timeout")
        return AlreadyThere(earlier_send=True) if self.resent and key.startswith("tag/") else answer


def rows(*values: int) -> pa.Table:
    return pa.table({"v": list(values)}, schema=SCHEMA)


@pytest.fixture
def table() -> Table:
    """1: 1; 2: 2; 3: 3; each replaces the one before."""
    store = Answering(f"memory://protected-{next(COUNTER)}/t")
    made = Table(store, ll.create_table(store.url, SCHEMA).schema)
    for value in (1, 2, 3):
        made.overwrite(rows(value), partition={})
    made.committer.settle()
    return made


def planned(table: Table, target: int) -> RollbackPlan:
    found = table.timeline.snapshot(target)
    return plan_rollback(table.timeline, found, found.read_from)


def tags(table: Table) -> list[str]:
    return sorted(info.key.removeprefix("tag/tag-") for info in table.store.list("tag/"))


def failing(table: Table, error: BaseException, **identity: Any) -> str:
    """A rollback that fails with this error; returns the tag that it had."""
    plan, who = planned(table, 1), {"commit_user": None, "identifier": None, **identity}
    with pytest.raises(type(error)), protected(table.timeline, table.schema, plan, **who) as tag:
        assert tag is not None
        assert tags(table) == [tag]
        raise error
    return tag


CONFLICT, AWAY = CommitConflict("another"), StoreUnavailable("away")
UNKNOWN: OutcomeUnknown[None] = OutcomeUnknown("silence", identity={})


@pytest.mark.parametrize(
    ("error", "identity", "stays"),
    [
        (CONFLICT, {}, False),
        (CONFLICT, {"commit_user": "ops", "identifier": 7}, False),
        (AWAY, {}, False),
        (AWAY, {"commit_user": "ops", "identifier": 7}, True),
        (AWAY, {"commit_user": "ops", "identifier": 0}, True),
        (UNKNOWN, {}, True),
        (UNKNOWN, {"commit_user": "ops", "identifier": 7}, True),
    ],
    ids=["conflict", "conflict of an identity", "store", "store of an identity", "identifier 0", "unknown",
         "unknown of an identity"],
)  # fmt: skip
def test_when_the_tag_of_a_failed_rollback_stays(
    table: Table, error: Exception, identity: dict[str, Any], stays: bool
) -> None:
    """It may have landed (H5), or the same identity comes again and takes the tag over."""
    tag = failing(table, error, **identity)
    assert tags(table) == ([tag] if stays else [])


def test_the_same_identity_has_the_same_tag_and_others_have_their_own(table: Table) -> None:
    names = [
        failing(table, CONFLICT, commit_user=user, identifier=n) for user, n in (("a", 1), ("a", 1), ("a", 2), ("b", 1))
    ]
    assert names[0] == names[1]
    assert len({*names, failing(table, CONFLICT), failing(table, CONFLICT)}) == 5
    assert all(name.startswith("rollback-1-") and len(name) == len("rollback-1-") + 8 for name in names)


def test_where_nothing_comes_back_there_is_no_tag(table: Table) -> None:
    with protected(table.timeline, table.schema, None, None, None) as tag:
        assert tag is None
        assert tags(table) == []


def test_a_tag_of_an_earlier_run_is_taken_over_and_not_removed(table: Table) -> None:
    plan = planned(table, 1)
    table.store.put("tag/tag-rollback-1-x", table.store.get("snapshot/snapshot-1"))
    assert protect(table.timeline, table.schema, plan, "x") == ["rollback-1-x"]
    table.store.put("snapshot/EARLIEST", b"2")
    with pytest.raises(InvalidArgument, match="snapshot/snapshot-1 has expired, or is about to"):
        protect(table.timeline, table.schema, plan, "x")
    assert tags(table) == ["rollback-1-x"]


@pytest.mark.parametrize("other", [2, 3])
def test_a_tag_of_that_name_with_another_snapshot_is_left_alone(table: Table, other: int) -> None:
    held = table.store.get(f"snapshot/snapshot-{other}")
    table.store.put("tag/tag-rollback-1-x", held)
    with pytest.raises(InvalidArgument, match="tag/tag-rollback-1-x holds another snapshot than 1") as caught:
        protect(table.timeline, table.schema, planned(table, 1), "x")
    assert caught.value.next_step == "delete or rename that tag, or use another identity"
    assert table.store.get("tag/tag-rollback-1-x") == held


def test_a_tag_that_is_deleted_before_it_can_be_compared_protects_nothing(table: Table) -> None:
    assert isinstance(table.store, Answering)
    table.store.vanished = True
    with pytest.raises(InvalidArgument, match="holds another snapshot than 1"):
        protect(table.timeline, table.schema, planned(table, 1), "x")


def test_a_tag_without_an_answer_is_removed_and_nothing_is_restored(table: Table) -> None:
    assert isinstance(table.store, Answering)
    table.store.silent = True
    with pytest.raises(StoreUnavailable, match="tag/tag-rollback-1-x may not have been written: timeout"):
        protect(table.timeline, table.schema, planned(table, 1), "x")
    assert tags(table) == []


def test_a_tag_that_our_own_earlier_send_created_is_removed_after_a_failure(table: Table) -> None:
    """H3."""
    assert isinstance(table.store, Answering)
    table.store.resent = True
    table.store.put("snapshot/EARLIEST", b"2")
    with pytest.raises(InvalidArgument):
        protect(table.timeline, table.schema, planned(table, 1), "x")
    assert tags(table) == []


@pytest.mark.parametrize(("earliest", "expires"), [(b"1", False), (b"2", False), (b"3", True)])
def test_a_state_that_an_expiry_has_announced_is_not_restored(table: Table, earliest: bytes, expires: bool) -> None:
    """Decision 10. A tag of that state is not concerned."""
    plan = planned(table, 2)
    table.store.put("snapshot/EARLIEST", earliest)
    if expires:
        with pytest.raises(InvalidArgument, match="snapshot/snapshot-2 has expired") as caught:
            protect(table.timeline, table.schema, plan, "x")
        assert caught.value.next_step == "choose a later snapshot, or a tag"
        assert tags(table) == []
    else:
        assert protect(table.timeline, table.schema, plan, "x") == ["rollback-2-x"]
    table.store.put("tag/tag-kept", table.store.get("snapshot/snapshot-2"))
    assert protect(table.timeline, table.schema, replace(plan, key="tag/tag-kept"), "y") == ["rollback-2-y"]


@pytest.mark.parametrize("held", [None, 3])
def test_a_state_whose_file_is_gone_or_another_one_is_not_restored(table: Table, held: int | None) -> None:
    plan = replace(planned(table, 1), key="tag/tag-kept")
    if held is not None:
        table.store.put("tag/tag-kept", table.store.get(f"snapshot/snapshot-{held}"))
    with pytest.raises(InvalidArgument, match="tag/tag-kept has expired, or is about to"):
        protect(table.timeline, table.schema, plan, "x")
    assert "rollback-1-x" not in tags(table)


@pytest.mark.parametrize("held", [None, 3])
def test_a_snapshot_that_is_gone_or_another_one_by_then_is_not_restored(table: Table, held: int | None) -> None:
    """EARLIEST says nothing of it."""
    plan = planned(table, 1)
    if held is None:
        table.store.delete_many(["snapshot/snapshot-1"])
    else:
        other = replace(table.timeline.snapshot(held), id=1)
        table.store.put("snapshot/snapshot-1", other.to_json())
    with pytest.raises(InvalidArgument, match="snapshot/snapshot-1 has expired, or is about to"):
        protect(table.timeline, table.schema, plan, "x")
    assert tags(table) == []


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_up_to_five_missing_files_are_named(table: Table, count: int, more: str) -> None:
    ghosts = tuple(file(f"ghost-{number}", 1) for number in range(count))
    plan = planned(table, 1)
    with pytest.raises(TableCorrupt) as caught:
        protect(table.timeline, table.schema, replace(plan, added=(*plan.added, *ghosts)), "x")
    names = ", ".join(f"bucket-0/data-ghost-{number}" for number in range(min(count, 5)))
    assert caught.value.message == f"snapshot 1 cannot be restored, because its files are gone: {names}{more}"
    assert tags(table) == []


def test_missing_index_files_are_named_and_files_outside_are_not_looked_for(table: Table) -> None:
    plan = planned(table, 1)
    with pytest.raises(TableCorrupt, match="its files are gone: index/index-ghost"):
        protect(table.timeline, table.schema, replace(plan, index=(index("ghost"),)), "x")
    prefix = "data-file.external-paths"
    table.alter(ll.set_option(prefix, "file:///elsewhere"), ll.set_option(f"{prefix}.strategy", "round-robin"))
    outside = ONE._replace(file=ONE.file._replace(external_path="file:///elsewhere/data-one"))
    schema = table.timeline.latest_schema()
    assert protect(table.timeline, schema, replace(plan, added=(outside,)), "x") == ["rollback-1-x"]


def test_a_file_that_was_deleted_twice_needs_a_tag_before_each_deletion(table: Table) -> None:
    """Apache Paimon's expiry keeps a deleted file only if the last tag before its deletion holds it."""
    for _ in range(2):
        table.rollback(snapshot=1)
        table.overwrite(rows(9), partition={})
    table.store.delete_many([info.key for info in table.store.list("tag/")])
    plan = planned(table, 1)
    assert protect(table.timeline, table.schema, plan, "x") == ["rollback-1-x", "rollback-4-x", "rollback-6-x"]
    for number in (1, 4, 6):
        assert table.store.get(f"tag/tag-rollback-{number}-x") == table.store.get(f"snapshot/snapshot-{number}")
    table.store.delete_many(["tag/tag-rollback-4-x"])
    protect(table.timeline, table.schema, plan, "x")
    assert tags(table) == ["rollback-1-x", "rollback-4-x", "rollback-6-x"], "the first of an earlier run is there"
    assert protect(table.timeline, table.schema, planned(table, 2), "y") == ["rollback-2-y"]


def test_the_newest_state_is_not_rolled_back_to(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="snapshot 3 is the newest: there is nothing to roll back"):
        planned(table, 3)
