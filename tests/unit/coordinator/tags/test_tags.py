"""Tags on real tables in memory: made, replaced, renamed and deleted; what stays and what goes, beside an expiry, and cut off."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import AlreadyThere, PutOutcome, Unknown
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.coordinator.tags.deletion import plan_untagging
from lakelatch.coordinator.tags.expiry import outlived
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.tag import parse_tag
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])
NEVER_MS = 2**62


class Died(BaseException):
    """The process is gone."""


class Counted(MemoryStore):
    """Counts the requests that change something, dies before one of them, and calls a hook before a request for a key."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.left: int | None = None
        self.before: dict[str, Callable[[], Any]] = {}
        self.changes = 0

    def _step(self, key: str) -> Any:
        hook = self.before.pop(key, None)
        answer = hook() if hook is not None else None
        if self.left is not None:
            if self.left == 0:
                raise Died
            self.left -= 1
        self.changes += 1
        return answer

    def put(self, key: str, data: bytes) -> None:
        self._step(f"put {key}")
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        answer = self._step(f"create {key}")
        return answer if isinstance(answer, (Unknown, AlreadyThere)) else super().put_if_absent(key, data)

    def delete_many(self, keys: Any) -> None:
        for key in list(keys):
            self._step(f"delete {key}")
            super().delete_many([key])


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"p": [part] * len(values), "v": list(values)})


@pytest.fixture
def table() -> Table:
    """1: a=1; 2: a=1,2; 3: a=3; 4: a=3, b=4; 5: a=3, b=5."""
    return made()


def made(**options: str) -> Table:
    store = Counted(f"memory://tags-{next(COUNTER)}/t")
    found = ll.create_table(store.url, SCHEMA, partition_by=["p"], options=options)
    table = Table(store, found.schema)
    table.append(rows("a", 1))
    table.append(rows("a", 2))
    table.overwrite(rows("a", 3), partition={"p": "a"})
    table.append(rows("b", 4))
    table.overwrite(rows("b", 5), partition={"p": "b"})
    table.committer.settle()
    return table


def counted(table: Table) -> Counted:
    assert isinstance(table.store, Counted)
    return table.store


def expire(table: Table, keep: int = 1) -> None:
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=keep, retain_min=keep)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


def values(table: Table) -> list[int]:
    return sorted(table.to_arrow()["v"].to_pylist())


def keys(table: Table, prefix: str = "") -> set[str]:
    return {info.key for info in table.store.list(prefix)}


def names(table: Table) -> list[str]:
    return [tag.name for tag in table.tags()]


def assert_clean(table: Table) -> None:
    """Nothing that remains lacks a file, and no file is left that nothing needs."""
    assert table.verify("all", data=True) == []
    assert plan_orphans(table.timeline, table.schema, NEVER_MS).files == ()
    assert keys(table, "lakelatch/untagged/") == set()


# ------------------------------------------------------------------------------------------------------------ creation


