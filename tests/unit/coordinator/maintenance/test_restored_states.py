"""A rollback and an undo in detail: what is planned and told, which tags protect what comes back, and what is checked first."""

from __future__ import annotations

import itertools
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest
from by_hand.tables import Asked, Handmade, added, data, removed

import lakelatch as ll
from lakelatch.backends.store import AlreadyThere, PutOutcome, Unknown
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.intents.carried import Carried
from lakelatch.coordinator.maintenance.rollback import RollbackPlan, plan_rollback, protect, protected
from lakelatch.coordinator.maintenance.undo import UndoPlan
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.paths import TablePaths

COUNTER = itertools.count()


def table_of(*deltas: list[Any], **options: str) -> Handmade:
    """A snapshot for each delta; every data file that one of them adds is there."""
    table = Handmade(**options)
    for number, delta in enumerate(deltas, 1):
        table.snapshot(number, *delta, kind="OVERWRITE")
        for entry in delta:
            table.store.put(f"bucket-0/{entry.file.file_name}", b"rows")
    return table


def counted(name: str, rows: int) -> ManifestEntry:
    entry = added(name)
    return entry._replace(file=entry.file._replace(row_count=rows))


def planned(table: Handmade, target: int, key: str = "") -> RollbackPlan:
    return plan_rollback(table.timeline, table.timeline.snapshot(target), key or f"snapshot/snapshot-{target}")


def tags(table: Handmade) -> dict[str, int]:
    """The tags that there are, with the snapshots that they hold."""
    return {name: table.timeline.tag(name).id for name in table.timeline.tag_files()}


# ---------------------------------------------------------------------------------------------------------- what is told


def test_a_rollback_is_the_difference_of_two_states() -> None:
    table = table_of(
        [added("a"), added("b")], [removed("a"), counted("c", 5)], [counted("c", 5).deletion(), added("d")]
    )
    plan = planned(table, 2)
    assert [e.file.file_name for e in plan.state] == ["data-b", "data-c"]
    assert ([e.file.file_name for e in plan.added], [e.kind for e in plan.added]) == (["data-c"], [ADD])
    assert ([e.file.file_name for e in plan.removed], plan.latest.id, plan.key) == (
        ["data-d"],
        3,
        "snapshot/snapshot-2",
    )
    assert plan.to_dict() == {
        "snapshot": 2,
        "latest": 3,
        "comes_back": {"files": ["data-c"], "rows": 5},
        "goes": {"files": ["data-d"], "rows": 1},
    }
    assert str(plan) == "back to snapshot 2, as snapshot 4: 1 files with 5 rows come back, 1 with 1 go"
    request = plan.request("ops", 7, "serializable", "the-tag")
    assert request.remarks.properties == {"rollback.snapshot": "2", "rollback.tag": "the-tag"}
    assert (request.commit_user, request.identifier, request.isolation) == ("ops", 7, "serializable")
    assert (request.kind, request.entries, request.read_snapshot) == ("OVERWRITE", plan.state, plan.latest)


def test_a_deletion_that_met_no_file_hides_nothing_that_comes_back() -> None:
    table = table_of([added("a")], [removed("a")], [removed("a"), added("b")])
    plan = planned(table, 1)
    assert [e.file.file_name for e in plan.added] == ["data-a"]
    assert [(e.file.file_name, e.kind) for e in plan.removed] == [("data-b", ADD)]


def test_the_newest_state_is_no_state_to_go_back_to() -> None:
    table = table_of([added("a")], [added("b")])
    with pytest.raises(InvalidArgument, match="snapshot 2 is the newest: there is nothing to roll back"):
        planned(table, 2)
    with pytest.raises(InvalidArgument, match="snapshot 1 is the newest"):
        plan_rollback(Handmade().timeline, table.timeline.snapshot(1), "tag/tag-x")
    same_id = replace(table.timeline.snapshot(2), uuid="another")
    assert plan_rollback(table.timeline, same_id, "tag/tag-x").target is same_id


