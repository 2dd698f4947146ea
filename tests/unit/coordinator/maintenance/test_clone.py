"""What a clone copies, in which order, and what it does about files and roots that go while it copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from at_each_request import Struck
from fragile import Fragile
from histories import delete, filled, make

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, ObjectNotFound, PutOutcome, Unknown
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.clone import ClonePlan, apply_clone, check_target, plan_clone
from lakelatch.coordinator.maintenance.deletion import Progress
from lakelatch.coordinator.maintenance.drop import apply_drop, plan_drop
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import (
    InvalidArgument,
    RetriesExhausted,
    StoreUnavailable,
    TableCorrupt,
    TableExists,
    Unsupported,
)
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.table_identity import identity_of, with_identity, without_identity
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNTER = itertools.count()
FIELDS = from_arrow_schema(pa.schema([("v", pa.int64())]))
FIRST = "schema/schema-0"


class Source(Fragile):
    """A store in memory that does what a test says before a request, or before the n-th listing of roots or of everything.

    Attributes:
        before_list: what to do before the n-th listing, counted from 1.
        lists: how many there were; `listed`: which prefixes.
        hidden: keys that are listed, and cannot be read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before_list: dict[int, Callable[[], object]] = {}
        self.lists = 0
        self.listed: list[str] = []
        self.hidden: set[str] = set()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self.listed.append(prefix)
        if prefix in ("", "snapshot/"):
            self.lists += 1
            self.before_list.pop(self.lists, int)()
        return super().list(prefix)

    def get(self, key: str) -> bytes:
        if key in self.hidden:
            raise ObjectNotFound(key)
        return super().get(key)


def fresh() -> MemoryStore:
    return MemoryStore(f"memory://clone-{next(COUNTER)}/t")


def cloned(
    source: MemoryStore, target: MemoryStore, progress: Progress | None = None, uuid: str | None = None
) -> ClonePlan:
    timeline = Timeline(source, TablePaths())
    around = replace(MACHINE, new_uuid=lambda: uuid) if uuid is not None else MACHINE
    return apply_clone(timeline, timeline.latest_schema(), target, progress, around)


def planned(source: MemoryStore, target: MemoryStore) -> ClonePlan:
    timeline = Timeline(source, TablePaths())
    return plan_clone(timeline, timeline.latest_schema(), target)


def keys(store: MemoryStore, prefix: str = "") -> list[str]:
    return sorted(info.key for info in MemoryStore.list(store, "") if info.key.startswith(prefix))


def named(infos: tuple[ObjectInfo, ...]) -> list[str]:
    return sorted(info.key for info in infos)


@pytest.fixture
def source() -> Source:
    """A table with three snapshots and two tags; its clone is made by three listings."""
    store = Source()
    make(store)
    filled(store, 1, 2, 3)
    for tag in "ab":
        store.put(f"tag/tag-{tag}", store.get("snapshot/snapshot-1"))
    store.lists, store.listed = 0, []
    return store


def sized() -> Source:
    """A table whose files have known sizes, next to files of others and of writers that died."""
    store = Source()
    make(store)
    for key, size in (("snapshot/snapshot-1", 2), ("branch/branch-dev/snapshot/snapshot-10", 30), ("tag/tag-x", 400),
                      ("bucket-0/data-1", 5_000), ("manifest/m", 60_000), ("snapshot/EARLIEST", 1), ("README.md", 9),
                      ("bucket-0/.data-2.x.tmp", 9), ("snapshot/.snapshot-2.x.tmp", 9)):  # fmt: skip
        store.put(key, b"x" * size)
    return store


# --------------------------------------------------------------------------------------------------------------- plan


def test_a_plan_counts_what_it_copies_and_leaves_out_what_is_not_the_tables() -> None:
    store, target = sized(), fresh()
    plan = planned(store, target)
    assert named(plan.files) == ["bucket-0/data-1", "manifest/m"]
    assert named(plan.roots) == [
        *("branch/branch-dev/snapshot/snapshot-10", FIRST, "snapshot/EARLIEST", "snapshot/snapshot-1", "tag/tag-x")
    ]
    size = 65_433 + len(store.get(FIRST))
    assert str(plan) == f"{store.url} to {target.url}: 2 snapshots, 7 files, {size} bytes"
    assert plan.to_dict() == {"url": store.url, "target": target.url, "snapshots": 2, "files": 7, "bytes": size}
    assert keys(target) == []


def test_a_root_that_goes_between_the_listings_of_a_plan_is_not_in_it(source: Source) -> None:
    """Files are listed after the roots that name them; a root that is gone by then may lack files already."""
    source.before_list = {2: lambda: source.delete_many(["tag/tag-a"])}
    assert "tag/tag-a" not in named(planned(source, fresh()).roots)
    assert source.lists == 4