def test_a_tag_is_the_snapshot_under_a_name(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    assert table.store.get("tag/tag-eod") == table.store.get("snapshot/snapshot-2")
    assert values(table.at(tag="eod")) == [1, 2]
    table.create_tag("newest")
    table.create_tag("again", tag="eod")
    (again, eod, newest) = table.tags()
    assert [(t.name, t.snapshot.id, t.created, t.retained_ms) for t in (again, eod, newest)] == [
        ("again", 2, None, None),
        ("eod", 2, None, None),
        ("newest", 5, None, None),
    ]
    assert eod.to_dict()["record_count"] == 2
    assert str(newest) == "tag newest: snapshot 5 with 2 rows"
    assert_clean(table)


def test_by_time(table: Table) -> None:
    times = {s.time_ms: s.id for s in table.snapshots()}
    for time_ms, newest in times.items():
        assert table.create_tag(f"at-{newest}", timestamp=time_ms).snapshot.id == newest


@pytest.mark.parametrize("keep", ["7 d", 7 * 86_400_000, timedelta(days=7)])
def test_a_retention_is_written_as_apache_paimon_writes_it(table: Table, keep: Any) -> None:
    tag = table.create_tag("eod", keep=keep)
    raw = json.loads(table.store.get("tag/tag-eod"))
    assert raw["tagTimeRetained"] == 604800
    assert b'"tagTimeRetained": 604800.000000000' in table.store.get("tag/tag-eod")
    assert 5 <= len(raw["tagCreateTime"]) <= 7
    assert table.tags() == [tag]
    assert str(tag).endswith("kept for 7 days, 0:00:00")


def test_the_option_gives_the_retention() -> None:
    table = made(**{"tag.default-time-retained": "1 h"})
    assert table.create_tag("eod").retained_ms == 3_600_000
    assert table.create_tag("longer", keep="2 h").retained_ms == 7_200_000


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ([2026, 1, 2, 3, 4], "2026-01-02T03:04:00"),
        ([2026, 1, 2, 3, 4, 5], "2026-01-02T03:04:05"),
        ([2026, 1, 2, 3, 4, 5, 6_000_000], "2026-01-02T03:04:05.006000"),
        ("2026-01-02T03:04", "2026-01-02T03:04:00"),
    ],
)
def test_times_of_creation_are_read_in_every_form(table: Table, raw: Any, wanted: str) -> None:
    data = json.loads(table.store.get("snapshot/snapshot-1"))
    data |= {"tagCreateTime": raw, "tagTimeRetained": 1.5}
    tag = parse_tag(json.dumps(data).encode(), "t", "tag/tag-t")
    assert tag.created is not None
    assert (tag.created.isoformat(), tag.retained_ms) == (wanted, 1500)
    assert parse_tag(tag.to_json(), "t", "tag/tag-t") == tag
    for field, wrong in (("tagCreateTime", [2026, 13]), ("tagCreateTime", 5), ("tagTimeRetained", "a day")):
        with pytest.raises(TableCorrupt, match=f"tag/tag-t: field '{field}'"):
            parse_tag(json.dumps({**data, field: wrong}).encode(), "t", "tag/tag-t")


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "a\nb", " a", "success-file", "x" * 201, "a\\b", 7])
def test_names_that_cannot_be_files_or_typed_are_refused(table: Table, name: Any) -> None:
    before = keys(table)
    with pytest.raises(InvalidArgument):
        table.create_tag(name)
    table.create_tag("eod")
    with pytest.raises(InvalidArgument):
        table.rename_tag("eod", name)
    assert keys(table) == before | {"tag/tag-eod"}


@pytest.mark.parametrize("keep", ["soon", 0, -1, True, [1]])
def test_a_retention_that_is_no_time_span_is_refused(table: Table, keep: Any) -> None:
    with pytest.raises(InvalidArgument, match="keep"):
        table.create_tag("eod", keep=keep)


@pytest.mark.parametrize("name", ["3", "20260101", "٣"])
def test_a_name_of_digits_is_a_snapshot_and_no_new_tag(table: Table, name: str) -> None:
    """`VERSION AS OF 3` is the snapshot. What others call so is read, replaced, and renamed to another name."""
    table.create_tag("eod", snapshot=1)
    for attempt in (table.create_tag, lambda new: table.rename_tag("eod", new)):
        with pytest.raises(InvalidArgument, match=f"the name of a snapshot.*'v{name}'"):
            attempt(name)
    assert [tag.name for tag in table.tags()] == ["eod"]
    store = table.committer.store
    store.put(f"tag/tag-{name}", store.get("tag/tag-eod"))
    assert table.at(tag=name).snapshot().id == 1
    table.create_tag(name, snapshot=2, replace=True)
    assert table.at(tag=name).snapshot().id == 2
    table.rename_tag(name, "v3")
    assert [tag.name for tag in table.tags()] == ["eod", "v3"]


def test_another_tag_of_the_name_is_not_touched(table: Table) -> None:
    """The same again changes nothing, so that a job may be run again."""
    first = table.create_tag("eod", snapshot=2)
    assert table.create_tag("eod", snapshot=2) == first
    with pytest.raises(InvalidArgument, match="there is a tag 'eod' already, of snapshot 2"):
        table.create_tag("eod", snapshot=3)
    with pytest.raises(InvalidArgument, match="there is a tag 'eod' already"):
        table.create_tag("eod", snapshot=2, keep="1 d")
    assert values(table.at(tag="eod")) == [1, 2]


def test_of_two_creators_one_wins(table: Table) -> None:
    other = ll.open_table(table.url)
    counted(table).before["create tag/tag-eod"] = lambda: other.create_tag("eod", snapshot=1)
    with pytest.raises(InvalidArgument, match="already, of snapshot 1"):
        table.create_tag("eod", snapshot=2)
    assert values(table.at(tag="eod")) == [1]


