"""The contract of `backends/store.py` as tests that the backends of lakelatch and of other packages inherit.

Owns: `StoreContract`, and the name `FaultContract` from `contract_faults`. Must not know: any particular store.
The test module of a backend (with pytest and pyarrow installed) provides a fixture that opens its stores:

    from lakelatch.lab.contract import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def stores(self):
            root = uuid.uuid4().hex
            return lambda path: MyStore(f"myfs://{root}/{path}")     # the same path must give the same objects

Invariant: a case that does not apply to a store is skipped with a reason, and never counted as passed.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ..backends.local import local_path
from ..backends.registry import scheme_of
from ..backends.store import AlreadyThere, Created, ObjectNotFound, PutOutcome, Store
from ..core.errors import InvalidArgument
from .contract_faults import FaultContract, Network

__all__ = ["FaultContract", "Network", "StoreContract", "Stores"]

Stores = Callable[[str], Store]
"""Opens the store at a path."""

MEBIBYTE = 1 << 20

ODD_KEYS = [
    "part key=a b/bucket-0/data file.parquet",
    "Ünï/çødé-日本.parquet",
    "p%20q=%2F/100%/x",
    "k=v/k2=/x",
    "plus+and&amp;/semi;colon/'quote'",
    "question?versionId=3/hash#tag",
    "tilde~/{brace}/[x]",
    "__HIVE_DEFAULT__/..dots../.hidden",
]

HOSTILE_KEYS = [
    *(
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "a//b",
        "a/",
        "./a",
        "a/./b",
        "a\x00b",
        "a/\ud800",
        None,
    ),
]

NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))


class StoreContract:
    """The test cases. A subclass provides the fixture `stores`, and may override the following.

    Attributes:
        racers, rounds: the size of the create race. It has 200 rounds if `LAKELATCH_NIGHTLY` is set.
    """

    racers = 16
    rounds = 200 if NIGHTLY else 12

    @pytest.fixture
    def start_method(self) -> str:
        """How the race starts processes. `fork` shows that a store survives a fork, `spawn` that it can be pickled. `threads`
        is for stores that no other process can see."""
        return "fork"

    @pytest.fixture
    def many(self) -> int:
        """A number of objects that exceeds one page of the store's listing."""
        return 1010

    @pytest.fixture
    def store(self, stores: Stores) -> Store:
        return stores("table")

    def test_is_a_store(self, store: Store) -> None:
        """Every backend has the shape of the protocol (architecture §4)."""
        assert isinstance(store, Store)
        assert store.capabilities.atomic_create

    def test_create_then_refuse(self, store: Store) -> None:
        """G4, H1: the first create wins. The second is refused and leaves nothing."""
        assert store.put_if_absent("snapshot/snapshot-1", b"first") == Created()
        assert store.put_if_absent("snapshot/snapshot-1", b"second, longer") == AlreadyThere()
        assert store.get("snapshot/snapshot-1") == b"first"
        assert keys(store) == ["snapshot/snapshot-1"]

    @pytest.mark.parametrize("size", [0, 1, 20 * MEBIBYTE], ids=["empty", "one byte", "20 MB"])
    def test_any_size_comes_back(self, store: Store, size: int) -> None:
        """G1: bytes of an acknowledged write can be read back whole, however they were written."""
        data = pattern(size)
        store.put("put", data)
        assert store.put_if_absent("created", data) == Created()
        with store.open_output("streamed") as file:
            for start in range(0, size, 3 * MEBIBYTE + 1):
                file.write(data[start : start + 3 * MEBIBYTE + 1])
        for key in ("put", "created", "streamed"):
            assert store.get(key) == data
            assert store.head(key).size == size
        assert {info.key: info.size for info in store.list("")} == {"put": size, "created": size, "streamed": size}

    def test_an_empty_create_is_atomic_too(self, store: Store) -> None:
        """H1: s3fs drops the condition for an empty object in one of its methods."""
        store.put("tag/x", b"full")
        assert store.put_if_absent("tag/x", b"") == AlreadyThere()
        assert store.get("tag/x") == b"full"

    def test_put_replaces(self, store: Store) -> None:
        """The hint files are overwritten."""
        store.put("snapshot/LATEST", b"1")
        store.put("snapshot/LATEST", b"22")
        assert store.get("snapshot/LATEST") == b"22"

    def test_ranges(self, store: Store) -> None:
        """A range is [start, end), and shorter at the end of the object."""
        store.put("data", bytes(range(100)))
        assert store.get_range("data", 0, 1) == b"\x00"
        assert store.get_range("data", 10, 20) == bytes(range(10, 20))
        assert store.get_range("data", 90, 200) == bytes(range(90, 100))
        assert store.get_range("data", 100, 110) == b""
        assert store.get_range("data", 150, 160) == b""
        assert store.get_range("data", 5, 5) == b""
        for start, end in ((-1, 5), (6, 5)):
            with pytest.raises(InvalidArgument):
                store.get_range("data", start, end)

    def test_missing_objects(self, store: Store) -> None:
        """Every way to read a missing object raises `ObjectNotFound` with its key."""
        store.put("there/x", b"1")
        for read in (
            store.get,
            store.head,
            lambda key: store.get_range(key, 0, 1),
            store.open_input,
        ):
            for key in ("not-there", "there/not", "not/there/at/all", "there"):
                with pytest.raises(ObjectNotFound) as caught:
                    read(key)
                assert caught.value.key == key
        assert keys(store, "nowhere/") == []

    def test_listing_is_recursive_and_immediate(self, store: Store, stores: Any) -> None:
        """G4: every object whose create has returned is listed, for this client and for another."""
        other = stores("table")
        assert keys(other) == []
        names = [f"snapshot/snapshot-{number}" for number in range(3)] + [
            "snapshot/deep/er/x",
            "snapshots/no",
            "LATEST",
        ]
        for number, name in enumerate(names):
            if number % 2:
                store.put(name, b"x" * number)
            else:
                assert store.put_if_absent(name, b"x" * number) == Created()
            assert name in keys(other)
        assert keys(other) == sorted(names)
        assert keys(other, "snapshot/") == sorted(name for name in names if name.startswith("snapshot/"))
        assert keys(other, "snapshot/deep/") == ["snapshot/deep/er/x"]

    def test_two_roots_do_not_see_each_other(self, stores: Any) -> None:
        """A root is a folder: a store at `t` does not see the objects of `table`, nor the reverse."""
        table, shorter = stores("table"), stores("t")
        table.put("a", b"1")
        shorter.put("b", b"2")
        assert keys(table) == ["a"]
        assert keys(shorter) == ["b"]

    def test_modification_times(self, store: Store) -> None:
        """H10: age limits use the store's clock. `head` and a listing agree on it."""
        store.put("a", b"1")
        store.put("b", b"1")
        times = {info.key: info.modified_ms for info in store.list("")}
        for key in ("a", "b"):
            assert abs(store.head(key).modified_ms - times[key]) < 1000  # some listings have whole seconds only
        assert times["a"] > 1_600_000_000_000
        assert times["a"] <= times["b"]

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_odd_names(self, store: Store, key: str) -> None:
        """Partition values and file names come from the data of users."""
        assert store.put_if_absent(key, b"1") == Created()
        assert store.put_if_absent(key, b"2") == AlreadyThere()
        assert store.get(key) == b"1"
        assert store.get_range(key, 0, 1) == b"1"
        assert store.head(key).key == key
        assert keys(store) == [key]
        assert keys(store, key.rpartition("/")[0] + "/") == [key]
        store.delete_many([key, "other"])
        assert keys(store) == []

    def test_a_backslash(self, store: Store) -> None:
        """H16: a backslash is kept or refused. A store that turns it into a slash would give two keys one object."""
        key = "part=a\\b/x"
        try:
            assert store.put_if_absent(key, b"1") == Created()
        except InvalidArgument:
            return
        assert keys(store) == [key]
        assert store.put_if_absent("part=a/b/x", b"2") == Created()
        assert store.get(key) == b"1"

    def test_deletes(self, store: Store) -> None:
        """Deleting a missing object is not an error, and other objects stay."""
        for name in ("a", "b/c", "b/d"):
            store.put(name, b"1")
        store.delete_many([])
        store.delete_many(["not-there"])
        store.delete_many(iter(["a", "b/c", "never/there", "a"]))
        assert keys(store) == ["b/d"]
        assert store.put_if_absent("a", b"again") == Created()

    def test_many_objects(self, store: Store, many: int) -> None:
        """Listings and deletes have pages of 1000 keys. Nothing is lost between two pages."""
        names = [f"data/{number:05}" for number in range(many)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: store.put(name, b""), names))
        assert keys(store, "data/") == names
        store.delete_many(names)
        assert keys(store) == []

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_hostile_keys(self, store: Store, key: Any) -> None:
        """H16: no operation accepts a key that leaves the root."""
        for act in (
            store.get,
            store.head,
            lambda key: store.get_range(key, 0, 1),
            lambda key: store.put(key, b""),
            lambda key: store.put_if_absent(key, b""),
            lambda key: store.delete_many([key]),
            lambda key: store.open_input(key, 1).read(),
            store.open_output,
        ):
            with pytest.raises(InvalidArgument):
                act(key)

    @pytest.mark.parametrize("prefix", ["..", "../", "/", "a", "a//", "a/../b/", "snapshot/snapshot-"])
    def test_hostile_prefixes(self, store: Store, prefix: str) -> None:
        """H16: a listing stays inside the root, and its prefix is a folder."""
        with pytest.raises(InvalidArgument):
            list(store.list(prefix))

    def test_the_url_names_the_store(self, store: Store) -> None:
        """Tables are opened anew by it, and files beside them found; without a scheme it is a path of this machine."""
        store.put("a", b"1")
        if scheme_of(store.url) == "file":
            assert Path(local_path(store.url), "a").read_bytes() == b"1"

    def test_pickling(self, store: Store) -> None:
        """Stores are pickled to executors, and the copy sees the same objects."""
        store.put("a", b"1")
        copy = pickle.loads(pickle.dumps(store))
        assert type(copy) is type(store)
        assert (copy.url, copy.capabilities) == (store.url, store.capabilities)
        assert copy.get("a") == b"1"
        copy.put("b", b"2")
        assert store.get("b") == b"2"

    @pytest.mark.parametrize("size", [0, 10, 40 * MEBIBYTE], ids=["empty", "small", "in parts"])
    def test_output_appears_at_close_only(self, store: Store, size: int) -> None:
        """G4: no reader sees an incomplete object."""
        data = pattern(size)
        file = store.open_output("folder/out")
        assert file.write(memoryview(data)) == file.tell() == size
        assert keys(store) == []
        with pytest.raises(ObjectNotFound):
            store.get("folder/out")
        file.close()
        file.close()
        file.abort()
        assert file.closed
        assert store.get("folder/out") == data
        with pytest.raises(ValueError, match="closed"):
            file.write(b"more")

    @pytest.mark.parametrize("size", [0, 10, 40 * MEBIBYTE], ids=["empty", "small", "in parts"])
    def test_output_that_is_dropped_leaves_nothing(self, store: Store, size: int, tmp_path: Any) -> None:
        """G4, G5: an output that is aborted, left by an exception or lost leaves no object."""
        data = pattern(size)
        file = store.open_output("a")
        file.write(data)
        file.abort()
        file.close()
        with pytest.raises(RuntimeError, match="half way"):
            _written_half_way(store, "b", data)
        lost = store.open_output("c")
        lost.write(data)
        del lost
        assert keys(store) == []
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # the local store is in this folder

    def test_output_replaces(self, store: Store) -> None:
        store.put("a", b"old")
        with store.open_output("a") as file:
            file.write(b"new")
            assert store.get("a") == b"old"
        assert store.get("a") == b"new"

    def test_parquet_through_the_files(self, store: Store) -> None:
        """pyarrow can write and read Parquet through the files, with and without a known size."""
        table = pa.table({"x": range(300_000), "y": [f"row {number}" for number in range(300_000)]})
        with store.open_output("data.parquet") as file:
            pq.write_table(table, file, row_group_size=100_000)
        size = store.head("data.parquet").size
        for known in (None, size):
            read = pq.ParquetFile(store.open_input("data.parquet", known))
            assert read.metadata.num_row_groups == 3
            assert read.read().equals(table)
            assert read.read_row_group(1, columns=["x"]).column("x").to_pylist() == list(range(100_000, 200_000))

    def test_input_is_seekable(self, store: Store) -> None:
        data = pattern(3 * MEBIBYTE)
        store.put("data", data)
        file = store.open_input("data", len(data))
        assert file.read(10) == data[:10]
        file.seek(-100, io.SEEK_END)
        assert file.tell() == len(data) - 100
        assert file.read() == data[-100:]
        assert file.read(5) == b""
        file.seek(MEBIBYTE)
        assert file.read(2 * MEBIBYTE - 1) == data[MEBIBYTE:-1]
        assert file.read(100) == data[-1:]
        file.seek(0)
        assert file.read() == data

    def test_create_race(self, store: Store, start_method: str) -> None:
        """G1, H1: exactly one of any number of racing creates wins, and the object holds the winner's bytes."""
        assert list(store.list("")) == []  # the client is in use before the race, so that it has to survive the fork
        outcomes = race(store, self.racers, self.rounds, start_method)
        for number in range(self.rounds):
            told = [of_racer[number] for of_racer in outcomes]
            winners = [racer for racer, outcome in enumerate(told) if outcome == Created()]
            assert len(winners) == 1, f"round {number}: {told}"
            assert told.count(AlreadyThere()) == self.racers - 1
            assert store.get(raced_key(number)) == raced_bytes(winners[0])
        assert keys(store) == sorted(raced_key(number) for number in range(self.rounds))


