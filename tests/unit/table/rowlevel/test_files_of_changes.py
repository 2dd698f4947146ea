"""Which files a change of rows may delete: none that a snapshot may name which is there or can still land (H5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.message import CommitMessage
from lakelatch.core.errors import CommitConflict, InvalidArgument, LakelatchError, OutcomeUnknown, StoreUnavailable
from lakelatch.table.rowlevel.append_table import AppendChange
from lakelatch.table.table import Table
from lakelatch.table.writing.files import sink
from lakelatch.table.writing.transaction import Transaction
from lakelatch.table.writing.writer import keys_of

_names = count()
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
LARGE = pa.table({"id": range(40_000), "v": [1] * 40_000}, SCHEMA)
"""Too large to travel with a commit."""


class Silent(MemoryStore):
    """A store that does not say whether it has created the next snapshots, after what others do."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.unanswered = 0
        self.instead: Callable[[], Any] | None = None

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and self.unanswered:
            self.unanswered -= 1
            if self.instead is not None:
                other, self.instead = self.instead, None
                left, self.unanswered = self.unanswered, 0
                other()
                self.unanswered = left
            return Unknown("no answer")
        return super().put_if_absent(key, data)

    def data(self) -> set[str]:
        return {info.key for info in self.list("") if "/data-" in f"/{info.key}"}


def opened(**options: str) -> tuple[Silent, Table]:
    url = f"memory://files-of-changes/{next(_names)}"
    made = ll.create_table(url, SCHEMA, options={"commit.min-retry-wait": "1 ms", **options})
    made.append(LARGE)
    store = Silent(url)
    return store, Table(store, made.schema)


def update(table: Table) -> Any:
    return table.update(where="id < 10", set={"v": "v + 1"})


def merge(table: Table) -> Any:
    news = pa.table({"id": [5, 90_000], "v": [7, 7]}, SCHEMA)
    return table.merge(news, on=["id"]).when_matched_update_all().when_not_matched_insert_all().execute()


CHANGES = pytest.mark.parametrize("change", [update, merge])


@CHANGES
def test_files_stay_where_the_outcome_is_unknown(change: Any) -> None:
    store, table = opened()
    before = store.data()
    store.unanswered = 3
    with pytest.raises(OutcomeUnknown) as unknown:
        change(table)
    table.committer.settle()
    written = store.data() - before
    assert written
    assert unknown.value.resolve(5).snapshot_id == 2
    assert store.data() - before == written
    assert ll.open_table(table.url).to_arrow().num_rows >= 40_000


