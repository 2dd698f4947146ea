"""H14 with rows: two jobs give the same numbers, and the one that lands last is the newer one, for every reader."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from changes import Raced

import lakelatch as ll
from lakelatch.coordinator.commit.message import entries_of
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, TableCorrupt
from lakelatch.core.metadata.data_file import SOURCE_APPEND, SOURCE_COMPACT
from lakelatch.table.table import Table
from lakelatch.table.writing.beginning import Beginning
from lakelatch.table.writing.files import sink
from lakelatch.table.writing.renumber import Renumberer
from lakelatch.table.writing.writer import TableWriter

NUMBERS = itertools.count()
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string()), ("t", pa.timestamp("us"))])


def made(**options: str) -> Table:
    store = Raced(f"memory://renumbered-{next(NUMBERS)}/t")
    named = {"bucket": "2", "commit.min-retry-wait": "1 ms"} | {k.replace("__", "."): v for k, v in options.items()}
    named = {key.replace("_", "-"): value for key, value in named.items()}
    created = ll.create_table(store.url, SCHEMA, partition_by=["p"], primary_key=["p", "k"], options=named)
    return Table(store, created.schema)


def rows(v: str, *keys: tuple[int, int]) -> pa.Table:
    columns = [[p for p, _ in keys], [k for _, k in keys], [v] * len(keys), [1_000_000 * k for _, k in keys]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True))).cast(SCHEMA)


def held(table: Table) -> dict[tuple[int, int], str]:
    found = Table(table.store, table.schema).to_arrow().to_pylist()
    assert all(r["t"].microsecond == 0 and r["t"].timestamp is not None for r in found)
    return {(r["p"], r["k"]): r["v"] for r in found}


def spans(table: Table) -> list[tuple[int, int]]:
    entries = Table(table.store, table.schema).entries()
    return sorted((e.file.min_sequence_number, e.file.max_sequence_number) for e in entries)


@pytest.fixture
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All jobs begin at the same moment."""
    monkeypatch.setattr(Beginning, "now", lambda: Beginning(1_800_000_000_000, 0.5))


@pytest.mark.parametrize(
    "options",
    [{}, {"file__format": "orc"}, {"file__format": "avro"}, {"data_file__thin_mode": "true"}],
    ids=lambda options: next(iter(options.values()), "parquet"),
)  # fmt: skip
@pytest.mark.parametrize("held_back", [True, False], ids=["travelling", "stored"])
def test_the_job_that_lands_last_is_the_newer_one(
    one_moment: None, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], held_back: bool
) -> None:
    """Its rows, also those that delete, are written again with larger numbers; nothing else of them changes."""
    if not held_back:
        monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    table = made(**options)
    table.append(rows("base", *((p, k) for p in (1, 2) for k in range(6))))
    assert isinstance(table.store, Raced)
    other = Table(table.store, table.schema)
    table.store.first = [lambda: other.append(rows("theirs", (1, 0), (1, 1), (2, 2)))]
    with table.transaction() as tx:
        tx.upsert(rows("ours", (1, 1), (2, 3)))
        tx.delete(rows("", (1, 0)).select(["p", "k"]))
    wanted = {(p, k): "base" for p in (1, 2) for k in range(6)}
    wanted |= {(2, 2): "theirs", (1, 1): "ours", (2, 3): "ours"}
    del wanted[1, 0]
    assert held(table) == wanted
    assert table.verify(data=True) == []
    found = [e.file for e in Table(table.store, table.schema).entries()]
    newest = [f for f in found if f.max_sequence_number == max(f.max_sequence_number for f in found)]
    assert all(f.level == 0 and f.file_source == 0 for f in newest)
    assert sum(f.delete_row_count or 0 for f in found) == 1
    table.committer.settle()
    named = {e.file.file_name for e in Table(table.store, table.schema).entries()}
    assert {i.key.rpartition("/")[2] for i in table.store.list("") if "/bucket-" in i.key} == named, (
        "a file is left over"
    )


