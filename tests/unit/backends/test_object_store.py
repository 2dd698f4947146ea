"""What every object store inherits from `FsspecStore`: deadlines, repeats, pages, errors. The file system is scripted."""

from __future__ import annotations

import asyncio
import os
import pickle
from datetime import datetime, timezone
from typing import Any

import fsspec.asyn
import pytest
from planned_store import CODES, QUICK, FileSystem, PlannedStore, Said, options

from lakelatch.backends.files import object_store
from lakelatch.backends.files.object_store import (
    CONNECT_SECONDS,
    CREATE_LIMIT_BYTES,
    SLOWEST_BYTES_PER_SECOND,
    all_of,
    bucket_root,
    known_options,
    modified_ms,
    shared_filesystem,
)
from lakelatch.backends.requests.advice import NEXT_STEPS
from lakelatch.backends.requests.answers import Answer
from lakelatch.backends.requests.deadline import answered_within, operation
from lakelatch.backends.requests.patience import Patience
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.storage_options import StorageOptions
from lakelatch.backends.store import AlreadyThere, Created, ObjectInfo, ObjectNotFound, Unknown
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, UnsafeBackend


@pytest.fixture
def store() -> PlannedStore:
    return PlannedStore("planned://lake/table", options(), QUICK)


@pytest.fixture
def fs(store: PlannedStore) -> FileSystem:
    return store.fs


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The deadlines of the requests, in seconds."""
    seen: list[float] = []
    real = fsspec.asyn.sync

    def sync(loop: Any, function: Any, *args: Any, timeout: float, **keywords: Any) -> Any:
        seen.append(timeout)
        return real(loop, function, *args, timeout=timeout, **keywords)

    monkeypatch.setattr(fsspec.asyn, "sync", sync)
    return seen


def test_each_request_has_its_deadline(store: PlannedStore, fs: FileSystem, deadlines: list[float]) -> None:
    """A deadline grows with the bytes that are sent or requested. A read of unknown size has twice the base deadline."""
    data = b"x" * SLOWEST_BYTES_PER_SECOND
    store.put("a", data)
    store.put_if_absent("b", data)
    store.get("a")
    assert store.get_range("a", len(data) - 1, 3 * len(data) - 1) == b"x", "wherever its bytes begin"
    store.head("a")
    list(store.list(""))
    store.delete_many(["a"])
    assert deadlines == [8.0, 8.0, 14.0, 9.0, 7.0, 7.0, 7.0]


def test_the_callers_deadline_is_kept(store: PlannedStore, fs: FileSystem, deadlines: list[float]) -> None:
    with answered_within(2.0):
        store.put("a", b"x")
        store.put_if_absent("b", b"x")
    assert all(1.0 < seconds <= 2.0 for seconds in deadlines)


def test_the_option_wins_over_the_deadline_alone(deadlines: list[float]) -> None:
    store = PlannedStore("planned://lake/table", options(request_timeout=3), QUICK)
    store.fs.planned = [Said("busy") for _ in range(10)]
    del deadlines[:]
    with pytest.raises(StoreUnavailable):
        store.put("a", b"")
    assert deadlines == [3.0] * QUICK.sends


def test_a_copy_is_as_patient(deadlines: list[float]) -> None:
    given = PlannedStore("planned://lake/table", options(request_timeout=3, secret="s3cr3t"), QUICK)
    for copy in (pickle.loads(pickle.dumps(given)), given.sibling("planned://lake/other")):
        copy.fs.planned = [Said("busy") for _ in range(10)]
        del deadlines[:]
        with pytest.raises(StoreUnavailable):
            copy.head("a")
        assert deadlines == [3.0] * QUICK.sends
        copy.fs.planned = []
    assert given.sibling("planned://lake/other").url == "planned://lake/other"


def test_stores_with_the_same_options_share_a_connection() -> None:
    same = options()
    one, two = (PlannedStore(f"planned://lake/{name}", same) for name in "ab")
    assert one.fs is two.fs
    assert PlannedStore("planned://lake/a", options()).fs is not one.fs


def test_a_connection_is_made_with_a_deadline(deadlines: list[float]) -> None:
    PlannedStore("planned://lake/a", options()).fs  # noqa: B018
    assert deadlines == [CONNECT_SECONDS]


def test_few_connections_are_kept() -> None:
    """A process that keeps opening tables with new credentials keeps only the connections used last."""

    async def connect() -> object:
        return object()

    first, *_ = given = [StorageOptions(options()) for _ in range(17)]
    held = [shared_filesystem(connect, PlannedStore, one) for one in given]
    assert len(object_store._SHARED) <= 16
    assert [shared_filesystem(connect, PlannedStore, one) for one in given[1:]] == held[1:]
    assert shared_filesystem(connect, PlannedStore, first) is not held[0]


def test_a_store_keeps_its_connection_when_others_are_made(store: PlannedStore) -> None:
    mine = store.fs
    for _ in range(17):
        PlannedStore("planned://lake/table", options()).fs  # noqa: B018
    assert store.fs is mine


def test_a_child_of_a_fork_makes_its_own_connection(store: PlannedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = store.fs
    assert store.fs is mine
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        assert store.fs is not mine


@pytest.mark.parametrize("code", ["busy", "conflict", "silence", "cut"])
def test_idempotent_requests_are_repeated(store: PlannedStore, fs: FileSystem, code: str) -> None:
    """Reads, plain writes and deletes have the same effect however often they are sent."""
    store.put("a", b"1")
    for act, expected in (
        (lambda: store.get("a"), b"1"),
        (lambda: store.get_range("a", 0, 1), b"1"),
        (lambda: store.head("a"), ObjectInfo("a", 1, 12_500)),
        (lambda: store.put("a", b"1"), None),
        (lambda: [info.key for info in store.list("")], ["a"]),
        (lambda: store.delete_many(["a"]), None),
    ):
        del fs.calls[:]
        fs.planned = [Said(code)] * 2
        assert act() == expected
        assert len(fs.calls) == 3


@pytest.mark.parametrize("code", ["denied", "no bucket", "not sent", "no condition"])
def test_permanent_refusals_are_not_repeated(store: PlannedStore, fs: FileSystem, code: str) -> None:
    for act in (lambda: store.get("a"), lambda: store.put("a", b"1"), lambda: store.delete_many(["a"])):
        del fs.calls[:]
        fs.planned = [Said(code)]
        with pytest.raises(StoreUnavailable) as caught:
            act()
        assert len(fs.calls) == 1
        if CODES[code] in NEXT_STEPS and not isinstance(caught.value, DeletionRefused):
            assert caught.value.next_step == NEXT_STEPS[CODES[code]]


@pytest.mark.parametrize("code", ["busy", "silence", "conflict", "cut", "denied", "no bucket", "not sent"])
def test_the_time_of_an_operation_is_to_blame_only_where_more_of_it_would_have_helped(code: str) -> None:
    """A store that refuses for good does so however long it is asked."""
    store = PlannedStore("planned://lake/table", options(operation_timeout=0.01), QUICK)
    store.fs.planned = [Said(code) for _ in range(10)]
    with operation(store, "a plan"), pytest.raises(StoreUnavailable) as caught:
        store.put("a", b"1")
    about_time = "; a plan may take 0.01 s: storage option operation_timeout"
    helps = code in ("busy", "silence", "conflict", "cut")
    assert caught.value.next_step == NEXT_STEPS[CODES[code]] + (about_time if helps else "")


def test_that_an_object_exists_is_a_refusal_where_nothing_asked_for_it(store: PlannedStore, fs: FileSystem) -> None:
    """A lease, a retention policy, or a condition of somebody in between."""
    fs.planned = [Said("exists: by a lease")]
    with pytest.raises(StoreUnavailable, match="by a lease") as caught:
        store.put("a", b"1")
    assert caught.value.next_step == NEXT_STEPS[Answer.DENIED]


def test_every_answer_that_ends_a_request_has_a_next_step() -> None:
    values = {Answer.EXISTS, Answer.PAST_END, Answer.NO_CONDITION}
    assert set(NEXT_STEPS) == set(Answer) - values


def test_repeats_end_with_the_callers_deadline(store: PlannedStore, fs: FileSystem) -> None:
    patient = PlannedStore("planned://lake/table", options(), Patience(7.0, 1000, 0.2, 0.2))
    patient.fs.planned = [Said("busy") for _ in range(1000)]
    with answered_within(0.3), pytest.raises(StoreUnavailable):
        patient.get("a")
    assert len(patient.fs.calls) < 30
    patient.fs.planned = [Said("busy") for _ in range(1000)]
    del patient.fs.calls[:]
    with answered_within(0.3):
        assert isinstance(patient.put_if_absent("a", b""), Unknown)
    assert len(patient.fs.calls) < 30


def test_waits_grow_up_to_their_limit() -> None:
    """Full jitter: between zero and the first wait, doubled for each send. A bound in seconds can end it earlier."""
    retrying = Patience(1.0, 4, 0.5, 1.5).retrying(lambda error: True, within=10.0)
    state: Any = type("State", (), {})()
    for attempt, longest in ((1, 0.5), (2, 1.0), (3, 1.5), (4, 1.5)):
        state.attempt_number = attempt
        waits = [retrying.wait(state) for _ in range(400)]
        assert 0 <= min(waits) < longest / 4
        assert longest * 0.75 < max(waits) <= longest
    for attempt, seconds, upcoming, is_over in ((3, 0, 0, False), (4, 0, 0, True), (1, 9, 0.5, False), (1, 9, 2, True)):
        state.attempt_number, state.seconds_since_start, state.upcoming_sleep = attempt, seconds, upcoming
        assert retrying.stop(state) is is_over


def test_a_missing_object_is_an_answer_to_a_read_and_an_error_of_a_write(store: PlannedStore, fs: FileSystem) -> None:
    for read in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(ObjectNotFound) as caught:
            read("a")
        assert caught.value.key == "a"
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
    fs.planned = [Said("missing")]
    with pytest.raises(StoreUnavailable, match="cannot write a"):
        store.put("a", b"1")


def test_a_folder_is_not_an_object(store: PlannedStore, fs: FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    async def folder(path: str) -> dict[str, Any]:
        return {"size": 0, "type": "directory"}

    monkeypatch.setattr(fs, "_info", folder)
    with pytest.raises(ObjectNotFound):
        store.head("a")


def test_nothing_is_read_past_the_end(store: PlannedStore, fs: FileSystem) -> None:
    fs.planned = [Said("past end")]
    assert store.get_range("a", 5, 9) == b""
    fs.planned = [Said("past end")]
    with pytest.raises(StoreUnavailable):
        store.put("a", b"1")
    store.put("a", b"12345")
    del fs.calls[:]
    assert store.get_range("a", 3, 3) == b""
    assert fs.calls == []
    assert store.get_range("a", 1, 3) == b"23"
    assert fs.calls == [("read", "lake/table/a", 1, 3)]


def test_a_create_has_a_limit(store: PlannedStore, fs: FileSystem) -> None:
    assert store.put_if_absent("a", bytes(CREATE_LIMIT_BYTES)) == Created()
    with pytest.raises(InvalidArgument, match="cannot be created in one conditional request"):
        store.put_if_absent("b", bytes(CREATE_LIMIT_BYTES + 1))
    assert fs.calls == [("create", "lake/table/a")]


@pytest.mark.parametrize(
    ("codes", "outcome", "sends"),
    [
        (["busy", "conflict"], Created(), 3),
        (["cut", "cut"], Created(), 3),
        (["busy"] * 3, Unknown(""), 3),
        (["silence"], Unknown(""), 1),
        (["exists"], AlreadyThere(False), 1),
        (["busy", "exists"], AlreadyThere(True), 2),
        (["cut", "exists"], AlreadyThere(False), 2),
        (["busy", "denied"], Unknown(""), 2),
        (["busy", "cut", "denied"], Unknown(""), 3),
        (["past end"], Unknown(""), 1),
    ],
    ids=str,
)
def test_outcomes_of_a_create(store: PlannedStore, fs: FileSystem, codes: list[str], outcome: Any, sends: int) -> None:
    """H2, H3, H9: an earlier send counts unless its answer proved that it changed nothing."""
    fs.planned = [Said(code) for code in codes]
    answer = store.put_if_absent("a", b"1")
    assert type(answer) is type(outcome)
    assert getattr(answer, "earlier_send", None) == getattr(outcome, "earlier_send", None)
    assert len(fs.calls) == sends
    if isinstance(answer, Unknown):
        assert answer.reason.startswith(f"creating a: {CODES[codes[-1]].value}: {codes[-1]}")


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (["denied"], StoreUnavailable),
        (["cut", "denied"], StoreUnavailable),
        (["cut"] * 3, StoreUnavailable),
        (["no condition"], UnsafeBackend),
    ],
    ids=str,
)
def test_errors_of_a_create(store: PlannedStore, fs: FileSystem, codes: list[str], error: Any) -> None:
    fs.planned = [Said(code) for code in codes]
    with pytest.raises(error, match="planned://lake/table: cannot create a: "):
        store.put_if_absent("a", b"1")


def test_a_failed_connection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was sent, so any error of the client is raised, with a next step. This holds for a create too."""

    async def fails(self: PlannedStore) -> FileSystem:
        raise ConnectionError("no network")

    async def refuses(self: PlannedStore) -> FileSystem:
        raise InvalidArgument("an option is wrong")

    store = PlannedStore("planned://lake/table", options(), QUICK)
    monkeypatch.setattr(PlannedStore, "_connect", fails)
    for act in (lambda: store.put_if_absent("a", b"1"), lambda: store.get("a")):
        with pytest.raises(StoreUnavailable, match="cannot open a connection") as caught:
            act()
        assert caught.value.next_step == NEXT_STEPS[Answer.NOT_SENT]
    monkeypatch.setattr(PlannedStore, "_connect", refuses)
    for act in (lambda: store.put_if_absent("a", b"1"), lambda: store.get("a")):
        with pytest.raises(InvalidArgument, match="an option is wrong"):
            act()