def test_a_tag_whose_answer_is_lost_is_looked_up(table: Table) -> None:
    """H2: it landed, it did not, or the store does not say."""
    store = counted(table)

    def landed() -> PutOutcome:
        MemoryStore.put_if_absent(store, "tag/tag-one", table.store.get("snapshot/snapshot-1"))
        return Unknown("timeout")

    store.before["create tag/tag-one"] = landed
    assert table.create_tag("one", snapshot=1).snapshot.id == 1
    store.before["create tag/tag-two"] = lambda: Unknown("timeout")
    assert table.create_tag("two", snapshot=2).snapshot.id == 2
    create = store.put_if_absent
    store.put_if_absent = lambda key, data: Unknown("timeout")  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown, match="tag/tag-three") as unknown:
        table.create_tag("three", snapshot=3)
    assert unknown.value.identity == {"tag": "tag/tag-three"}
    store.put_if_absent = create  # type: ignore[method-assign]
    assert unknown.value.resolve(timeout=1) == "tag/tag-three"
    assert names(table) == ["one", "two", "three"]


def test_tables_without_a_snapshot_and_tables_of_at(table: Table) -> None:
    empty = ll.create_table(f"memory://tags-{next(COUNTER)}/t", SCHEMA)
    with pytest.raises(InvalidArgument, match="no snapshot yet"):
        empty.create_tag("eod")
    assert empty.tags() == []
    for call in (lambda t: t.create_tag("x"), lambda t: t.delete_tag("x"), lambda t: t.rename_tag("x", "y")):
        with pytest.raises(InvalidArgument, match="read only"):
            call(table.at(snapshot=1))


def test_success_files_follow_their_tags() -> None:
    table = made(**{"tag.create-success-file": "true"})
    table.create_tag("eod")
    said = json.loads(table.store.get("tag/tag-success-file/eod_SUCCESS"))
    assert said["creationTime"] == said["modificationTime"] > 0
    assert names(table) == ["eod"]
    table.delete_tag("eod")
    assert keys(table, "tag/") == set()


# --------------------------------------------------------------------------------------------------- beside an expiry


def test_an_expiry_that_missed_the_tag_is_seen_by_its_creator(table: Table) -> None:
    """G7: the expiry looked for tags just before this one was written; no tag is left whose files are gone."""
    counted(table).before["create tag/tag-eod"] = lambda: expire(ll.open_table(table.url))
    with pytest.raises(InvalidArgument, match="snapshot-2 has expired, or is about to"):
        table.create_tag("eod", snapshot=2)
    assert names(table) == []
    assert_clean(table)


def test_an_expiry_under_way_is_seen_by_its_mark(table: Table) -> None:
    """The snapshot's own file goes last: EARLIEST tells that the files before it may be gone already."""
    table.store.put("snapshot/EARLIEST", b"4")
    with pytest.raises(InvalidArgument, match="snapshot-3 has expired, or is about to"):
        table.create_tag("eod", snapshot=3)
    assert table.create_tag("eod", snapshot=4).snapshot.id == 4


def test_a_tag_that_came_after_the_plan_keeps_its_files(table: Table) -> None:
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10**9, retain_max=1)
    plan = plan_expiry(table.timeline, table.schema, retention)
    table.create_tag("eod", snapshot=2)
    apply_expiry(table.timeline, plan)
    assert values(table.at(tag="eod")) == [1, 2]
    assert_clean(table)


def test_a_tag_that_is_being_deleted_cannot_be_copied(table: Table) -> None:
    """The other tag's file goes before the files that it keeps, so whoever copies it can see that."""
    table.create_tag("eod", snapshot=2)
    expire(table)
    counted(table).before["create tag/tag-copy"] = lambda: ll.open_table(table.url).delete_tag("eod")
    with pytest.raises(InvalidArgument, match="tag/tag-eod has expired"):
        table.create_tag("copy", tag="eod")
    assert names(table) == []
    assert_clean(table)


