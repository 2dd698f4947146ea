# ruff: noqa: B023  what is called back is called within its turn of the loop
"""A change of layout options against the table's first commit, in every order, and with one of the two writers dying.

What must hold: rows that were reported as committed can be read with the newest schema, the newest schema has the layout of the
files, and a change that was reported is not undone by files that came later.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Created, PutOutcome, Unknown
from lakelatch.coordinator.commit.checks.layout import schema_named
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.recovery.recover import recover_journal
from lakelatch.coordinator.schema_commit import change_schema
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.changes import SchemaChange, changed
from lakelatch.core.metadata.schemas.layout import differences, held_files
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIELDS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
ROWS = pa.table({"k": [1, 2, 3], "v": [10, 20, 30]})
CHANGES: dict[str, tuple[SchemaChange, ...]] = {
    "directory": (ll.set_option("data-file.path-directory", "data"),),
    "fixed buckets": (ll.set_option("bucket", "2"), ll.set_option("bucket-key", "k")),
    "row ids": (ll.set_option("row-tracking.enabled", True),),
    "directory and a column": (ll.add_column("extra", "INT"), ll.set_option("data-file.path-directory", "data")),
}
OTHER_WAY: dict[str, dict[str, str]] = {
    "more buckets": {"bucket": "2", "bucket-key": "k"},
    "no buckets": {"bucket": "2", "bucket-key": "k"},
}
BACK: dict[str, tuple[SchemaChange, ...]] = {
    "more buckets": (ll.set_option("bucket", "4"),),
    "no buckets": (ll.remove_option("bucket"), ll.remove_option("bucket-key")),
}
EVERY = [*((name, {}, change) for name, change in CHANGES.items()), *((n, OTHER_WAY[n], BACK[n]) for n in BACK)]


class Died(BaseException):
    """The process that made this request is gone."""


class Turns(MemoryStore):
    """A store that runs another process before its n-th request, or kills the requesting process, or does not answer."""

    def __init__(self) -> None:
        super().__init__(f"memory://layout-{next(COUNTER)}/t")
        self.asked = 0
        self.before: dict[int, Callable[[], Any]] = {}
        self.before_create: dict[str, Callable[[], Any]] = {}
        self.silent: set[str] = set()

    def _turn(self) -> None:
        self.asked += 1
        meanwhile = self.before.pop(self.asked, None)
        if meanwhile is not None:
            asked, self.asked = self.asked, 10_000
            try:
                meanwhile()
            finally:
                self.asked = asked

    def get(self, key: str) -> bytes:
        self._turn()
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self._turn()
        super().put(key, data)

    def list(self, prefix: str) -> Any:
        self._turn()
        return super().list(prefix)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._turn()
        self.before_create.pop(key, int)()
        if key in self.silent:
            return Unknown("no answer")
        return super().put_if_absent(key, data)


def opened(store: Turns, **options: str) -> Table:
    quick = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
    made = new_schema(from_arrow_schema(FIELDS), options={**quick, **options})
    store.put_if_absent("schema/schema-0", made.to_json())
    table = Table(store, made)
    table.committer.schema  # noqa: B018  made now, as by a job that began to write
    return table


class Stale:
    """A writer whose files have the schema that it opened the table with, like those of a job on many machines."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def append(self, rows: pa.Table, **identity: Any) -> None:
        with self.table._begin(**identity) as tx:
            tx.append(rows)


def again(store: Turns) -> Table:
    """The table, opened anew."""
    return Table(store, Timeline(store, TablePaths()).latest_schema())


def told(act: Callable[[], Any]) -> bool:
    """Whether it was reported as done. "Not done" is the only other answer accepted here."""
    try:
        act()
    except (ll.CommitConflict, ll.InvalidArgument):
        return False
    return True


