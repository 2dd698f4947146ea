"""What a job learns of the snapshot that it begins on: the largest numbers, the bucket counts, and what it costs to know."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from changes import reopened, said, without_numbers

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.base_numbers import BaseNumbers
from lakelatch.coordinator.commit.knowledge import Knowledge
from lakelatch.coordinator.commit.request import CommitRequest, Restoration
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.row_numbers import row_numbers
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.surroundings import MACHINE, Surroundings
from lakelatch.core.metadata.data_file import ADD, DataFile, ManifestEntry
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import codec_of
from lakelatch.table.table import Table

NUMBERS = itertools.count()
SCHEMA = pa.schema([("part", pa.string()), ("v", pa.int64())])


class Asked(MemoryStore):
    """A store in memory that counts what is read and listed, by folder."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked = Counter[str]()

    def get(self, key: str) -> bytes:
        self.asked[key.partition("/")[0]] += 1
        return super().get(key)

    def list(self, prefix: str) -> Any:
        self.asked[f"list {prefix}"] += 1
        return super().list(prefix)


class World:
    """A table with fixed buckets whose files are made up, and jobs that begin on it."""

    def __init__(self, threads: Executor, buckets: int = 4, *, says: bool = False) -> None:
        """`says`: its snapshots say which sequence numbers their rows have."""
        url = f"memory://base-numbers-{next(NUMBERS)}/t"
        options = {"bucket": str(buckets), "bucket-key": "v"}
        made = ll.create_table(url, SCHEMA, partition_by=["part"], options=options)
        self.store, self.threads, self.says = Asked(url), threads, says
        self.table = Table(self.store, made.schema)
        self.timeline = Timeline(self.store, TablePaths())
        self.knows = Knowledge(MACHINE, made.schema)

    def place(self, part: str) -> bytes:
        return codec_of(self.table.schema).encode((part,))

    def commit(self, part: str, buckets: int, *, bucket: int = 0, rows: int = 10, replaces: bool = False) -> None:
        """One file, in place of all others of its partition or beside them."""
        partition = self.place(part)
        file = DataFile(f"data-{next(NUMBERS)}.parquet", 1, rows)
        entries = (ManifestEntry(ADD, partition, bucket, buckets, file),) if rows else ()
        more: dict[str, Any] = {"kind": "APPEND"}
        if replaces:
            more = {"kind": "OVERWRITE", "target": partition.__eq__, "read_snapshot": self.timeline.latest()}
        committer = reopened(self.table).committer
        receipt = committer.commit(CommitRequest(entries=entries, commit_user="job", **more))
        committer.settle()
        if not self.says:
            without_numbers(self.store, receipt.snapshot_id)

    def begin(self, around: Surroundings = MACHINE, **schema: Any) -> BaseNumbers:
        """A job begins, and its look at the newest snapshot ends."""
        self.store.asked.clear()
        numbers = BaseNumbers(self.timeline, self.knows, replace(self.table.schema, **schema), around, self.threads)
        assert numbers.snapshot == self.timeline.latest()
        return numbers

    def postponed(self, buckets: int) -> dict[str, str]:
        """The options of a table whose new partitions get so many buckets."""
        return {"bucket": "-2", "postpone.default-bucket-num": str(buckets)}

    def known(self) -> Base:
        found = self.knows.newest.get()
        assert found is not None
        return found


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as made:
        yield made


@pytest.fixture
def world(threads: Executor) -> World:
    return World(threads)


def test_a_table_without_a_snapshot_has_no_numbers_and_no_buckets(world: World) -> None:
    numbers = world.begin()
    assert numbers.snapshot is None
    assert numbers.largest({world.place("a")}) == {}
    assert numbers.largest_of_all() == -1
    assert numbers.bucket_count(world.place("a")) is None
    assert numbers.bucket_counts() == {}
    assert world.known().schema_id == 0


def test_the_largest_number_of_each_bucket_of_the_partitions_that_were_asked_for(world: World) -> None:
    world.commit("a", 4, rows=10)
    world.commit("a", 4, rows=5)
    world.commit("a", 4, bucket=3, rows=1)
    world.commit("b", 4, rows=100)
    numbers, a, b = world.begin(), world.place("a"), world.place("b")
    assert numbers.largest({a}) == {(a, 0): 14, (a, 3): 0}
    assert numbers.largest({b}) == {(b, 0): 99}
    assert numbers.largest_of_all() == 99
    assert numbers.largest({world.place("c")}) == {}