def test_an_undo_tells_what_comes_back_and_what_goes() -> None:
    table = table_of([added("a")], [removed("a"), counted("b", 3)], [added("c")])
    commit, latest = table.timeline.snapshot(2), table.timeline.snapshot(3)
    back, gone = added("a"), counted("b", 3)
    plan = UndoPlan(commit, table.timeline.snapshot(1), latest, (back,), (gone,))
    told = "as snapshot 4: 1 files with 1 rows come back, 1 with 3 go"
    assert str(plan) == f"without snapshot 2 (OVERWRITE by me), {told}"
    wanted = {
        "snapshot": 2,
        "commit": None,
        "latest": 3,
        "comes_back": {"files": ["data-a"], "rows": 1},
        "goes": {"files": ["data-b"], "rows": 3},
        "marked_files": [],
    }
    assert plan.to_dict() == wanted
    owners = frozenset({(EMPTY_ROW, 0, "data-z"), (EMPTY_ROW, 0, "data-y")})
    rider = Carried("etl", 7, "abc", 3)
    more = replace(plan, marked=owners, carried=rider)
    assert (
        str(more)
        == f"without the commit of {rider} in snapshot 2 (OVERWRITE), {told}, deleted rows of 2 files are as before"
    )
    assert more.to_dict() == {**wanted, "commit": str(rider), "marked_files": ["data-y", "data-z"]}


def test_an_undo_commits_the_reverse_and_says_of_what() -> None:
    table = table_of([added("a")], [removed("a"), added("b")])
    commit = table.timeline.snapshot(2)
    plan = UndoPlan(commit, table.timeline.snapshot(1), commit, (added("a"),), (added("b"),))
    request = plan.request("ops", 7, None)
    assert [(e.file.file_name, e.kind) for e in request.entries] == [("data-b", DELETE), ("data-a", ADD)]
    assert (request.kind, request.commit_user, request.identifier, request.read_snapshot) == (
        "OVERWRITE",
        "ops",
        7,
        commit,
    )
    assert request.remarks.properties == {"undo.snapshot": "2"}
    rider = replace(plan, carried=Carried("etl", 7, "abc", 3)).request("ops", 7, "the-tag")
    assert rider.remarks.properties == {"undo.snapshot": "2", "rollback.tag": "the-tag", "undo.commit": "abc"}


def test_only_what_comes_back_needs_protection() -> None:
    table = table_of([added("a")], [removed("a")], [added("c")])
    before, commit, latest = map(table.timeline.snapshot, (1, 2, 3))
    index = IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", "index-x", 1, 1))
    plan = UndoPlan(commit, before, latest, (), (added("b"),))
    assert plan.restored is None
    assert replace(plan, index=(replace(index, kind=DELETE),)).restored is None
    assert replace(plan, added=(added("a"),), before=None).restored is None
    held = replace(plan, added=(added("a"),), index=(index,)).restored
    assert held is not None
    assert (held.target, held.key, held.latest) == (before, "snapshot/snapshot-1", latest)
    assert (held.state, held.index, held.added, held.removed) == ((), (index,), (added("a"),), (added("b"),))
    only_index = replace(plan, index=(index,)).restored
    assert only_index is not None and only_index.index == (index,)


def test_an_undo_exchanges_the_index_files_of_its_own_buckets_and_no_others() -> None:
    """With dynamic buckets: those of other partitions say where keys are that nobody has touched."""
    schema = ll.Schema([("k", "INT NOT NULL"), ("p", "STRING NOT NULL")])
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    url = f"memory://restored-states-{next(COUNTER)}/t"
    table = ll.create_table(url, schema, partition_by=["p"], primary_key=["p", "k"], options=options)

    def rows(part: str, *keys: int) -> pa.Table:
        return pa.table({"k": pa.array(keys, pa.int32()), "p": [part] * len(keys)})

    def index_files() -> set[tuple[bytes, int, str]]:
        latest = table.timeline.latest()
        assert latest is not None
        return {(e.partition, e.bucket, e.file.file_name) for e in table.timeline.index_entries(latest)}

    for part, keys in (("a", (1, 2, 3)), ("b", (4, 5, 6))):
        table.upsert(rows(part, *keys))
    before = index_files()
    assert len({place[:2] for place in before}) == len(before) == 4
    table.overwrite(rows("a", 9), partition={"p": "a"})
    assert len(index_files() & before) == 2
    table.undo(table.snapshots()[-1].id)
    assert index_files() == before
    assert table.verify("all", data=True) == []
    table.upsert(rows("b", 4, 5, 6))
    table.upsert(rows("a", 1, 2, 3))
    assert table.to_arrow().num_rows == 6


# ------------------------------------------------------------------------------------------------------------- the tags