def check(store: Turns, appended: bool, altered: bool | None, *, rescaled: bool = False) -> None:
    """Check what must hold in the end.

    Args:
        altered: the reported answer to the change; None where its process died before.
        rescaled: whether the change sets the number of fixed buckets, which may also follow the first files.
    """
    table = again(store)
    assert [f for f in table.verify("all", data=True) if f.severity == "error"] == []
    assert table.to_arrow(columns=["k", "v"]).sort_by("k").to_pylist() == (ROWS.to_pylist() if appended else [])
    snapshot = table.snapshot()
    if snapshot is not None:
        assert differences(table.timeline.schema(snapshot.schema_id), table.schema, rescaled=rescaled) == ()
    if rescaled and appended and altered is not False and table.schema.bucket == 4:
        return
    if altered is not None:
        assert (appended, altered) in ((True, False), (False, True)), "one of both, and not none"
    table.append(ROWS.slice(0, 1))
    assert again(store).count() == (3 if appended else 0) + 1


@pytest.mark.parametrize(("name", "options", "changes"), EVERY, ids=[name for name, _, _ in EVERY])
def test_a_first_append_at_any_time_of_a_change(name: str, options: dict[str, str], changes: Any) -> None:
    """The whole append runs before the n-th request of the change, for every n."""
    for turn in itertools.count(1):
        store = Turns()
        writer, changer = opened(store, **options), opened(store, **options)
        outcome: list[bool] = []
        store.asked = 0
        store.before = {turn: lambda: outcome.append(told(lambda: Stale(writer).append(ROWS)))}
        altered = told(lambda: changer.alter(*changes))
        if not outcome:
            break
        check(store, outcome[0], altered, rescaled=name == "more buckets")
    assert turn > 5, "there were requests to come between"


@pytest.mark.parametrize(("name", "options", "changes"), EVERY, ids=[name for name, _, _ in EVERY])
def test_a_change_at_any_time_of_a_first_append(name: str, options: dict[str, str], changes: Any) -> None:
    """The whole change runs before the n-th request of the append, for every n."""
    orders = set()
    for turn in itertools.count(1):
        store = Turns()
        writer, changer = opened(store, **options), opened(store, **options)
        outcome: list[bool] = []
        store.asked = 0
        store.before = {turn: lambda: outcome.append(told(lambda: changer.alter(*changes)))}
        appended = told(lambda: Stale(writer).append(ROWS))
        writer.committer.settle()
        if not outcome:
            break
        check(store, appended, outcome[0], rescaled=name == "more buckets")
        orders.add((appended, outcome[0]))
    assert orders >= {(False, True), (True, True) if name == "more buckets" else (True, False)}


@pytest.mark.parametrize("dies_before", range(1, 12))
@pytest.mark.parametrize(("name", "options", "changes"), EVERY, ids=[name for name, _, _ in EVERY])
def test_a_change_that_dies_at_any_request_beside_a_first_append(
    name: str, options: dict[str, str], changes: Any, dies_before: int
) -> None:
    """The append runs at any earlier request of the change, or after its death."""

    def die() -> None:
        raise Died

    for turn in range(1, dies_before + 1):
        store = Turns()
        writer, changer = opened(store, **options), opened(store, **options)
        outcome: list[bool] = []
        store.asked = 0
        store.before = {dies_before: die}
        if turn < dies_before:
            store.before[turn] = lambda: outcome.append(told(lambda: Stale(writer).append(ROWS)))
        altered: bool | None = None
        try:
            altered = told(lambda: changer.alter(*changes))
        except Died:
            pass
        store.before = {}
        if not outcome:
            outcome.append(told(lambda: Stale(writer).append(ROWS)))
        if altered is None:
            check(store, outcome[0], None, rescaled=name == "more buckets")


@pytest.mark.parametrize(("name", "options", "changes"), EVERY, ids=[name for name, _, _ in EVERY])
def test_a_change_at_any_time_of_rows_that_can_be_written_again(
    name: str, options: dict[str, str], changes: Any
) -> None:
    """Now both may be done: the rows are written again under the new layout."""
    answers = set()
    for turn in itertools.count(1):
        store = Turns()
        writer, changer = opened(store, **options), opened(store, **options)
        outcome: list[bool] = []
        store.asked = 0
        store.before = {turn: lambda: outcome.append(told(lambda: changer.alter(*changes)))}
        appended = told(lambda: writer.append(ROWS))
        writer.committer.settle()
        if not outcome:
            break
        answers.add((appended, outcome[0]))
        check(store, appended, None, rescaled=name == "more buckets")
    assert (True, True) in answers
    assert (False, False) not in answers