@pytest.fixture
def doubtful(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the commits of the test end with; then they are real. A conflict may come after a send without an answer."""
    ends: list[Any] = []
    commit = Committer.commit

    def ended(self: Committer, request: Any) -> Any:
        if not ends:
            return commit(self, request)
        for upload in request.uploads:
            self.store.put(upload.key, upload.data)
        end = ends.pop(0)
        if callable(end):
            end()
            return commit(self, request)
        raise end

    monkeypatch.setattr(Committer, "commit", ended)
    return ends


def in_doubt(error: LakelatchError, *, sent: bool = True) -> LakelatchError:
    error.sent = sent
    return error


@CHANGES
@pytest.mark.parametrize("sent", [True, False])
def test_files_of_an_earlier_plan_stay_if_they_may_still_land(change: Any, sent: bool, doubtful: list[Any]) -> None:
    """Whatever ends the second plan: an error of the commit."""
    store, table = opened()
    before = store.data()
    doubtful += [in_doubt(CommitConflict("lost"), sent=sent), in_doubt(StoreUnavailable("403"), sent=False)]
    with pytest.raises(StoreUnavailable):
        change(table)
    assert bool(store.data() - before) == sent


@CHANGES
@pytest.mark.parametrize("sent", [True, False])
def test_files_stay_if_a_later_plan_fails(
    change: Any, sent: bool, doubtful: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, table = opened()
    before, plan, plans = store.data(), AppendChange.plan, count()

    def planned(self: AppendChange, *about: Any) -> Any:
        if next(plans):
            raise StoreUnavailable("the second plan fails")
        return plan(self, *about)

    monkeypatch.setattr(AppendChange, "plan", planned)
    doubtful += [in_doubt(CommitConflict("lost"), sent=sent)]
    with pytest.raises(StoreUnavailable):
        change(table)
    assert bool(store.data() - before) == sent


@CHANGES
@pytest.mark.parametrize("sent", [True, False])
def test_files_of_the_last_plan_stay_as_those_of_the_first_do(
    change: Any, sent: bool, doubtful: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last conflict comes before a send, after one whose send may still land; both plans have files in common."""
    store, table = opened()
    before = store.data()
    monkeypatch.setattr("lakelatch.table.rowlevel.run.MOST_PLANS", 2)
    doubtful += [in_doubt(CommitConflict("lost"), sent=sent), in_doubt(CommitConflict("lost again"), sent=False)]
    with pytest.raises(CommitConflict, match="planned 2 times"):
        change(table)
    assert bool(store.data() - before) == sent


@CHANGES
@pytest.mark.parametrize("sent", [True, False])
def test_files_written_with_an_older_schema_stay_if_they_may_still_land(
    change: Any, sent: bool, doubtful: list[Any]
) -> None:
    store, table = opened()
    before = store.data()

    def evolved() -> None:
        ll.open_table(table.url).alter(ll.add_column("more", "INT"))
        raise in_doubt(CommitConflict("lost"), sent=sent)

    doubtful += [evolved]
    receipt = change(table)
    table.committer.settle()
    new = store.data() - before
    named = {
        f"bucket-0/{p.rpartition('/')[2]}" for p in ll.open_table(table.url).system("files")["file_path"].to_pylist()
    }
    assert receipt.rows_updated and bool(new - named) == sent


@CHANGES
@pytest.mark.parametrize("sent", [True, False])
def test_what_a_landed_plan_does_not_need_stays_if_it_may_still_land(
    change: Any, sent: bool, doubtful: list[Any]
) -> None:
    """Others have rewritten the file meanwhile, so that the first plan's copy of it is of no use."""
    store, table = opened()
    before, written = store.data(), set[str]()

    def others() -> None:
        written.update(store.data() - before)
        ll.open_table(table.url).delete(where="id = 3")
        raise in_doubt(CommitConflict("lost"), sent=sent)

    doubtful += [others]
    change(table)
    table.committer.settle()
    assert written and (written <= store.data()) == sent


# ------------------------------------------------------------------------------------------ keys that have moved


@pytest.mark.parametrize("sent", [True, False])
def test_that_an_attempt_may_still_land_is_not_forgotten_after_keys_have_moved(
    sent: bool, doubtful: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory://files-of-changes/{next(_names)}"
    table = ll.create_table(url, SCHEMA, primary_key=["id"], options={"bucket": "-1"})
    lost = in_doubt(CommitConflict("keys are in other buckets"), sent=sent)
    lost.moved_keys = ("some",)  # type: ignore[attr-defined]
    again = in_doubt(CommitConflict("and again"), sent=False)
    again.moved_keys = ("others",)  # type: ignore[attr-defined]
    doubtful += [lost, again, in_doubt(StoreUnavailable("403"), sent=False)]
    enter = Transaction.__enter__

    def entered(self: Transaction) -> Transaction:
        assert self._lookups is not None
        self._lookups = replace(self._lookups, move=lambda messages, moved: list(messages))
        return enter(self)

    monkeypatch.setattr(Transaction, "__enter__", entered)
    with pytest.raises(StoreUnavailable) as failed:
        table.upsert(LARGE)
    assert failed.value.sent == sent
    data = {info.key for info in table.store.list("") if "/data-" in f"/{info.key}"}
    assert bool(data) == sent


@pytest.mark.parametrize("how", ["no attempt was sent", "one may still land", "another run has landed"])
def test_files_from_before_keys_have_moved_go_only_if_no_snapshot_may_name_them(
    how: str, doubtful: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run of the job may have committed the same files, where those came from other processes."""
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "20000"}
    table = ll.create_table(f"memory://files-of-changes/{next(_names)}", SCHEMA, primary_key=["id"], options=options)
    enter, written = Transaction.__enter__, list[CommitMessage]()

    def move(messages: Any, moved: Any) -> list[CommitMessage]:
        written.extend(messages)
        return written[1:]

    def entered(self: Transaction) -> Transaction:
        assert self._lookups is not None
        self._lookups = replace(self._lookups, move=move)
        return enter(self)

    def another_run() -> None:
        with Table(table.store, table.schema)._begin(commit_user="job", identifier=1) as tx:
            tx.append_messages(written)

    lost = in_doubt(CommitConflict("keys are in other buckets"), sent=how == "one may still land")
    lost.moved_keys = ("some",)  # type: ignore[attr-defined]
    doubtful += [lost, *([another_run] if how == "another run has landed" else [])]
    monkeypatch.setattr(Transaction, "__enter__", entered)
    assert table.upsert(LARGE, commit_user="job", identifier=1).replayed is (how == "another run has landed")
    before = {key for message in written[:1] for key in keys_of(table.schema, [message])}
    stored = {info.key for info in table.store.list("")}
    assert before & stored == (set() if how == "no attempt was sent" else before)


def test_what_was_written_before_a_file_that_cannot_be_changed_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are too large to travel with the commit are in the store before it."""
    store, table = opened()
    table.append(pa.table({"id": [50_000], "v": [0]}, SCHEMA))
    monkeypatch.setattr("lakelatch.table.rowlevel.append_table.FEW_BYTES", 1 << 40)
    before = store.data()
    with pytest.raises(InvalidArgument):
        table.update(set={"v": "100 / v"})
    assert store.data() == before


def test_many_new_rows_get_files_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """New rows beyond what a worker keeps become a file for each file that they come from."""
    options = {"deletion-vectors.enabled": "true"}
    table = ll.create_table(f"memory://files-of-changes/{next(_names)}", SCHEMA, options=options)
    for _ in range(2):
        table.append(LARGE)
    monkeypatch.setattr("lakelatch.table.rowlevel.file_change.HELD_BYTES", 0)
    table.update(where="id >= 10", set={"v": "2"})
    assert sorted(entry.file.row_count for entry in table.entries()) == [39_990, 39_990, 40_000, 40_000]
    assert table.count() == 80_000


# --------------------------------------------------------------------------------------------- what is there at the end

KINDS: dict[str, dict[str, Any]] = {
    "copies": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "tracked": {"options": {"row-tracking.enabled": "true"}},
    "tracked vectors": {"options": {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}},
    "evolution": {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}},
    "partitions": {"partition_by": ["v"]},
    "buckets with vectors": {"options": {"bucket": "2", "bucket-key": "id", "deletion-vectors.enabled": "true"}},
    "key": {"options": {"bucket": "2"}, "primary_key": ["id"]},
}
SMALL = pa.table({"id": range(10), "v": [1] * 10}, SCHEMA)


def filled(kind: str) -> Table:
    url = f"memory://files-of-changes/{next(_names)}"
    options = KINDS[kind].get("options", {}) | {"commit.min-retry-wait": "1 ms"}
    made = ll.create_table(url, SCHEMA, **(KINDS[kind] | {"options": options}))
    made.append(SMALL)
    made.append(pa.table({"id": range(10, 20), "v": [1] * 10}, SCHEMA))
    return Table(Silent(url), made.schema)


def every_change(table: Table) -> None:
    """Rows are updated, inserted, and, where that can be done, deleted; all of a file and some of another."""
    news = pa.table({"id": [3, 4, 50, 51], "v": [30, 40, 500, 510]}, SCHEMA)
    merge = table.merge(news, on=["id"]).when_matched_update({"v": "s.v"}).when_not_matched_insert_all()
    if "data-evolution.enabled" not in table.schema.option_texts:
        merge = merge.when_not_matched_by_source_delete("t.id >= 10 OR t.id = 7")
    merge.execute()


def wanted(kind: str) -> dict[int, int]:
    left = range(20) if kind == "evolution" else (n for n in range(10) if n != 7)
    return dict.fromkeys(left, 1) | {3: 30, 4: 40, 50: 500, 51: 510}


def checked(table: Table, expected: dict[int, int]) -> None:
    """The newest snapshot has these rows, all of its files, and the store has no others but those of snapshots before."""
    table.committer.settle()
    found = ll.open_table(table.url)
    assert {row["id"]: row["v"] for row in found.to_arrow().to_pylist()} == expected
    assert [str(finding) for finding in found.verify("all", data=True)] == []
    named = {e.file.file_name for snapshot in found.snapshots() for e in found.entries(snapshot)}
    assert {info.key.rpartition("/")[2] for info in table.store.list("") if "/data-" in f"/{info.key}"} == named
    index = {e.file.file_name for snapshot in found.snapshots() for e in found.timeline.index_entries(snapshot)}
    assert {info.key.rpartition("/")[2] for info in table.store.list("index/")} == index


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("apart", [False, True])
def test_what_landed_is_whole_though_its_files_were_in_the_store_before(
    kind: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are too large to travel with the commit, also those of new rows that are too many to be collected."""
    monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    if apart:
        monkeypatch.setattr("lakelatch.table.rowlevel.file_change.HELD_BYTES", 0)
    table = filled(kind)
    every_change(table)
    checked(table, wanted(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("travels", [True, False])
def test_what_landed_after_a_lost_attempt_is_whole_and_nothing_else_is_left(
    kind: str, travels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job has deleted a row, or changed it, meanwhile: some files are used again, and others are of no use."""
    if not travels:
        monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    table, lands = filled(kind), wanted(kind)
    store = table.store
    assert isinstance(store, Silent)

    def others() -> None:
        other = ll.open_table(table.url)
        if kind == "evolution":
            other.update("id = 1", set={"v": "2"})
        else:
            other.delete(where="id = 1")

    put, done = MemoryStore.put_if_absent, list[str]()

    def first(self: MemoryStore, key: str, data: bytes) -> PutOutcome:
        if self is store and key.startswith("snapshot/snapshot-") and not done:
            done.append(key)
            others()
        return put(self, key, data)

    monkeypatch.setattr(MemoryStore, "put_if_absent", first)
    every_change(table)
    assert done
    checked(table, (lands | {1: 2}) if kind == "evolution" else {n: v for n, v in lands.items() if n != 1})


@pytest.mark.parametrize("kind", KINDS)
def test_small_new_files_are_not_in_the_store_before_the_commit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They travel with it, so that an attempt that never begins has cost no request and leaves nothing."""
    table, commit = filled(kind), Committer.commit
    before = {info.key for info in table.store.list("")}
    seen = list[set[str]]()

    def committed(self: Committer, request: Any) -> Any:
        seen.append({info.key for info in table.store.list("")} - before)
        assert {upload.key for upload in request.uploads}
        return commit(self, request)

    monkeypatch.setattr(Committer, "commit", committed)
    every_change(table)
    assert seen == [set()]
    checked(table, wanted(kind))