def pattern(size: int) -> bytes:
    """Bytes that repeat in blocks of an odd length, so that a misplaced block is noticed."""
    block = bytes(range(251)) * 17
    return (block * (size // len(block) + 1))[:size]


def keys(store: Store, prefix: str = "") -> list[str]:
    return sorted(info.key for info in store.list(prefix))


def _written_half_way(store: Store, key: str, data: bytes) -> None:
    with store.open_output(key) as file:
        file.write(data)
        raise RuntimeError("half way")


def raced_key(number: int) -> str:
    return f"snapshot/snapshot-{number}"


def raced_bytes(racer: int) -> bytes:
    return b"%d " % racer * 300


def race(store: Store, racers: int, rounds: int, start_method: str) -> list[list[PutOutcome]]:
    """The outcome for each racer in each round: `answers[racer][round]`."""
    if start_method == "threads":
        barrier = threading.Barrier(racers)
        with ThreadPoolExecutor(racers) as pool:
            return list(pool.map(lambda racer: _run(store, racer, rounds, barrier), range(racers)))
    context: Any = multiprocessing.get_context(start_method)
    gate, answers = context.Barrier(racers), context.SimpleQueue()
    running = [context.Process(target=_racer, args=(store, racer, rounds, gate, answers)) for racer in range(racers)]
    for process in running:
        process.start()
    told: dict[int, list[PutOutcome]] = {}
    for _ in running:
        racer, answer = answers.get()
        assert not isinstance(answer, str), answer
        told[racer] = answer
    for process in running:
        process.join(30)
    assert [process.exitcode for process in running] == [0] * racers
    return [told[racer] for racer in range(racers)]


def _run(store: Store, racer: int, rounds: int, barrier: Any) -> list[PutOutcome]:
    told = []
    for number in range(rounds):
        barrier.wait(120)
        told.append(store.put_if_absent(raced_key(number), raced_bytes(racer)))
    return told


def _racer(store: Store, racer: int, rounds: int, barrier: Any, answers: Any) -> None:
    try:
        answers.put((racer, _run(store, racer, rounds, barrier)))
    except BaseException as error:
        answers.put((racer, repr(error)))
        raise