def test_an_error_of_lakelatch_is_passed_on(store: PlannedStore, fs: FileSystem) -> None:
    for act in (lambda: store.put_if_absent("a", b"1"), lambda: store.get("a")):
        fs.planned = [InvalidArgument("ours")]
        del fs.calls[:]
        with pytest.raises(InvalidArgument, match="ours"):
            act()
        assert len(fs.calls) == 1


def test_a_panic_of_the_client_proves_nothing(store: PlannedStore, fs: FileSystem) -> None:
    """fsspec would return None for an error that is not an `Exception`, which means "created" (H2)."""

    class Panic(BaseException):
        pass

    fs.planned = [Panic("inside")]
    answer = store.put_if_absent("a", b"1")
    assert isinstance(answer, Unknown)
    assert "Panic: inside" in answer.reason


def test_an_interrupt_is_not_a_panic(store: PlannedStore) -> None:
    async def stopped(error: BaseException) -> None:
        raise error

    for error in (asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(), ValueError()):
        with pytest.raises(type(error)):
            asyncio.new_event_loop().run_until_complete(object_store._alive(stopped, error))


def test_an_error_is_chained_unless_it_holds_a_secret() -> None:
    """H19: neither the error nor one of its causes may show a secret."""
    store = PlannedStore("planned://lake/table", options(secret="s3cr3t"), QUICK)
    harmless = Said("denied: go away")
    store.fs.planned = [harmless]
    with pytest.raises(StoreUnavailable, match="the store refused: denied: go away") as caught:
        store.get("a")
    assert caught.value.__cause__ is harmless
    telling = Said("denied: with s3cr3t")
    deeper = Said("denied")
    deeper.__cause__ = Said("denied: with s3cr3t")
    for error in (telling, deeper):
        store.fs.planned = [error]
        with pytest.raises(StoreUnavailable) as caught:
            store.get("a")
        assert caught.value.__cause__ is None
        assert "s3cr3t" not in str(caught.value)