def test_the_files_of_a_table_are_listed_once(source: Source) -> None:
    """There may be millions. What is listed before and after are the folders of the roots."""
    cloned(source, fresh())
    assert source.listed.count("") == 1
    folders = {f"{kind}/" for kind in ("snapshot", "tag", "changelog", "consumer", "schema", "branch")}
    assert set(source.listed) == folders | {""}
    assert min(source.listed.count(folder) for folder in folders) == 2


def test_a_table_whose_roots_keep_going_is_not_cloned(source: Source) -> None:
    for number in range(20):
        source.put(f"tag/tag-{number}", b"")
        source.before_list[2 * number] = lambda number=number: source.delete_many([f"tag/tag-{number}"])
    with pytest.raises(RetriesExhausted, match=f"{source.url} was not cloned: its files are being deleted") as caught:
        planned(source, fresh())
    assert caught.value.next_step == "run it again when no expiry is running"


def schema_in(directory: str) -> TableSchema:
    return new_schema(FIELDS, options={"data-file.path-directory": directory} if directory else {})


def test_a_table_with_files_elsewhere_is_refused(source: Source) -> None:
    options = {"data-file.external-paths": "file:///one, file:///two"}
    with pytest.raises(Unsupported, match=r"in file:///one \(option 'data-file.external-paths'\)"):
        plan_clone(Timeline(source, TablePaths()), new_schema(FIELDS, options=options), fresh())


def test_a_clone_into_a_data_directory_is_continued() -> None:
    """What an earlier run has copied there is the table's own."""
    table = ll.create_table(fresh().url, pa.schema([("v", pa.int64())]), options={"data-file.path-directory": "data"})
    table.append(pa.table({"v": [1]}))
    table.committer.settle()
    target = fresh()
    (key,) = (info.key for info in table.store.list("data/"))
    target.put(key, b"half")
    table.clone(target.url)
    assert ll.open_table(target.url).to_arrow()["v"].to_pylist() == [1]


def test_which_places_are_refused() -> None:
    store, target = fresh(), fresh()
    store.put(FIRST, b"one")
    target.put("data/bucket-0/x", b"")
    check_target(store, schema_in("data"), target)
    with pytest.raises(InvalidArgument, match="holds other files, such as data/bucket-0/x"):
        check_target(store, schema_in(""), target)
    target = fresh()
    target.put("bucket-0/data-1", b"")
    check_target(store, schema_in(""), target)
    target.put(FIRST, b"other")
    with pytest.raises(TableExists, match="there is another table at"):
        check_target(store, schema_in(""), target)
    target.put(FIRST, b"one")
    with pytest.raises(TableExists, match="has been cloned already"):
        check_target(store, schema_in(""), target)
    with pytest.raises(TableCorrupt, match="schema/schema-0 is missing"):
        check_target(fresh(), schema_in(""), target)


@pytest.mark.parametrize(
    ("directory", "key"),
    [
        ("", "dt=1/part-0.parquet"), ("", "dt=1/h=2/bucket-x/part-0.parquet"), ("data", "data/part-0.parquet"),
        ("data", "data/dt=1/part-0.parquet"), ("a.b", "a.b/axb/part-0.parquet"),
    ],
)  # fmt: skip
def test_a_folder_of_hive_or_of_anybody_else_is_not_taken_for_the_rest_of_an_earlier_try(
    directory: str, key: str
) -> None:
    """A clone deletes what such a try has left. Only what the table has, too, may be a copy of it."""
    store, target = fresh(), fresh()
    store.put(FIRST, b"one")
    target.put(key, b"rows of others")
    with pytest.raises(InvalidArgument, match=f"holds other files, such as {key}"):
        check_target(store, schema_in(directory), target)
    store.put(key, b"a file of others in the table's folder")
    check_target(store, schema_in(directory), target)


def test_what_writers_put_below_a_data_directory_may_be_of_an_earlier_try() -> None:
    store, target = fresh(), fresh()
    store.put(FIRST, b"one")
    for key in ("data/bucket-0/x", "data/dt=1/h=2/bucket-postpone/x", "bucket-3/x", "dt=1/bucket-0/x", "tag/tag-a"):
        target.put(key, b"")
    with pytest.raises(InvalidArgument, match="such as bucket-3/x"):
        check_target(store, schema_in("/data/"), target)
    target.delete_many(["bucket-3/x", "dt=1/bucket-0/x"])
    check_target(store, schema_in("/data/"), target)