@pytest.mark.parametrize(("name", "options", "changes"), EVERY, ids=[name for name, _, _ in EVERY])
def test_a_change_stands_where_the_first_files_already_have_its_layout(
    name: str, options: dict[str, str], changes: Any
) -> None:
    """Their writer opened the table before the change was settled. Undoing it would lose their rows."""
    store = Turns()
    changer = opened(store, **options)
    outcome: list[bool] = []
    store.before_create = {"snapshot/snapshot-2": lambda: outcome.append(told(lambda: again(store).append(ROWS)))}
    assert told(lambda: changer.alter(*changes))
    assert outcome == [True]
    check(store, True, None, rescaled=name == "more buckets")


def test_an_unknown_change_stands_where_the_first_files_already_have_its_layout() -> None:
    store = Turns()
    changer = opened(store)
    store.silent = {"snapshot/snapshot-2"}
    with pytest.raises(ll.OutcomeUnknown) as caught:
        changer.alter(ll.set_option("data-file.path-directory", "data"))
    store.silent = set()
    again(store).append(ROWS)
    assert caught.value.resolve(timeout=5).option_texts["data-file.path-directory"] == "data"
    check(store, True, None)


@pytest.mark.parametrize(("name", "options", "changes"), EVERY, ids=[name for name, _, _ in EVERY])
def test_a_schema_of_apache_paimon_at_any_time_of_a_first_append(
    name: str, options: dict[str, str], changes: Any
) -> None:
    """Apache Paimon looks for a snapshot and creates the next schema; it announces its change in no other way."""
    for turn in itertools.count(1):
        store = Turns()
        writer, changer = opened(store, **options), opened(store, **options)
        outcome: list[bool] = []
        store.asked = 0
        store.before = {turn: lambda: outcome.append(told(lambda: change_schema(changer.timeline, changes)))}
        appended = told(lambda: Stale(writer).append(ROWS))
        writer.committer.settle()
        if not outcome:
            break
        check(store, appended, None, rescaled=name == "more buckets")


def test_a_change_of_the_layout_stays_possible_until_there_is_a_file() -> None:
    store = Turns()
    table = opened(store)
    table.alter(ll.set_option("data-file.path-directory", "one"))
    table.alter(ll.set_option("data-file.path-directory", "two"))
    assert not held_files(table.snapshot())
    table.append(ROWS)
    assert held_files(table.snapshot())
    assert all(entry.key.startswith("two/") for entry in store.list("two/"))
    assert again(store).count() == 3
    with pytest.raises(ll.InvalidArgument, match="depend on it"):
        table.alter(ll.set_option("data-file.path-directory", "three"))
    table.truncate()
    with pytest.raises(ll.InvalidArgument, match="depend on it"):
        table.alter(ll.set_option("data-file.path-directory", "three"))


def test_a_change_that_no_file_depends_on_makes_no_snapshot() -> None:
    table = opened(Turns())
    table.alter(ll.add_column("extra", "INT"), ll.set_option("snapshot.num-retained.max", 9))
    assert table.snapshot() is None


def test_a_writer_opened_before_a_column_was_renamed_still_commits() -> None:
    """A bucket key is identified by its field id, so a new name does not change the layout."""
    store = Turns()
    writer = opened(store, bucket="2", **{"bucket-key": "k"})
    opened(store, bucket="2", **{"bucket-key": "k"}).alter(ll.rename_column("k", "key"))
    Stale(writer).append(ROWS)
    assert again(store).schema.option_texts["bucket-key"] == "key"
    assert again(store).count() == 3