def test_nothing_is_written_again_where_numbers_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Renumberer, "__call__", lambda *_: pytest.fail("rows were written again"))
    table = made()
    table.append(rows("base", (1, 1)))
    assert isinstance(table.store, Raced)
    table.store.first = [lambda: Table(table.store, table.schema).append(rows("theirs", (1, 1), (1, 2)))]
    table.append(rows("ours", (1, 1), (1, 3)))
    assert held(table) == {(1, 1): "theirs", (1, 2): "theirs", (1, 3): "ours"}, "theirs began later"


@pytest.mark.parametrize("travelling", [True, False], ids=["travelling", "stored"])
def test_what_was_written_again_is_taken_back_if_the_commit_fails(
    one_moment: None, monkeypatch: pytest.MonkeyPatch, travelling: bool
) -> None:
    """The rows are those of other processes, which have looked at the clock alone; and then the store refuses metadata."""
    if not travelling:
        monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    table = made()
    table.append(rows("base", (1, 1)))
    writer = TableWriter(table.store, table.schema, "task")
    writer.write(rows("ours", (1, 1)))
    written = writer.finish()
    before = {i.key for i in table.store.list("") if "bucket-" in i.key}
    put = Raced.put

    def refused(self: Raced, key: str, data: bytes) -> None:
        if key.startswith("manifest/"):
            raise StoreUnavailable("no access")
        put(self, key, data)

    monkeypatch.setattr(Raced, "put", refused)
    made_again: list[Any] = []
    monkeypatch.setattr(Renumberer, "_copy", _heard(made_again, Renumberer._copy))
    with pytest.raises(StoreUnavailable), table.transaction() as tx:
        tx.append_messages(written)
    table.committer.settle()
    assert len(made_again) == 1
    after = {i.key for i in table.store.list("") if "bucket-" in i.key}
    assert len(before) == 2 and len(after) == 1 and after < before


@pytest.mark.parametrize("upgrade", [True, False])
def test_an_overwrite_beside_new_rows_stays_in_its_level(monkeypatch: pytest.MonkeyPatch, upgrade: bool) -> None:
    """Its rows are older than those that another job adds meanwhile, and the files of the highest level have its form."""
    table = made(bucket="1", file__format__per__level="5:orc", overwrite_upgrade=str(upgrade).lower())
    monkeypatch.setattr(Beginning, "now", lambda: Beginning(1_700_000_000_000, 0.5))
    table.append(rows("base", (1, 0), (1, 1), (2, 0)))
    monkeypatch.setattr(Beginning, "now", lambda: Beginning(1_800_000_000_000, 0.5))
    assert isinstance(table.store, Raced)
    other = Table(table.store, table.schema)
    table.store.first = [lambda: other.append(rows("theirs", (1, 1), (1, 2)))]
    table.overwrite(rows("ours", (1, 1), (1, 3)), partition={"p": 1})
    assert held(table) == {(2, 0): "base", (1, 1): "theirs", (1, 2): "theirs", (1, 3): "ours"}
    found = sorted(
        (e.file.level, e.file.file_name.rpartition(".")[2], e.file.file_source)
        for e in Table(table.store, table.schema).entries()
    )
    ours = (5, "orc") if upgrade else (0, "parquet")
    assert found == sorted([(*ours, SOURCE_APPEND), *[(0, "parquet", SOURCE_APPEND)] * 2])
    assert table.verify(data=True) == []


def _heard(calls: list[Any], method: Any) -> Any:
    def heard(*args: Any) -> Any:
        calls.append(args)
        return method(*args)

    return heard