def test_an_error_without_text_is_reported_by_its_name(store: PlannedStore, fs: FileSystem) -> None:
    fs.planned = [ConnectionError()] * 3
    with pytest.raises(StoreUnavailable, match="no answer: ConnectionError"):
        store.get("a")
    fs.planned = [Said("denied:\n  many\n  lines")]
    with pytest.raises(StoreUnavailable, match="denied: many lines"):
        store.get("a")


@pytest.mark.parametrize(
    ("page", "count", "sizes"),
    [(1000, 2500, [1000, 1000, 500]), (10, 700, [320, 320, 60]), (1000, 0, []), (1, 33, [32, 1])],
)
def test_deletes_go_in_pages(
    store: PlannedStore, monkeypatch: pytest.MonkeyPatch, page: int, count: int, sizes: list[int]
) -> None:
    """A page has one deadline, whether it takes one request or many."""
    seen: list[list[str]] = []

    async def delete(fs: Any, paths: list[str]) -> None:
        seen.append(paths)

    monkeypatch.setattr(store, "_delete", delete)
    monkeypatch.setattr(store, "delete_page", page)
    store.delete_many(f"k{number}" for number in range(count))
    assert [len(paths) for paths in seen] == sizes
    assert [path for paths in seen for path in paths] == [f"lake/table/k{number}" for number in range(count)]