@pytest.mark.parametrize(
    ("deltas", "expired", "held"),
    [
        ([[added("a")], [removed("a")], [added("z")]], [], [1]),
        ([[added("a")], [removed("a")], [added("a")], [removed("a")]], [], [1, 3]),
        ([[added("a")], [removed("a")], [added("a")], [removed("a")], [added("a")], [removed("a")]], [], [1, 3, 5]),
        ([[added("a")], [removed("a")], [added("a")], [added("z")], [removed("a")]], [], [1, 4]),
        ([[added("a"), added("b")], [removed("a")], [removed("b")]], [], [1]),
        ([[added("a"), added("b")], [removed("a")], [added("a"), removed("b")], [removed("a")]], [], [1, 3]),
        ([[added("a")], [removed("a"), added("b")], [removed("b")], [added("b")], [removed("b")]], [], [1]),
        ([[added("a")], [removed("a")], [added("z")], [added("a")], [removed("a")]], [3], [1, 4]),
    ],
    ids=[
        *("deleted once", "deleted twice", "three times", "right before the deletion", "two files, each once"),
        *("one of two files twice", "a file that does not come back", "a snapshot in between is gone"),
    ],
)
def test_the_target_and_the_states_before_later_deletions_are_tagged(
    deltas: list[list[Any]], expired: list[int], held: list[int]
) -> None:
    """Apache Paimon asks the last tag before the snapshot that deletes a file, and no other."""
    table = table_of(*deltas)
    plan = planned(table, 1)
    table.gone(*(f"snapshot/snapshot-{number}" for number in expired))
    names = [f"rollback-{number}-12ab34cd" for number in held]
    assert protect(table.timeline, table.schema, plan, "12ab34cd") == names
    assert tags(table) == dict(zip(names, held, strict=True))


def test_tags_of_an_earlier_run_are_taken_over_and_others_refused() -> None:
    """A refusal takes back what it has made itself, and nothing else."""
    table = table_of([added("a")], [removed("a")], [added("a")], [removed("a")])
    plan = planned(table, 1)
    names = ["rollback-1-12ab34cd", "rollback-3-12ab34cd"]
    assert protect(table.timeline, table.schema, plan, "12ab34cd") == names
    assert protect(table.timeline, table.schema, plan, "12ab34cd") == names
    table.copy("snapshot/snapshot-2", table.paths.tag(names[1]))
    for made in (1, 0):
        if made:
            table.gone(table.paths.tag(names[0]))
        with pytest.raises(InvalidArgument) as raised:
            protect(table.timeline, table.schema, plan, "12ab34cd")
        told = f"{table.paths.tag(names[1])} holds another snapshot than 3, which it is to protect"
        assert (raised.value.message, raised.value.next_step) == (
            told,
            "delete or rename that tag, or use another identity",
        )
        assert tags(table) == {names[1]: 2} if made else {names[0]: 1, names[1]: 2}
        table.copy("snapshot/snapshot-1", table.paths.tag(names[0]))


@pytest.mark.parametrize(("answer", "made"), [(AlreadyThere(earlier_send=True), True), (Unknown("timeout"), False)])
def test_a_tag_that_an_earlier_send_may_have_made_is_our_own(answer: PutOutcome, made: bool) -> None:
    """So it goes again where the rollback is refused; a send without an answer is a refusal."""
    table = table_of([added("a")], [removed("a")])

    class Late(Asked):
        def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
            super().put_if_absent(key, data)
            return answer

    timeline = Timeline(Late(table.store.url), TablePaths())
    if made:
        assert protect(timeline, table.schema, planned(table, 1), "12ab34cd") == ["rollback-1-12ab34cd"]
        table.gone("bucket-0/data-a", "tag/tag-rollback-1-12ab34cd")
    with pytest.raises(TableCorrupt if made else StoreUnavailable) as raised:
        protect(timeline, table.schema, planned(table, 1), "12ab34cd")
    assert tags(table) == {}
    if not made:
        assert raised.value.message == "tag/tag-rollback-1-12ab34cd may not have been written: timeout"


# ----------------------------------------------------------------------------------------------------------- the checks


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_files_that_are_gone_are_named_up_to_five_and_no_tag_stays(count: int, more: str) -> None:
    names = [f"{number:02d}" for number in range(9)]
    table = table_of([added(name) for name in names], [removed(name) for name in names])
    gone = sorted(data(*names))[:count]
    table.gone(*gone)
    with pytest.raises(TableCorrupt) as raised:
        protect(table.timeline, table.schema, planned(table, 1), "12ab34cd")
    told = f"snapshot 1 cannot be restored, because its files are gone: {', '.join(gone[:5])}{more}"
    assert raised.value.message == told
    assert tags(table) == {}