def test_the_number_of_buckets_of_a_partition(threads: Executor) -> None:
    world = World(threads, buckets=1)
    world.commit("a", 1)
    world.commit("b", 1)
    numbers = world.begin()
    assert numbers.bucket_count(world.place("a")) == 1
    assert numbers.bucket_count(world.place("c")) is None
    assert numbers.bucket_counts() == {world.place("a"): 1, world.place("b"): 1}


def test_a_partition_that_was_rescaled_has_the_number_of_its_live_files(world: World) -> None:
    """Its removed files are still mentioned, with a larger number of buckets."""
    world.commit("a", 4)
    world.commit("b", 4)
    world.commit("a", 2, replaces=True)
    numbers, a, b = world.begin(), world.place("a"), world.place("b")
    assert numbers.bucket_count(a) == 2
    assert numbers.bucket_count(b) == 4
    assert numbers.bucket_counts() == {a: 2, b: 4}


def test_a_partition_that_was_left_with_two_bucket_counts_has_the_larger_one(world: World) -> None:
    """Only another writer, or a rollback to what it left, makes such a partition."""
    place = world.place("a")
    files = tuple(ManifestEntry(ADD, place, 0, count, DataFile(f"data-{count}.parquet", 1, 1)) for count in (4, 2))
    world.commit("a", 4)
    read = world.timeline.latest()
    back = Restoration("OVERWRITE", files, "job", target=place.__eq__, read_snapshot=read)
    reopened(world.table).committer.commit(back)
    numbers = world.begin()
    assert numbers.bucket_count(place) == 4
    assert numbers.bucket_counts() == {place: 4}


def test_a_partition_that_was_rescaled_and_emptied_has_none(world: World) -> None:
    world.commit("a", 4)
    world.commit("a", 2, replaces=True)
    world.commit("a", 2, rows=0, replaces=True)
    world.commit("b", 4)
    numbers = world.begin()
    assert numbers.bucket_count(world.place("a")) is None
    assert numbers.bucket_counts() == {world.place("b"): 4}


def test_rows_that_wait_for_a_bucket_and_files_without_buckets_have_no_count(world: World) -> None:
    world.commit("postponed", -2, bucket=-2)
    world.commit("unbucketed", -1)
    world.commit("none", 0)
    world.commit("b", 4)
    numbers = world.begin()
    assert numbers.bucket_count(world.place("postponed")) is None
    assert numbers.bucket_count(world.place("unbucketed")) is None
    assert numbers.bucket_count(world.place("none")) is None
    assert numbers.bucket_counts() == {world.place("b"): 4}


@pytest.mark.parametrize("ask", [lambda n, p: n.bucket_count(p), lambda n, p: n.bucket_counts()], ids=["one", "all"])
def test_bucket_counts_are_read_once(world: World, ask: Callable[[BaseNumbers, bytes], Any]) -> None:
    """Live files are looked for only where there are two counts."""
    world.commit("a", 4)
    world.commit("a", 4, bucket=1)
    numbers = world.begin()
    ask(numbers, world.place("a"))
    world.store.asked.clear()
    ask(numbers, world.place("a"))
    assert world.store.asked == {}


# ------------------------------------------------------------------------------------------------------- the look


def test_a_job_on_a_known_snapshot_reads_no_lists_and_no_schemas(world: World) -> None:
    world.commit("a", 4)
    world.begin()
    assert world.store.asked["manifest"] == 2, "the two lists of manifests"
    assert world.store.asked["list schema/"] == 1
    first = world.known()
    world.begin()
    assert world.store.asked["manifest"] == 0 and world.store.asked["list schema/"] == 0
    second = world.known()
    assert (second.snapshot, second.manifests, second.schema_id) == (first.snapshot, first.manifests, 0)
    assert second.seen_ms > first.seen_ms


def test_a_job_on_a_newer_snapshot_reads_its_lists(world: World) -> None:
    world.commit("a", 4)
    world.begin()
    world.commit("a", 4)
    numbers = world.begin()
    assert world.store.asked["manifest"] == 2
    assert len(world.known().manifests) == 2
    assert numbers.largest({world.place("a")}) == {(world.place("a"), 0): 19}