def test_a_change_that_lost_is_undone_completely() -> None:
    store = Turns()
    writer, changer = opened(store), opened(store)
    store.before_create = {"snapshot/snapshot-2": lambda: Stale(writer).append(ROWS)}
    with pytest.raises(ll.CommitConflict, match="first files"):
        changer.alter(ll.add_column("extra", "INT"), ll.set_option("data-file.path-directory", "data"))
    newest = again(store).schema
    assert newest.names == ("k", "v")
    assert newest.id == 3
    assert "data-file.path-directory" not in newest.option_texts
    assert newest.highest_field_id == 2, "its field id is not given out again"


def test_more_buckets_that_lost_to_first_files_of_fewer_are_undone() -> None:
    """Apache Paimon names the schema that its writer had: it did not know of the change."""
    store = Turns()
    writer, changer = (opened(store, **OTHER_WAY["more buckets"]) for _ in range(2))

    def first_files() -> None:
        Stale(writer).append(ROWS)
        landed = again(store).timeline.snapshot(2)
        store.put("snapshot/snapshot-2", replace(landed, schema_id=0).to_json())

    store.before_create = {"snapshot/snapshot-2": first_files}
    with pytest.raises(ll.CommitConflict, match="first files"):
        changer.alter(*BACK["more buckets"])
    assert again(store).schema.bucket == 2
    check(store, True, False, rescaled=True)


def test_a_change_that_first_files_do_not_show_is_undone_if_it_lost_to_them() -> None:
    """Their layout is that of both schemas, so that it does not say whether their writer knew of the change."""
    store = Turns()
    writer, changer = opened(store), opened(store)
    store.before_create = {"snapshot/snapshot-2": lambda: Stale(writer).append(ROWS)}
    with pytest.raises(ll.CommitConflict, match="first files"):
        changer.alter(ll.set_option("manifest.format", "avro"))
    assert "manifest.format" not in again(store).schema.option_texts
    check(store, True, False)


def test_a_change_that_could_not_be_settled_is_undone_although_another_change_came_after_it() -> None:
    """The snapshot of that one has its layout, but no files."""
    store = Turns()
    changer = opened(store)

    def refuse() -> None:
        raise ll.StoreUnavailable("access denied")

    store.before_create = {
        "snapshot/snapshot-2": lambda: again(store).alter(ll.set_option("manifest.format", "avro")),
        "snapshot/snapshot-4": refuse,
    }
    with pytest.raises(ll.StoreUnavailable, match="access denied"):
        changer.alter(*CHANGES["directory"])
    texts = again(store).schema.option_texts
    assert ("data-file.path-directory" in texts, texts["manifest.format"]) == (False, "avro")
    again(store).append(ROWS)
    check(store, True, None)


def test_an_unknown_change_resolves_to_its_schema() -> None:
    store = Turns()
    changer = opened(store)
    store.silent = {"snapshot/snapshot-2"}
    with pytest.raises(ll.OutcomeUnknown, match="schema 1") as caught:
        changer.alter(ll.set_option("data-file.path-directory", "data"))
    store.silent = set()
    made = caught.value.resolve(timeout=5)
    assert made.id == 1
    assert again(store).options["data-file.path-directory"] == "data"
    assert not held_files(again(store).snapshot())


def test_resolving_an_unknown_change_that_lost_to_the_first_files_undoes_it() -> None:
    store = Turns()
    writer, changer = opened(store), opened(store)
    store.silent = {"snapshot/snapshot-2"}
    with pytest.raises(ll.OutcomeUnknown) as caught:
        changer.alter(ll.set_option("data-file.path-directory", "data"))
    store.silent = set()
    Stale(writer).append(ROWS)
    with pytest.raises(ll.CommitConflict, match="first files"):
        caught.value.resolve(timeout=5)
    assert "data-file.path-directory" not in again(store).options
    check(store, True, None)