# --------------------------------------------------------------------------------------------------------------- copy


def test_what_was_copied_before_is_not_copied_again_and_counts_as_done(source: Source) -> None:
    """Files have the same content under the same name and size; another size is half a file."""
    files = named(planned(source, fresh()).files)
    target, told = Struck(), list[tuple[int, int]]()
    for key in files[:3]:
        MemoryStore.put(target, key, source.get(key))
    MemoryStore.put(target, files[3], source.get(files[3])[:-1])
    MemoryStore.put(target, "bucket-0/data-of-an-earlier-try", b"")
    done = cloned(source, target, lambda *count: told.append(count))
    assert sorted(a for a in target.asked if a.startswith("put") and a[4:] in files) == [f"put {k}" for k in files[3:]]
    assert told == [(number, len(files)) for number in range(4, len(files) + 1)]
    assert keys(target) == sorted([*files, *named(done.roots), "snapshot/LATEST"])
    assert all(MemoryStore.get(target, key) == source.get(key) for key in files)


def test_roots_follow_the_files_and_schemas_the_other_roots(source: Source) -> None:
    """Until schema 0 is there, nobody takes the folder for a table."""
    source.put("schema/schema-1", source.get(FIRST))
    target = Struck()
    done = cloned(source, target)
    written = [asked for asked in target.asked if asked.startswith(("put", "create"))]
    groups = [
        0 if asked[4:] in named(done.files) else 2 if "schema/schema-1" in asked else 4 if asked == f"create {FIRST}" else
        3 if asked == "put snapshot/LATEST" else 1 for asked in written
    ]  # fmt: skip
    assert groups == sorted(groups)
    assert set(groups) == {0, 1, 2, 3, 4}


def test_hints_are_written_anew(source: Source) -> None:
    source.put("snapshot/LATEST", b"99")
    source.put("branch/branch-dev/snapshot/snapshot-7", source.get("snapshot/snapshot-1"))
    source.put("branch/branch-dev/snapshot/LATEST", b"98")
    target = fresh()
    done = cloned(source, target)
    assert target.get("snapshot/LATEST") == b"3"
    assert keys(target, "branch/") == ["branch/branch-dev/snapshot/snapshot-7"]
    assert [key for key in named(done.roots) if key.endswith("LATEST")] == []


def test_a_table_without_a_snapshot_is_its_schema() -> None:
    store, target = Source(), fresh()
    make(store)
    assert named(cloned(store, target).roots) == keys(target) == [FIRST]
    assert without_identity(target.get(FIRST)) == without_identity(store.get(FIRST)), "the same columns and options"
    assert identity_of(target.get(FIRST)) != identity_of(store.get(FIRST)), "another table"


# ---------------------------------------------------------------------------------------------------------- meanwhile


def test_a_file_that_goes_before_it_is_copied_is_not_in_the_clone(source: Source) -> None:
    source.put("bucket-0/data-orphan", b"")
    source.before = {"get bucket-0/data-orphan": lambda: source.delete_many(["bucket-0/data-orphan"])}
    target = fresh()
    assert "bucket-0/data-orphan" not in [*named(cloned(source, target).files), *keys(target)]
    assert source.lists == 3, "no root needs it"


@pytest.mark.parametrize("kind", ["manifest/manifest-", "bucket-0/"])
def test_a_file_that_a_root_needs_is_asked_for_again(source: Source, kind: str) -> None:
    """Its writer has lost a race, or an expiry is under way: a second plan tells."""
    key = next(k for k in keys(source, kind) if "list" not in k)
    source.hidden = {key}
    with pytest.raises(RetriesExhausted, match="was not cloned"):
        cloned(source, fresh())
    assert source.lists == 15, "five plans"


def test_a_tag_that_goes_before_it_is_read_is_not_in_the_clone(source: Source) -> None:
    source.before = {"get tag/tag-a": lambda: source.delete_many(["tag/tag-a"])}
    target = fresh()
    done = cloned(source, target)
    assert keys(target, "tag/") == [key for key in named(done.roots) if key.startswith("tag/")] == ["tag/tag-b"]
    assert source.lists == 5


def test_a_tag_that_goes_while_files_are_copied_is_left_out(source: Source) -> None:
    """It may lack files in the copy. The others do not."""
    source.before = {"get bucket-0/": lambda: source.delete_many(["tag/tag-a"])}
    target = fresh()
    done = cloned(source, target)
    assert keys(target, "tag/") == [key for key in named(done.roots) if key.startswith("tag/")] == ["tag/tag-b"]
    assert source.lists == 3, "it needs no second plan"