def test_schemas_are_looked_for_again_after_half_a_minute(world: World) -> None:
    """So a commit learns of a new schema although no snapshot names it."""
    world.commit("a", 4)
    later = replace(MACHINE, monotonic_s=lambda: MACHINE.monotonic_s() + 31)
    world.begin()
    reopened(world.table).alter(ll.add_column("w", "INT"))
    world.begin()
    assert world.known().schema_id == 0
    world.begin(later)
    assert world.known().schema_id == 1


def test_the_newest_schema_is_the_newest_that_anybody_knows(world: World) -> None:
    """The job's own, the one that the snapshot names, the one that was known, and those that are listed."""
    world.commit("a", 4)
    world.begin(id=3)
    assert world.known().schema_id == 3, "the job's own"
    world.begin()
    assert world.known().schema_id == 3, "it was known"
    world.knows.newest.forget()
    reopened(world.table).alter(ll.add_column("w", "INT"))
    world.begin()
    assert world.known().schema_id == 1, "it is listed"
    world.knows.newest.learn(replace(world.known(), schema_id=0, seen_ms=MACHINE.now_ms))
    reopened(world.table).append(pa.table({"part": ["a"], "v": [1], "w": pa.array([1], pa.int32())}))
    world.begin()
    assert world.store.asked["list schema/"] == 0
    assert world.known().schema_id == 1, "the snapshot names it"


# ------------------------------------------------------------------------------- what the snapshot itself says of them


@pytest.fixture
def telling(threads: Executor) -> World:
    return World(threads, says=True)


def test_a_snapshot_that_says_its_largest_number_is_believed_for_every_bucket(telling: World) -> None:
    """Nothing is read but the snapshot; a larger number than a bucket has is as good as its own."""
    telling.commit("a", 4, rows=10)
    telling.commit("b", 4, bucket=3, rows=100)
    numbers, a, b = telling.begin(), telling.place("a"), telling.place("b")
    largest = row_numbers(telling.timeline.latest())
    assert largest is not None
    found = numbers.largest({a})
    assert found[a, 0] == found[b, 3] == found[telling.place("c"), 1] == largest.largest
    assert numbers.largest_of_all() == largest.largest
    assert telling.store.asked["manifest"] == 0
    assert telling.known().unread and telling.known().manifests == ()


def test_the_bucket_count_that_a_snapshot_says_is_that_of_every_partition(telling: World) -> None:
    telling.commit("a", 4)
    numbers = telling.begin(option_texts=telling.postponed(4))
    assert numbers.bucket_count(telling.place("a")) == 4
    assert numbers.bucket_count(telling.place("b")) == 4
    assert telling.store.asked["manifest"] == 0


def test_another_bucket_count_than_new_partitions_get_is_read(telling: World) -> None:
    """A partition without files gets the one of the options."""
    telling.commit("a", 4)
    numbers = telling.begin(option_texts=telling.postponed(2))
    assert numbers.bucket_count(telling.place("a")) == 4
    assert numbers.bucket_count(telling.place("b")) is None
    assert telling.store.asked["manifest"] == 3, "two lists and a manifest"


def test_lists_that_were_left_unread_are_read_once(telling: World) -> None:
    telling.commit("a", 4)
    telling.commit("b", 4)
    numbers = telling.begin()
    for _ in range(2):
        assert numbers.bucket_counts() == {telling.place("a"): 4, telling.place("b"): 4}
        assert telling.store.asked["manifest"] == 4, "two lists and two manifests"
    assert len(telling.known().manifests) == 2 and not telling.known().unread
    again = telling.begin()
    assert again.bucket_counts() == {telling.place("a"): 4, telling.place("b"): 4}
    assert telling.store.asked["manifest"] == 0, "they are known"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"largest":1,"buckets":4,"writes":[[1]],"merged":-1}', f'{{"largest":{1 << 63}}}'],
)
def test_what_cannot_be_understood_is_not_believed(telling: World, text: str) -> None:
    telling.commit("a", 4, rows=10)
    said(telling.store, 1, text)
    numbers, a = telling.begin(), telling.place("a")
    (found,) = numbers.largest({a}).items()
    assert found[0] == (a, 0)
    assert telling.store.asked["manifest"] == 3