@pytest.mark.parametrize("changes", [CHANGES["directory"], (ll.add_column("extra", "INT"),)], ids=["layout", "column"])
def test_a_schema_whose_creation_is_unknown_resolves_to_a_change_that_stands(changes: tuple[SchemaChange, ...]) -> None:
    """Also against first files that were being committed while the outcome was unknown."""
    store = Turns()
    writer, changer = opened(store), opened(store)
    store.silent = {"schema/schema-1"}

    def lose_the_answer() -> None:
        with pytest.raises(ll.OutcomeUnknown) as caught:
            changer.alter(*changes)
        store.silent = set()
        assert caught.value.resolve(timeout=5).id == 1

    store.before_create = {"snapshot/snapshot-1": lose_the_answer}
    altered_layout = changes is CHANGES["directory"]
    assert told(lambda: Stale(writer).append(ROWS)) is not altered_layout
    assert again(store).schema.option_texts.get("data-file.path-directory") == ("data" if altered_layout else None)
    check(store, not altered_layout, True if altered_layout else None)


def test_an_unknown_schema_after_which_another_writer_made_its_own_did_not_land() -> None:
    store = Turns()
    first, second = opened(store), opened(store)
    store.silent = {"schema/schema-1"}
    with pytest.raises(ll.OutcomeUnknown) as caught:
        first.alter(ll.add_column("lost", "INT"))
    store.silent = set()
    second.alter(ll.add_column("made", "INT"))
    with pytest.raises(ll.RetriesExhausted, match="another writer"):
        caught.value.resolve(timeout=5)
    assert again(store).schema.names == ("k", "v", "made")


def test_a_change_that_cannot_be_announced_is_not_made() -> None:
    store = Turns()
    changer = opened(store)
    store.silent = {"snapshot/snapshot-1"}
    with pytest.raises(ll.StoreUnavailable, match="was not changed"):
        changer.alter(ll.set_option("data-file.path-directory", "data"))
    assert again(store).schema.id == 0


def test_a_change_that_cannot_be_undone_is_unknown_and_resolves() -> None:
    """It lost to the first files, and the store refuses the schema that would undo it."""
    store = Turns()
    writer, changer = opened(store), opened(store)
    create = store.put_if_absent

    def without(key: str, data: bytes) -> PutOutcome:
        if key == "schema/schema-3":
            raise ll.StoreUnavailable("away")
        return create(key, data)

    store.before_create = {"snapshot/snapshot-2": lambda: Stale(writer).append(ROWS)}
    store.put_if_absent = without  # type: ignore[method-assign]
    with pytest.raises(ll.OutcomeUnknown, match="had to be undone") as caught:
        changer.alter(ll.add_column("extra", "INT"), ll.set_option("data-file.path-directory", "data"))
    store.put_if_absent = create  # type: ignore[method-assign]
    with pytest.raises(ll.CommitConflict, match="first files"):
        caught.value.resolve(timeout=5)
    assert again(store).schema.names == ("k", "v")
    check(store, True, None)


def dying_before_it_corrects_the_schema(store: Turns) -> Table:
    """A writer whose first files land beside a change of their layout, and that dies before it makes the schema fit."""
    writer, changer = opened(store), opened(store)

    def die() -> None:
        raise Died

    def alter_then_die() -> None:
        store.put_if_absent("schema/schema-1", _changed(changer, (ll.set_option("data-file.path-directory", "data"),)))
        store.before_create["schema/schema-2"] = die

    store.before_create = {"snapshot/snapshot-1": alter_then_die}
    return writer


def test_a_writer_that_died_before_correcting_the_schema_blocks_no_other_writer() -> None:
    """The next writer gets an error that asks to open the table again, and then finds a schema that fits."""
    store = Turns()
    writer = dying_before_it_corrects_the_schema(store)
    with pytest.raises(Died):
        Stale(writer).append(ROWS)
    with pytest.raises(ll.CommitConflict, match="open the table again"):
        again(store).append(ROWS)
    check(store, True, None)


def test_a_landed_identity_is_not_reported_before_the_newest_schema_has_its_layout() -> None:
    """As in a job that is restarted after its first run died."""
    store = Turns()
    writer = dying_before_it_corrects_the_schema(store)
    with pytest.raises(Died):
        Stale(writer).append(ROWS, commit_user="job", identifier=1)
    assert again(store).append(ROWS, commit_user="job", identifier=1).replayed
    check(store, True, None)