@pytest.mark.parametrize("deleted", [False, True])
def test_snapshots_that_an_expiry_announces_while_files_are_copied_are_left_out(source: Source, deleted: bool) -> None:
    def expiry() -> None:
        source.put("snapshot/EARLIEST", b"2")
        if deleted:
            delete(source, 1)

    source.before = {"get bucket-0/": expiry}
    target = fresh()
    cloned(source, target)
    held = {key: target.get(key) for key in keys(target, "snapshot/") if not key[-1].isdigit()}
    assert held == {"snapshot/EARLIEST": b"2", "snapshot/LATEST": b"3"}
    assert keys(target, "snapshot/snapshot-") == ["snapshot/snapshot-2", "snapshot/snapshot-3"]
    assert source.lists == 3, "it needs no second plan"


def test_without_earliest_nothing_is_announced(source: Source) -> None:
    source.delete_many(["snapshot/EARLIEST"])
    target = fresh()
    cloned(source, target)
    assert keys(target, "snapshot/") == ["snapshot/LATEST", *(f"snapshot/snapshot-{n}" for n in (1, 2, 3))]


def test_an_expiry_of_a_branch_concerns_the_branch(source: Source) -> None:
    for number in (1, 2):
        source.put(f"branch/branch-dev/snapshot/snapshot-{number}", source.get(f"snapshot/snapshot-{number}"))
    source.before = {"get bucket-0/": lambda: source.put("branch/branch-dev/snapshot/EARLIEST", b"2")}
    target = fresh()
    cloned(source, target)
    assert keys(target, "branch/") == ["branch/branch-dev/snapshot/snapshot-2"]
    assert len(keys(target, "snapshot/snapshot-")) == 3


def test_a_rollback_of_another_engine_while_files_are_copied_makes_another_plan(source: Source) -> None:
    """The newest snapshot is gone, and what is the newest now may have come since."""
    source.before = {"get bucket-0/": lambda: delete(source, 3)}
    target = fresh()
    cloned(source, target)
    assert source.lists == 6
    assert keys(target, "snapshot/snapshot-") == ["snapshot/snapshot-1", "snapshot/snapshot-2"]
    assert target.get("snapshot/LATEST") == b"2"


def test_a_table_that_is_dropped_meanwhile_is_not_cloned(source: Source) -> None:
    source.before = {"get bucket-0/": lambda: apply_drop(source, plan_drop(source))}
    target = fresh()
    with pytest.raises(RetriesExhausted):
        cloned(source, target)
    assert FIRST not in keys(target)


def test_a_file_that_can_never_be_read_ends_the_clone(source: Source) -> None:
    source.hidden = {keys(source, "bucket-0/")[0]}
    target = fresh()
    with pytest.raises(RetriesExhausted, match="was not cloned"):
        cloned(source, target)
    assert keys(target, "schema/") == keys(target, "snapshot/") == []


# ------------------------------------------------------------------------------------------------------------ the end


def test_a_last_create_without_an_answer_is_looked_at(source: Source) -> None:
    target = Fragile()

    def created_all_the_same() -> PutOutcome:
        MemoryStore.put(target, FIRST, with_identity(source.get(FIRST), "u-1"))
        return Unknown("timeout")

    target.before = {f"create {FIRST}": created_all_the_same}
    assert cloned(source, target, uuid="u-1").snapshots == 3
    target = Fragile()
    target.before = {f"create {FIRST}": lambda: Unknown("timeout")}
    with pytest.raises(StoreUnavailable, match=f"not known whether the table at {target.url} was made"):
        cloned(source, target)
    target = Fragile()
    target.before = {f"create {FIRST}": lambda: MemoryStore.put(target, FIRST, b"of another table")}
    with pytest.raises(StoreUnavailable):
        cloned(source, target)
    assert target.get(FIRST) == b"of another table"


def test_a_table_that_another_run_has_made_meanwhile_keeps_its_files(source: Source) -> None:
    """It may have been written to since."""
    target = Fragile()
    ours: list[str] = []

    def another() -> None:
        cloned(source, target)
        copy = ll.open_table(target.url)
        copy.append(pa.table({"v": [9]}))
        copy.committer.settle()
        ours[:] = keys(target)

    (data, *_) = (info.key for info in source.list("") if "bucket-0/" in info.key)
    target.before = {f"put {data}": another}
    with pytest.raises(TableExists, match=f"another run has made a table at {target.url} meanwhile"):
        cloned(source, target)
    assert keys(target) == ours
    assert sorted(ll.open_table(target.url).to_arrow()["v"].to_pylist()) == [1, 2, 3, 9]