def test_errors_of_a_delete(store: PlannedStore, fs: FileSystem) -> None:
    """A missing object counts as deleted. Refused objects are named; a request that fails names the object, or their number."""
    store.put("b", b"")
    store.delete_many(["a", "b"])
    assert fs.objects == {}
    fs.planned = [Said("denied")]
    with pytest.raises(
        DeletionRefused, match=r"1 object was not deleted, and all others were: a: denied \(check the credentials"
    ):
        store.delete_many(["a"])
    fs.planned = [Said("busy")] * 10
    with pytest.raises(StoreUnavailable, match="cannot delete a:"):
        store.delete_many(["a"])
    fs.planned = [Said("busy")] * 10
    with pytest.raises(StoreUnavailable, match="cannot delete 2 objects:"):
        store.delete_many(["a", "b"])


def test_no_request_goes_on_behind_an_error() -> None:
    """A deletion that came later, unseen, could meet an object that was made anew meanwhile (H9)."""
    done = []

    async def request(seconds: float, fails: bool) -> None:
        await asyncio.sleep(seconds)
        done.append(seconds)
        if fails:
            raise ValueError(f"after {seconds} s")

    with pytest.raises(ValueError, match="after 0 s"):
        asyncio.run(all_of([request(0, True), request(0.05, False), request(0.02, True)]))
    assert sorted(done) == [0, 0.02, 0.05]