def test_first_rows_are_not_reported_before_the_newest_schema_has_their_layout() -> None:
    """If the schema cannot be corrected, the answer is unknown, and resolving it corrects the schema."""
    store = Turns()
    writer, changer = opened(store), opened(store)
    create = store.put_if_absent

    def without(key: str, data: bytes) -> PutOutcome:
        if key == "schema/schema-2":
            raise ll.StoreUnavailable("away")
        answer = create(key, data)
        if key == "snapshot/snapshot-1" and isinstance(answer, Created):
            change = (ll.set_option("data-file.path-directory", "data"),)
            store.put_if_absent("schema/schema-1", _changed(changer, change))
        return answer

    store.put_if_absent = without  # type: ignore[method-assign]
    with pytest.raises(ll.OutcomeUnknown, match="it landed") as caught:
        Stale(writer).append(ROWS)
    store.put_if_absent = create  # type: ignore[method-assign]
    assert caught.value.resolve(timeout=5).snapshot_id == 1
    check(store, True, None)


def _changed(table: Table, changes: tuple[SchemaChange, ...]) -> bytes:
    return changed(table.schema, changes, has_snapshots=False, time_ms=1).to_json()


@pytest.mark.parametrize("dies_at", ["snapshot/snapshot-1", "schema/schema-2"])
def test_recovered_first_rows_can_be_read_with_the_newest_schema(dies_at: str, tmp_path: Path) -> None:
    """Their writer died before it had sent them, or before it had corrected the schema."""
    store = Turns()
    journal = FileJournal(tmp_path / "journal")
    made = new_schema(from_arrow_schema(FIELDS))
    store.put_if_absent("schema/schema-0", made.to_json())
    writer = Table(store, made, journal=journal)

    def die() -> None:
        raise Died

    def alter_then_die() -> None:
        store.put_if_absent("schema/schema-1", _changed(writer, CHANGES["directory"]))
        if dies_at == "snapshot/snapshot-1":
            raise Died
        store.before_create[dies_at] = die

    store.before_create = {"snapshot/snapshot-1": alter_then_die}
    with pytest.raises(Died):
        Stale(writer).append(ROWS)
    found = recover_journal(journal, store, MACHINE, writers_are_gone=True)
    assert [commit.outcome for commit in found.commits] in (["finished"], ["landed"])
    check(store, True, None)


def test_the_first_snapshot_may_name_the_first_schema() -> None:
    """The newest schema of a table without snapshots has another layout: the first snapshot names the writer's own schema."""
    store = Turns()
    writer = new_schema(from_arrow_schema(FIELDS))
    store.put_if_absent("schema/schema-0", writer.to_json())
    newest = changed(writer, CHANGES["directory"], has_snapshots=False, time_ms=1)
    store.put_if_absent("schema/schema-1", newest.to_json())
    timeline = Timeline(store, TablePaths())
    assert schema_named(writer, Base(None, (), 1, 0), timeline) == 0
    assert schema_named(newest, Base(None, (), 1, 0), timeline) == 1
    landed = filled_snapshot(store)
    store.put_if_absent("schema/schema-2", replace(writer, id=2).to_json())
    assert schema_named(writer, Base(replace(landed, schema_id=1), (), 1, 0), timeline) == 1
    assert schema_named(newest, Base(landed, (), 2, 0), timeline) == 1


def test_a_snapshot_names_the_newest_schema_of_the_same_layout() -> None:
    store = Turns()
    writer = new_schema(from_arrow_schema(FIELDS))
    store.put_if_absent("schema/schema-0", writer.to_json())
    newest = changed(writer, [ll.add_column("extra", "INT")], has_snapshots=False, time_ms=1)
    store.put_if_absent("schema/schema-1", newest.to_json())
    assert schema_named(writer, Base(None, (), 1, 0), Timeline(store, TablePaths())) == 1


def filled_snapshot(store: Turns) -> Snapshot:
    """A snapshot of the first schema that is not in the store's history."""
    again = Turns()
    again.put_if_absent("schema/schema-0", store.get("schema/schema-0"))
    table = Table(again, new_schema(from_arrow_schema(FIELDS)))
    table.append(ROWS)
    (landed,) = table.snapshots()
    return landed
