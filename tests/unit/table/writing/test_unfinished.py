"""H5: files of work that failed are taken back in one way, wherever it failed, unless a snapshot that names them was sent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.core.errors import CommitConflict, LakelatchError, StoreUnavailable
from lakelatch.table.writing.key_writer import KeyFileWriter
from lakelatch.table.writing.unfinished import discard, unfinished

COUNTER = itertools.count()
SCHEMA = pa.schema([pa.field("k", pa.int32(), False)])


class Writer:
    def __init__(self, *keys: str, fails: bool = False) -> None:
        self.written_keys, self.is_open, self.fails = list(keys), True, fails

    def abort(self) -> None:
        self.is_open = False
        if self.fails:
            raise StoreUnavailable("the upload cannot be ended")


class Committer:
    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def commit(self, request: Any) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(f"memory://unfinished-{next(COUNTER)}/t")
    for key in "abcd":
        made.put(key, b"x")
    return made


def left(store: MemoryStore) -> str:
    return "".join(info.key for info in store.list(""))


def refused(sent: bool) -> LakelatchError:
    error = CommitConflict("no")
    error.sent = sent
    return error


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (refused(False), "d"),
        (refused(True), "abcd"),
        (KeyboardInterrupt(), "abcd"),
        (MemoryError(), "abcd"),
        ("receipt", "abcd"),
    ],
)
def test_only_the_commit_can_say_that_nothing_names_the_files(store: MemoryStore, outcome: Any, kept: str) -> None:
    writers = Writer("a", fails=True), Writer("b")
    committer: Any = Committer(outcome)
    try:
        with unfinished(store) as made:
            made.add("c")
            for writer in writers:
                made.writer(writer)
            assert made.commit(committer, None) == "receipt"  # type: ignore[arg-type]
    except BaseException as error:
        assert error is outcome
    assert left(store) == kept
    assert [writer.is_open for writer in writers] == [kept == "abcd"] * 2


@pytest.mark.parametrize(
    "error", [LakelatchError("a read fails"), StoreUnavailable("gone"), KeyboardInterrupt(), MemoryError()]
)
def test_before_the_commit_every_error_takes_the_files_back(store: MemoryStore, error: BaseException) -> None:
    """`LakelatchError.sent` says something of errors of a commit alone."""
    with pytest.raises(type(error)), unfinished(store) as made:
        made.add("ab")
        made.writer(Writer("c"))
        raise error
    assert left(store) == "d"


def test_a_deletion_that_fails_hides_no_error_and_is_told(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def deleting(kept: str | None) -> Callable[[Iterable[str]], None]:
        def delete_many(keys: Iterable[str]) -> None:
            if kept is None:
                raise StoreUnavailable("the network is down")
            raise DeletionRefused(dict.fromkeys(kept, "a hold"))

        return delete_many

    for kept, told in ((None, "a, b, c"), ("b", "b")):
        monkeypatch.setattr(store, "delete_many", deleting(kept))
        with pytest.raises(LakelatchError, match=f"a read fails; files that could not be deleted: {told}$") as raised:
            with unfinished(store) as made:
                made.add("abc")
                raise LakelatchError("a read fails", next_step="")
        assert raised.value.code == "lakelatch"
        with pytest.raises(ZeroDivisionError), unfinished(store) as made:
            made.add("a")
            raise ZeroDivisionError
        assert discard(store, ["a", "a"]) == (["a"] if kept is None else ["b"])
    assert discard(store, []) == []


def data_files(url: str) -> set[str]:
    return {i.key for i in MemoryStore(url).list("") if i.key.startswith("bucket-")}


def rescaled(url: str) -> None:
    ll.open_table(url).rescale()


def settled(url: str) -> None:
    ll.open_table(url).compact()


@pytest.mark.parametrize(("bucket", "work"), [("1", rescaled), ("-2", settled)])
def test_work_that_fails_at_any_file_leaves_none(bucket: str, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rescale, and a compaction of postponed rows, of which the n-th file cannot be finished: the old files are there alone."""
    finish, struck = KeyFileWriter.finish, 0
    for place in range(4):
        options = {"bucket": bucket, "postpone.batch-write-fixed-bucket": "false", "postpone.default-bucket-num": "4"}
        table = ll.create_table(f"memory://unfinished-{next(COUNTER)}/t", SCHEMA, primary_key=["k"], options=options)
        table.upsert(pa.table({"k": range(50)}, SCHEMA))
        if bucket == "1":
            table.alter(ll.set_option("bucket", "4"))
        before, finished = data_files(table.url), itertools.count()

        def dying(writer: KeyFileWriter) -> Any:
            if next(finished) == place:  # noqa: B023
                raise LakelatchError("a read fails")
            return finish(writer)

        monkeypatch.setattr(KeyFileWriter, "finish", dying)
        with pytest.raises(LakelatchError, match="a read fails"):
            work(table.url)
        monkeypatch.setattr(KeyFileWriter, "finish", finish)
        assert data_files(table.url) == before
        struck += 1
        work(table.url)
        assert ll.open_table(table.url).count() == 50
    assert struck == 4