def test_index_files_are_looked_for_and_what_lies_elsewhere_is_not() -> None:
    table = table_of([added("a")], [removed("a")], data_file__external_paths="file:///elsewhere")
    table.index("index-manifest-1", "index-x")
    table.store.put(
        "snapshot/snapshot-1", replace(table.timeline.snapshot(1), index_manifest="index-manifest-1").to_json()
    )
    with pytest.raises(TableCorrupt, match=r"its files are gone: index/index-x \("):
        protect(table.timeline, table.schema, planned(table, 1), "12ab34cd")
    table.store.put("index/index-x", b"hashes")
    plan = planned(table, 1)
    outside = added("far", external_path="file:/elsewhere/data-far")
    assert protect(table.timeline, table.schema, replace(plan, added=(*plan.added, outside)), "12ab34cd")


@pytest.mark.parametrize(
    ("key", "earliest", "refused"),
    [
        ("snapshot/snapshot-2", None, False), ("snapshot/snapshot-2", b"2", False), ("snapshot/snapshot-2", b"3", True),
        ("tag/tag-eod", b"3", False), ("tag/tag-gone", None, True), ("tag/tag-other", None, True),
    ],
)  # fmt: skip
def test_a_state_that_expires_meanwhile_is_refused(key: str, earliest: bytes | None, refused: bool) -> None:
    """Its files may be going: an expiry that did not see the tag has announced itself by then. A tag holds its own."""
    table = table_of([added("a")], [added("b")], [removed("a")])
    table.tag("eod", 2)
    table.tag("other", 1)
    plan = planned(table, 2, key)
    if earliest is not None:
        table.store.put("snapshot/EARLIEST", earliest)
    if not refused:
        assert protect(table.timeline, table.schema, plan, "12ab34cd") == ["rollback-2-12ab34cd"]
        return
    with pytest.raises(InvalidArgument) as raised:
        protect(table.timeline, table.schema, plan, "12ab34cd")
    assert raised.value.message == f"{key} has expired, or is about to"
    assert raised.value.next_step == "choose a later snapshot, or a tag"
    assert set(tags(table)) == {"eod", "other"}


# ------------------------------------------------------------------------------------------------- while it is committed

REFUSED, BUSY, OPEN = CommitConflict("too late"), StoreUnavailable("503"), OutcomeUnknown[Any]("timeout", identity={})


@pytest.mark.parametrize(
    ("identifier", "error", "stays"),
    [
        (None, None, True), (7, None, True), (None, OPEN, True), (7, OPEN, True),
        (None, REFUSED, False), (7, REFUSED, False), (None, BUSY, False), (7, BUSY, True), (None, KeyError("x"), True),
    ],
)  # fmt: skip
def test_tags_go_again_if_the_commit_fails_unless_another_run_may_take_them_over(
    identifier: int | None, error: Exception | None, stays: bool
) -> None:
    table = table_of([added("a")], [removed("a")])
    plan = planned(table, 1)

    def commit() -> str | None:
        with protected(table.timeline, table.schema, plan, "ops", identifier) as tag:
            if error is not None:
                raise error
            return tag

    if error is None:
        tag = commit()
        assert tag is not None and tag.startswith("rollback-1-") and len(tag) == len("rollback-1-12345678")
        assert tags(table) == {tag: 1}
        if identifier is not None:
            assert tag.rpartition("-")[2] == sha256(b"ops\n7").hexdigest()[:8], "the next run finds it"
            assert commit() == tag
        return
    with pytest.raises(type(error)):
        commit()
    assert (len(tags(table)) == 1) is stays


def test_two_runs_without_an_identity_have_tags_of_their_own() -> None:
    table = table_of([added("a")], [removed("a")])
    for _ in range(2):
        with protected(table.timeline, table.schema, planned(table, 1), "ops", None):
            pass
    assert len(tags(table)) == 2


def test_where_nothing_comes_back_nothing_is_tagged() -> None:
    table = table_of([added("a")])
    with protected(table.timeline, table.schema, None, "ops", 7) as tag:
        assert tag is None
    with pytest.raises(CommitConflict), protected(table.timeline, table.schema, None, "ops", 7):
        raise REFUSED
    assert table.asked("create") == table.asked("delete") == []