@pytest.mark.parametrize("by_clock", [True, False])
@pytest.mark.parametrize("held_back", [True, False], ids=["travelling", "stored"])
def test_new_numbers_are_as_small_as_can_be_or_those_of_a_job_that_begins_now(
    one_moment: None, monkeypatch: pytest.MonkeyPatch, by_clock: bool, held_back: bool
) -> None:
    """In each bucket; the rows keep their distances, also if they are written a second time."""
    if not held_back:
        monkeypatch.setattr(sink, "TRAVELLING_BYTES", 0)
    table = made()
    writer = TableWriter(table.store, table.schema, "task", travelling=True)
    writer.write(rows("first", *((p, k) for p in (1, 2) for k in range(6))))
    writer.write(rows("second", *((p, k) for p in (1, 2) for k in range(2, 5))))
    messages = writer.finish()
    entries: Any = entries_of(messages)
    uploads = [upload for message in messages for upload in message.uploads]
    assert len({(e.partition, e.bucket) for e in entries}) == 4 and bool(uploads) == held_back

    def distances(found: Any) -> list[tuple[Any, ...]]:
        files = [(e.partition, e.bucket, e.file) for e in found]
        return sorted((p, b, f.row_count, f.max_sequence_number - f.min_sequence_number) for p, b, f in files)

    renumberer = Renumberer(table.store, table.schema, uploads)
    for above in (7, 10**17):
        first = Beginning.now().first_number(above) if by_clock else above + 1
        again = renumberer(entries, above, by_clock)
        assert {e.file.min_sequence_number for e in again.entries} == {first}
        assert distances(again.entries) == distances(entries)
        assert bool(again.uploads) == held_back
        entries = again.entries


# ------------------------------------------------------------------------------------------------ snapshot ordering


def ordered(**more: str) -> Table:
    return made(**{"sequence__snapshot_ordering": "true", "write_only": "true", **more})


def test_rows_of_a_later_snapshot_win_whatever_their_own_numbers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ordered(bucket="1")
    table.append(rows("first", (1, 1), (1, 2)))
    monkeypatch.setattr(Beginning, "first_number", lambda self, largest: 0)
    table.append(rows("second", (1, 1)))
    assert held(table) == {(1, 1): "second", (1, 2): "first"}
    assert spans(table) == [(1, 1), (2, 2)]
    assert table.verify(data=True) == []


def test_rows_that_a_compaction_wrote_keep_the_numbers_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their source decides: the numbers in the file are ids of snapshots there."""
    table = ordered(bucket="1")
    monkeypatch.setattr(Beginning, "first_number", lambda self, largest: 10)
    table.append(rows("first", (1, 1), (1, 2)))
    table.append(rows("second", (1, 1)))
    old, _ = table.entries()
    about = {"min_sequence_number": 10, "max_sequence_number": 11}
    marked = [
        old._replace(file=old.file._replace(file_source=s, level=n, **about))
        for s, n in ((SOURCE_COMPACT, 5), (None, 4))
    ]
    request: dict[str, Any] = {"kind": "OVERWRITE", "commit_user": "by-hand", "read_snapshot": table.snapshot()}
    table.committer.commit(CommitRequest(entries=(old.deletion(), marked[0]), **request))
    assert held(table) == {(1, 1): "first", (1, 2): "first"}, "10 is above the id of the second snapshot"
    fresh = Table(table.store, table.schema)
    request["read_snapshot"] = fresh.snapshot()
    (compacted,) = [e for e in fresh.entries() if e.file.level == 5]
    table.committer.commit(CommitRequest(entries=(compacted.deletion(), marked[1]), **request))
    with pytest.raises(TableCorrupt, match=r"_FILE_SOURCE.*sequence.snapshot-ordering"):
        held(table)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"write_only": "false"}, "write-only"),
        ({"sequence__field": "v"}, "sequence.field"),
    ],
)
def test_what_does_not_go_with_the_order_of_snapshots_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"sequence.snapshot-ordering.*{said}"):
        ordered(**options)


def test_the_order_of_snapshots_needs_a_primary_key() -> None:
    options = {"sequence.snapshot-ordering": "true", "write-only": "true"}
    with pytest.raises(InvalidArgument, match=r"sequence.snapshot-ordering.*primary key"):
        ll.create_table(f"memory://renumbered-{next(NUMBERS)}/t", SCHEMA, options=options)