def test_a_copy_that_came_first_keeps_the_files(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    expire(table)
    other = ll.open_table(table.url)
    counted(table).before["delete tag/tag-eod"] = lambda: other.create_tag("copy", tag="eod")
    table.delete_tag("eod")
    assert values(table.at(tag="copy")) == [1, 2]
    assert_clean(table)


# ------------------------------------------------------------------------------------------------------------ deletion


def test_a_tag_of_a_snapshot_that_exists_takes_nothing_with_it(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    before = keys(table)
    assert str(table.delete_tag("eod")) == "tag eod: 0 data files, 0 files of metadata"
    assert keys(table) == before - {"tag/tag-eod"}


def test_a_tag_of_an_expired_snapshot_takes_what_only_it_needs(table: Table) -> None:
    for name, snapshot in (("one", 1), ("two", 2), ("four", 4)):
        table.create_tag(name, snapshot=snapshot)
    expire(table)
    before = keys(table)
    shown = table.delete_tag("two", dry_run=True)
    assert keys(table) == before
    assert (len(shown.steps.data), shown.to_dict()["snapshots"]) == (1, [2]), "the file of 1 is also that of tag one"
    done = table.delete_tag("two")
    assert before - keys(table) == {"tag/tag-two", *done.to_dict()["data_files"], *done.to_dict()["metadata_files"]}
    assert done.to_dict() == shown.to_dict()
    assert [values(table.at(tag=name)) for name in ("one", "four")] == [[1], [3, 4]]
    assert_clean(table)
    for name in ("one", "four"):
        table.delete_tag(name)
        assert_clean(table)
    assert values(table) == [3, 5]


def test_two_tags_of_one_snapshot(table: Table) -> None:
    table.create_tag("one", snapshot=2)
    table.create_tag("two", snapshot=2)
    expire(table)
    assert len(table.delete_tag("one").steps) == 0
    assert values(table.at(tag="two")) == [1, 2]
    assert len(table.delete_tag("two").steps.data) == 2
    assert_clean(table)


def test_what_a_branch_needs_stays(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    for key in ("schema/schema-0", "snapshot/snapshot-2"):
        table.store.put(f"branch/branch-dev/{key}", table.store.get(key))
    expire(table)
    assert len(table.delete_tag("eod").steps) == 0
    assert values(table.branch("dev")) == [1, 2]


def test_a_tag_whose_files_are_gone_can_be_deleted(table: Table) -> None:
    """Its creator died before it looked again: the tag would stop every expiry."""
    data = table.store.get("snapshot/snapshot-2")
    expire(table)
    table.store.put("tag/tag-left", data)
    table.append(rows("c", 6))
    with pytest.raises(TableCorrupt, match="tag/tag-left needs it"):
        expire(table)
    table.delete_tag("left")
    expire(table)
    assert_clean(table)


def test_a_tag_that_was_replaced_since_the_plan_stays(table: Table) -> None:
    """H18."""
    table.create_tag("eod", snapshot=2)
    expire(table, 2)
    other = ll.open_table(table.url)
    plan = table.timeline.parallel

    def after_the_plan(read: Any, items: Any) -> Any:
        todo = list(items)
        if todo and isinstance(todo[0], tuple):
            table.timeline.parallel = plan  # type: ignore[method-assign]
            other.create_tag("eod", snapshot=4, replace=True)
        return plan(read, todo)

    table.timeline.parallel = after_the_plan  # type: ignore[method-assign]
    with pytest.raises(CommitConflict, match="tag/tag-eod was replaced"):
        table.delete_tag("eod")
    assert values(table.at(tag="eod")) == [3, 4]


def test_a_tag_that_does_not_exist(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="there is no tag 'eod'"):
        table.delete_tag("eod")
    with pytest.raises(InvalidArgument, match="there is no tag 'eod'"):
        table.rename_tag("eod", "eom")


# ----------------------------------------------------------------------------------------------- replaced and renamed


def test_replacing_frees_what_the_old_one_needed(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    expire(table, 2)
    tag = table.create_tag("eod", snapshot=4, replace=True, keep="1 d")
    assert table.tags() == [tag]
    assert values(table.at(tag="eod")) == [3, 4]
    assert_clean(table)
    assert table.create_tag("new", replace=True).snapshot.id == 5, "where there is none, it is created"


def test_replacing_by_the_same_snapshot_changes_the_retention(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    expire(table)
    assert table.create_tag("eod", tag="eod", keep="1 d", replace=True).retained_ms == 86_400_000
    assert values(table.at(tag="eod")) == [1, 2]
    assert_clean(table)


def test_replacing_by_a_snapshot_that_expires_meanwhile_leaves_the_old_one(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    counted(table).before["put tag/tag-eod"] = lambda: expire(ll.open_table(table.url))
    with pytest.raises(InvalidArgument, match="snapshot-4 has expired"):
        table.create_tag("eod", snapshot=4, replace=True)
    assert values(table.at(tag="eod")) == [1, 2]
    assert table.verify("all", data=True) == []


def test_renaming(table: Table) -> None:
    made = table.create_tag("eod", snapshot=2, keep="7 d")
    expire(table)
    table.create_tag("newest")
    assert table.rename_tag("eod", "eom").created == made.created
    assert names(table) == ["eom", "newest"]
    assert values(table.at(tag="eom")) == [1, 2]
    with pytest.raises(InvalidArgument, match="there is a tag 'newest' already, of snapshot 5"):
        table.rename_tag("eom", "newest")
    assert table.rename_tag("eom", "eom").name == "eom"
    assert_clean(table)


# ----------------------------------------------------------------------------------------------------------- cut off


def create(table: Table) -> None:
    table.create_tag("new", snapshot=4)


def delete(table: Table) -> None:
    table.delete_tag("eod")


def replaced(table: Table) -> None:
    table.create_tag("eod", snapshot=5, replace=True)


def renamed(table: Table) -> None:
    table.rename_tag("eod", "eom")


def tagged_and_expired() -> Table:
    table = made()
    table.create_tag("eod", snapshot=2)
    table.create_tag("kept", snapshot=1)
    expire(table, 2)
    return table


@pytest.mark.parametrize("operation", [create, delete, replaced, renamed])
def test_a_run_that_is_cut_off_is_finished_by_the_next(operation: Callable[[Table], None]) -> None:
    """Killed before each request that changes something: no tag that can be seen lacks a file, and the next run ends as one
    that was not cut off."""

    whole = tagged_and_expired()
    before = counted(whole).changes
    operation(whole)
    wanted = {tag.name: values(whole.at(tag=tag.name)) for tag in whole.tags()}
    for left in range(counted(whole).changes - before):
        table = tagged_and_expired()
        counted(table).left = left
        with pytest.raises(Died):
            operation(table)
        counted(table).left = None
        assert table.verify("all", data=True) == []
        try:
            operation(table)
        except InvalidArgument as error:  # the last request had been made, or nothing but the old name was left
            assert "there is no tag" in error.message, (left, error)
        assert {tag.name: values(table.at(tag=tag.name)) for tag in table.tags()} == wanted, left
        table.expire_tags()
        assert_clean(table)


@pytest.mark.parametrize("operation", [delete, replaced])
def test_what_is_left_over_is_deleted_without_the_tag_that_is_there(operation: Callable[[Table], None]) -> None:
    """`expire_tags` after each cut: a tag that is there, old or new, stays and reads on, and what went leaves no file."""
    whole = tagged_and_expired()
    before = counted(whole).changes
    operation(whole)
    for left in range(counted(whole).changes - before):
        table = tagged_and_expired()
        counted(table).left = left
        with pytest.raises(Died):
            operation(table)
        counted(table).left = None
        there = {tag.name: values(table.at(tag=tag.name)) for tag in table.tags()}
        table.expire_tags()
        assert {tag.name: values(table.at(tag=tag.name)) for tag in table.tags()} == there, left
        assert str(table.expire_tags(dry_run=True)) == "no tag is deleted", left
        if there.get("eod") == [1, 2]:  # what was to happen had not begun
            assert plan_untagging(table.timeline, table.schema, [], ["eod"]).tags == ()
            operation(table)
        assert_clean(table)


def test_a_store_that_fails_says_so(table: Table) -> None:
    table.create_tag("eod", snapshot=2)
    expire(table)

    def failing() -> None:
        raise StoreUnavailable("not now")

    counted(table).before["delete tag/tag-eod"] = failing
    with pytest.raises(StoreUnavailable):
        table.delete_tag("eod")
    table.delete_tag("eod")
    assert_clean(table)


# ----------------------------------------------------------------------------------------------------------- retention


def test_tags_go_when_their_retention_is_over(table: Table) -> None:
    table.create_tag("short", snapshot=2, keep=1)
    table.create_tag("long", snapshot=1, keep="1 h")
    table.create_tag("forever", snapshot=4)
    expire(table)
    import time

    time.sleep(0.02)
    assert [tag.name for tag in table.expire_tags(dry_run=True).tags] == ["short"]
    assert table.expire_tags().to_dict()["tags"] == ["short"]
    assert names(table) == ["long", "forever"]
    assert str(table.expire_tags()) == "no tag is deleted"
    assert_clean(table)
    gone = table.expire_tags(older_than=NEVER_MS)
    assert sorted(gone.to_dict()["tags"]) == ["forever", "long"]
    assert_clean(table)


def test_a_tag_made_in_another_zone_is_not_deleted_too_early(table: Table) -> None:
    """Its time of creation has no zone, and looks hours old."""
    table.create_tag("eod", snapshot=2, keep="1 h")
    raw = json.loads(table.store.get("tag/tag-eod"))
    raw["tagCreateTime"][0] -= 1
    table.store.put("tag/tag-eod", json.dumps(raw).encode())
    modified = table.store.head("tag/tag-eod").modified_ms
    assert outlived(table.timeline, modified + 3_599_000) == []
    assert [tag.name for tag in outlived(table.timeline, modified + 3_601_000)] == ["eod"]