def test_listings_go_in_pages(store: PlannedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folder markers, neighbours and names that could not be opened are not listed (H16)."""
    pages = {
        None: (["lake/table/x/a", "lake/table/x/", "lake/table/xy"], "1"),
        "1": ([], "2"),
        "2": (["lake/table/x/b//c", "lake/table/x/b"], None),
    }
    asked: list[tuple[str, str | None]] = []

    async def page(fs: Any, prefix: str, after: str | None) -> Any:
        asked.append((prefix, after))
        paths, following = pages[after]
        return [(path, 3, 4, f"tag of {path}") for path in paths], following

    monkeypatch.setattr(store, "_page", page)
    listed = list(store.list("x/"))
    assert listed == [ObjectInfo("x/a", 3, 4), ObjectInfo("x/b", 3, 4)]
    assert [info.tag for info in listed] == ["tag of lake/table/x/a", "tag of lake/table/x/b"]
    assert asked == [("lake/table/x/", None), ("lake/table/x/", "1"), ("lake/table/x/", "2")]


def test_a_missing_folder_lists_as_empty(store: PlannedStore, fs: FileSystem) -> None:
    fs.planned = [Said("missing")]
    assert list(store.list("")) == []
    fs.planned = [Said("no bucket")]
    with pytest.raises(StoreUnavailable, match="cannot list"):
        list(store.list(""))


def test_listings_and_heads_report_sizes_and_times(store: PlannedStore) -> None:
    store.put("x/a", b"123")
    assert list(store.list("x/")) == [ObjectInfo("x/a", 3, 1000)]
    assert store.head("x/a") == ObjectInfo("x/a", 3, 12_500)


def test_files_are_written_under_the_root(store: PlannedStore, fs: FileSystem) -> None:
    with store.open_output("data/x") as file:
        file.write(b"12345")
    assert fs.objects == {"lake/table/data/x": b"12345"}
    assert store.open_input("data/x", 5).read() == b"12345"
    with pytest.raises(InvalidArgument):
        store.open_input("../x")


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"LastModified": datetime(2020, 1, 1, tzinfo=timezone.utc)}, 1_577_836_800_000),
        ({"mtime": 1.5}, 1500),
        ({"created": 2}, 2000),
        ({"last_modified": "yesterday", "mtime": 3}, 3000),
        ({"created": 9, "LastModified": 4}, 4000),
        ({"updated": 5, "created": 9}, 5000),
        ({"modified": 6, "created": 9}, 6000),
        ({"last_modified": 7, "created": 9}, 7000),
        ({}, 0),
    ],
    ids=str,
)
def test_modification_times(info: dict[str, Any], expected: int) -> None:
    assert modified_ms(info) == expected


def test_urls() -> None:
    assert bucket_root("s3://lake", ("s3", "s3a"), "S3") == "lake"
    assert bucket_root("s3a://lake/", ("s3", "s3a"), "S3") == "lake"
    assert bucket_root("s3://lake/a/b/", ("s3",), "S3") == "lake/a/b"
    for url, why in (
        ("gs://lake/a", "is not a URL of S3"),
        ("s3:///a", "names no bucket"),
        ("s3://k:s@lake", "credentials"),
    ):
        with pytest.raises(InvalidArgument, match=why) as caught:
            bucket_root(url, ("s3", "s3a"), "S3")
        assert caught.value.next_step
        assert "k:s" not in str(caught.value)
    with pytest.raises(InvalidArgument):
        bucket_root("s3://lake/a/../b", ("s3",), "S3")


def test_known_options_are_those_of_the_client_and_of_lakelatch() -> None:
    class Client:
        def __init__(self, token: str, loop: object, asynchronous: bool, session: object, **kwargs: object) -> None: ...

    ours = {
        "allow_unsafe",
        "operation_timeout",
        "request_timeout",
        "skip_instance_cache",
        "transport",
        "use_listings_cache",
    }
    assert known_options(Client) == {"token", *ours}


def test_an_unsafe_store_needs_the_option() -> None:
    assert not PlannedStore("planned://lake/table", options())._allow_unsafe
    assert PlannedStore("planned://lake/table", options(allow_unsafe=True))._allow_unsafe


def test_options_of_lakelatch_do_not_reach_the_client() -> None:
    store = PlannedStore(
        "planned://lake/table", {"run": "1", "allow_unsafe": True, "request_timeout": 1.0, "operation_timeout": 9}
    )
    assert dict(store._options) == {"run": "1"}
    with pytest.raises(InvalidArgument):
        PlannedStore("planned://lake/table", {"other": "1"})


def test_default_patience() -> None:
    """The defaults of a store: half a minute for a request, and eight sends."""
    patience = Patience()
    assert (patience.deadline_seconds, patience.sends) == (30.0, 8)
    assert patience.first_wait_seconds < patience.longest_wait_seconds <= 5.0
    state: Any = type("State", (), {"attempt_number": 1, "seconds_since_start": 1e9, "upcoming_sleep": 1e9})()
    assert not patience.retrying(lambda error: True).stop(state), "no bound in seconds unless one is given"


def test_all_but_what_is_refused_is_deleted(
    store: PlannedStore, fs: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One refusal stops a request of many keys: then each is asked for by itself, and what the store says of each is kept."""
    for number in range(40):
        store.put(f"f-{number}", b"x")
    held = {
        "lake/table/f-0": "denied: a legal hold",
        "lake/table/f-17": "exists: a lease secret-word",
        "lake/table/f-39": "conflict",
    }
    real, asked = fs._rm_file, list[str]()

    async def removed(path: str) -> None:
        asked.append(path)
        if path in held:
            raise Said(held[path])
        await real(path)

    monkeypatch.setattr(fs, "_rm_file", removed)
    with pytest.raises(DeletionRefused, match="3 objects were not deleted, and all others were") as told:
        store.delete_many(f"f-{number}" for number in range(40))
    assert {key: why.partition(":")[0] for key, why in told.value.kept.items()} == {
        "f-0": "denied",
        "f-17": "exists",
        "f-39": "conflict",
    }
    assert sorted(info.key for info in store.list("")) == ["f-0", "f-17", "f-39"]
    held.clear()
    held["lake/table/f-0"] = "busy"
    with pytest.raises(StoreUnavailable) as failed:
        store.delete_many(["f-0"])
    assert not isinstance(failed.value, DeletionRefused)
