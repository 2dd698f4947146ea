"""Tables with dynamic buckets, with keys across partitions and with postponed buckets, written while other jobs write too."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes import Raced, index_of, meanwhile

import lakelatch as ll
from lakelatch.core.metadata.hash_index import decode_hashes
from lakelatch.core.places import FileKeys
from lakelatch.core.rows.bucket import key_hashes
from lakelatch.core.rows.types import parse_atomic
from lakelatch.table.reading.stored_keys import stored_keys
from lakelatch.table.table import Table
from lakelatch.table.writing.files import sink

NUMBERS = itertools.count()
SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int32()), ("v", pa.string())])
Rows = list[tuple[int, int, str]]


def created(*key: str, **options: str) -> Table:
    store = Raced(f"memory://key-buckets-{next(NUMBERS)}/t")
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    made = ll.create_table(store.url, SCHEMA, partition_by=["p"], primary_key=list(key), options=named)
    return Table(store, made.schema)


def again(table: Table) -> Table:
    """Another job's handle."""
    return Table(table.store, table.timeline.latest_schema())


def rows(*found: tuple[int, int, str]) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=SCHEMA)


def read(table: Table) -> Rows:
    return sorted(tuple(row.values()) for row in again(table).to_arrow().to_pylist())


def places(table: Table) -> dict[int, set[tuple[bytes, int]]]:
    """The places of each key, whatever their rows say."""
    found: dict[int, set[tuple[bytes, int]]] = {}
    deduplicated = again(table)
    for place, batch in stored_keys(deduplicated.timeline, deduplicated.snapshot(), deduplicated.schema):
        for key in batch.column("k").to_pylist():
            found.setdefault(key, set()).add(place)
    return found


def check(table: Table, wanted: Rows) -> None:
    """The rows; that each key is in one bucket, and the index says the same of all buckets."""
    assert read(table) == sorted(wanted)
    assert again(table).verify(data=True) == []
    assert Counter(row[:2] for row in read(table)).most_common(1)[0][1] == 1
    if index_of(table):
        seen = Counter[tuple[bytes, int]]()
        for entry in index_of(table):
            data = table.store.get(FileKeys(table.schema).index(entry))
            seen.update((entry.partition, h) for h in decode_hashes(data, entry.file.row_count, "").tolist())
        assert set(seen.values()) == {1}, "a hash is in two buckets"


def buckets_of(table: Table) -> dict[int, int]:
    """The bucket of each key of a table with one partition, by its data files."""
    return {key: place[1] for key, found in places(table).items() for place in found}


# ----------------------------------------------------------------------------------------------------- dynamic buckets


def test_a_new_key_of_two_jobs_goes_to_one_bucket() -> None:
    """Both see a free place for one key in bucket 0. The job that lands last moves its row; the one that began last is newer."""
    table = created("p", "k", dynamic_bucket__target_row_num="2", write_only="true")
    table.upsert(rows((1, 1, "a")))
    other = again(table)
    before: set[str] = set()

    def others() -> None:
        other.upsert(rows((1, 3, "theirs"), (1, 4, "theirs")))
        before.update(e.file.file_name for e in again(table).entries())

    meanwhile(table, others)
    receipt = table.upsert(rows((1, 2, "b"), (1, 3, "c"), (1, 5, "e")))
    assert receipt.snapshot_id == 3
    check(table, [(1, 1, "a"), (1, 2, "b"), (1, 3, "theirs"), (1, 4, "theirs"), (1, 5, "e")])
    found = buckets_of(table)
    assert found[3] == 0 and found[4] == 1 and found[5] == 1 and found[1] == found[2] == 0
    assert before <= {e.file.file_name for e in again(table).entries()}


@pytest.mark.parametrize("travelling", [0, 1 << 20])
def test_only_files_with_moved_keys_are_written_again(travelling: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files in the store and of files that travel with the commit; the changelog of the input moves too."""
    monkeypatch.setattr(sink, "TRAVELLING_BYTES", travelling)
    monkeypatch.setattr("lakelatch.table.writing.files.data_writer.TRAVELLING_BYTES", travelling, raising=False)
    table = created(
        "p", "k", dynamic_bucket__target_row_num="2", write_only="true", changelog_producer="input"
    )  # fmt: skip
    table.upsert(rows((1, 1, "a"), (2, 1, "a")))
    meanwhile(table, lambda: again(table).upsert(rows((1, 3, "theirs"), (1, 4, "theirs"))))
    moved: list[Any] = []
    lookups = table._lookups()
    move = lookups.move

    def moving(messages: Any, moves: Any) -> Any:
        moved.append((messages, move(messages, moves)))
        return moved[-1][1]

    object.__setattr__(lookups, "move", moving)
    monkeypatch.setattr(table, "_lookups", lambda: lookups)
    table.upsert(rows((1, 2, "b"), (1, 3, "c"), (1, 5, "e"), (2, 9, "f")))
    ((first, second),) = moved
    names = [{f.file_name for m in messages for f in m.new_files} for messages in (first, second)]
    assert len(names[0]) == 3 and len(names[0] & names[1]) == 2 and len(names[1]) == 4
    check(
        table,
        [(1, 1, "a"), (1, 2, "b"), (1, 3, "theirs"), (1, 4, "theirs"), (1, 5, "e"), (2, 1, "a"), (2, 9, "f")],
    )
    told = again(table).changes(start=2, end=3).read_all()
    assert sorted(told["k"].to_pylist()) == [2, 3, 5, 9]


def test_a_key_is_moved_twice_before_its_rows_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second move finds the file that the first one made, which still travels with the commit.

    Key 3 goes from bucket 1 to bucket 0, where another job has put it. At that moment somebody replaces the whole partition, and
    puts it into bucket 1.
    """
    table = created("p", "k", dynamic_bucket__target_row_num="2", write_only="true")
    table.upsert(rows((1, 1, "a")))
    replaced = rows((1, 8, "new"), (1, 9, "new"), (1, 3, "new"))
    lookups, moves = table._lookups(), 0
    move = lookups.move

    def moving(messages: Any, found: Any) -> Any:
        nonlocal moves
        moves += 1
        moved = move(messages, found)
        if moves == 1:
            again(table).overwrite(replaced, partition={"p": 1})
        return moved

    object.__setattr__(lookups, "move", moving)
    monkeypatch.setattr(table, "_lookups", lambda: lookups)
    meanwhile(table, lambda: again(table).upsert(rows((1, 3, "theirs"), (1, 4, "theirs"))))
    receipt = table.upsert(rows((1, 2, "b"), (1, 3, "c"), (1, 5, "e")))
    assert moves == 2 and receipt.snapshot_id == 4
    assert sorted(key for _, key, _ in read(table)) == [2, 3, 5, 8, 9]
    assert {bucket for _, bucket in places(table)[3]} == {1}
    assert again(table).verify(data=True) == []


def test_moves_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is always beaten gives up with advice, after as many lost races as it may lose; none of its rows appear."""
    table = created("p", "k", dynamic_bucket__target_row_num="1", write_only="true", commit__max_retries="9")
    lookups, turns = table._lookups(), []
    object.__setattr__(lookups, "move", lambda messages, moves: turns.append(moves) or list(messages))
    monkeypatch.setattr(table, "_lookups", lambda: lookups)
    meanwhile(table, lambda: again(table).upsert(rows((1, 2, "theirs"), (1, 1, "theirs"))))
    with pytest.raises(ll.CommitConflict, match=r"other buckets.*fixed or postponed buckets"):
        table.upsert(rows((1, 1, "a"), (1, 2, "b")))
    assert len(turns) == 9
    check(table, [(1, 1, "theirs"), (1, 2, "theirs")])


def test_many_jobs_in_turns_and_at_once() -> None:
    """Random upserts, deletes and overwrites by jobs that know nothing of each other: the rows of a dictionary."""
    dice = np.random.default_rng(5)
    table = created("p", "k", dynamic_bucket__target_row_num="3", write_only="true")
    model: dict[tuple[int, int], str] = {}
    jobs = [table, *(again(table) for _ in range(2))]

    def change(job: Table, step: str) -> tuple[Callable[[], None], Callable[[], Any]]:
        """A change of the model, and of the table by a job."""
        found = {(int(dice.integers(2)), int(dice.integers(14))): step for _ in range(6)}
        data = rows(*((p, k, v) for (p, k), v in found.items()))
        if step.endswith("7"):
            return lambda: [model.pop(key, None) for key in found] and None, lambda: job.delete(
                keys=data.drop_columns(["v"])
            )
        if step.endswith("4"):
            replaced = {p for p, _ in found}

            def overwritten() -> None:
                for key in [key for key in model if key[0] in replaced]:
                    del model[key]
                model.update(found)

            return overwritten, lambda: job.overwrite(data, dynamic=True)
        return lambda: model.update(found), lambda: job.upsert(data)

    for step in range(24):
        job, other = (jobs[i] for i in dice.choice(3, 2, replace=False))
        if step % 3:
            applied, write = change(job, str(step))
            applied()
            write()
        else:  # the other one begins later, and lands first
            (ours, write), (theirs, write_theirs) = change(job, f"{step}-1"), change(other, f"{step}-2")
            ours()
            theirs()
            meanwhile(table, write_theirs)
            write()
        check(table, [(p, k, v) for (p, k), v in model.items()])
    assert len({e.bucket for e in index_of(table)}) > 2


def test_an_identity_lands_once_although_its_keys_moved() -> None:
    table = created("p", "k", dynamic_bucket__target_row_num="1", write_only="true")
    meanwhile(table, lambda: again(table).upsert(rows((1, 2, "theirs"), (1, 1, "theirs"))))
    first = table.upsert(rows((1, 1, "a"), (1, 2, "b")), commit_user="etl", identifier=7)
    assert not first.replayed
    second = again(table).upsert(rows((1, 1, "x")), commit_user="etl", identifier=7)
    assert second.replayed and second.snapshot_id == first.snapshot_id
    check(table, [(1, 1, "theirs"), (1, 2, "theirs")])


def test_the_bucket_of_a_key_by_its_hash() -> None:
    """Keys of which a hash is shared by chance go to one bucket; both rows stay."""
    keys = np.random.default_rng(2).integers(0, 1 << 62, 300_000)
    hashes = key_hashes([pa.array(keys)], [parse_atomic("BIGINT")])
    distinct, counts = np.unique(hashes, return_counts=True)
    one, other = keys[np.flatnonzero(hashes == distinct[counts > 1][0])[:2]].tolist()
    schema = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
    options = {"dynamic-bucket.target-row-num": "1", "write-only": "true"}
    url = f"memory://key-buckets-{next(NUMBERS)}/t"
    table = ll.create_table(url, schema, partition_by=["p"], primary_key=["p", "k"], options=options)
    table.upsert(pa.table([[1, 1], [one, other], ["one", "other"]], schema=schema))
    check(table, [(1, one, "one"), (1, other, "other")])
    assert len(set(buckets_of(table).values())) == 1


# ---------------------------------------------------------------------------------------------------- cross partition


def test_a_key_that_another_job_moves_at_the_same_time() -> None:
    """The later job looks for its keys again, so that the key is in one partition."""
    table = created("k", write_only="true")
    table.upsert(rows((1, 1, "a"), (1, 2, "b")))
    meanwhile(table, lambda: again(table).upsert(rows((2, 1, "theirs"), (2, 3, "theirs"))))
    table.upsert(rows((3, 1, "mine"), (3, 3, "mine")))
    check(table, [(3, 1, "mine"), (1, 2, "b"), (3, 3, "mine")])
    assert {k: len(found) for k, found in places(table).items()} == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("lost", [30, 41])
def test_a_job_that_others_beat_to_their_keys_tries_as_often_as_it_may(lost: int) -> None:
    """It may lose as many races as any commit; then it gives up with advice, and none of its rows appear."""
    table = created("k", write_only="true", commit__max_retries="40", commit__min_retry_wait="1 ms")
    left = iter(range(lost))

    def once_more() -> None:
        if next(left, None) is not None:
            again(table).upsert(rows((2, 1, "theirs")))
            meanwhile(table, once_more)

    meanwhile(table, once_more)
    if lost > 40:
        with pytest.raises(ll.CommitConflict, match=r"added rows.*write with fewer jobs at once"):
            table.upsert(rows((3, 1, "mine")))
        check(table, [(2, 1, "theirs")])
    else:
        table.upsert(rows((3, 1, "mine")))
        check(table, [(3, 1, "mine")])


def test_rows_that_come_only_once_are_a_conflict_with_advice() -> None:
    table = created("k", write_only="true")
    meanwhile(table, lambda: again(table).upsert(rows((2, 1, "theirs"))))
    with pytest.raises(ll.CommitConflict, match=r"added rows.*pass them as a table"):
        table.upsert(iter(rows((3, 1, "mine")).to_batches()))
    check(table, [(2, 1, "theirs")])


def test_a_compaction_moves_no_key() -> None:
    """A job that begins before a compaction lands after it, without looking for its keys again."""
    table = created("k", write_only="true")
    table.upsert(rows((1, 1, "a"), (2, 2, "b")))
    table.upsert(rows((2, 1, "c")))
    meanwhile(table, lambda: again(table).compact(full=True))
    table.upsert(iter(rows((3, 2, "mine")).to_batches()))
    check(table, [(2, 1, "c"), (3, 2, "mine")])


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_rows_go_to_the_partition_of_their_key(engine: str) -> None:
    table = created("k", merge_engine=engine, write_only="true")
    table.upsert(rows((1, 1, "a"), (1, 2, "b")))
    table.upsert(rows((2, 1, "c"), (2, 3, "d"), (3, 3, "e")))
    if engine == "first-row":
        assert {k: len(found) for k, found in places(table).items()} == {1: 1, 2: 1, 3: 1}
    else:
        check(table, [(1, 1, "c"), (1, 2, "b"), (2, 3, "e")])


def test_keys_are_found_that_no_read_shows_yet() -> None:
    """With deletion vectors, files of level 0 are hidden until a compaction; their keys are there all the same."""
    table = created("k", deletion_vectors__enabled="true", write_only="true")
    table.upsert(rows((1, 1, "a")))
    assert read(table) == []
    assert len(places(table)[1]) == 1
    table.upsert(rows((2, 1, "b")))
    assert {place[0] for place in places(table)[1]} == {
        e.partition for e in table.entries() if e.file.delete_row_count == 0
    } - {e.partition for e in table.entries() if e.file.delete_row_count}


def test_overwrites_across_partitions() -> None:
    table = created("k", write_only="true")
    table.upsert(rows((1, 1, "a"), (2, 2, "b")))
    for arguments in ({"partition": {"p": 2}}, {"dynamic": True}):
        with pytest.raises(ll.Unsupported, match=r"primary key lacks 'p'.*overwrite the whole table"):
            table.overwrite(rows((2, 1, "c")), **arguments)
    table.overwrite(rows((2, 1, "c")), partition={})
    check(table, [(2, 1, "c")])


# ---------------------------------------------------------------------------------------------------------- postponed


def test_rows_are_set_aside_in_the_order_in_which_they_came() -> None:
    table = created("p", "k", bucket="-2", postpone__batch_write_fixed_bucket="false")
    table.upsert(rows((1, 9, "a"), (1, 3, "b"), (1, 9, "c")))
    meanwhile(table, lambda: again(table).upsert(rows((1, 3, "theirs"))))
    table.upsert(rows((1, 9, "d")))
    assert read(table) == []
    entries = again(table).entries()
    assert {(e.bucket, e.total_buckets, e.file.max_sequence_number) for e in entries} == {(-2, -2, -1)}
    assert sorted(e.file.row_count for e in entries) == [1, 1, 3]
    assert again(table).verify(data=True) == []


def test_files_of_rows_that_are_set_aside_are_named_after_the_job() -> None:
    table = created("p", "k", bucket="-2", postpone__batch_write_fixed_bucket="false")
    table.upsert(rows((1, 9, "a")), commit_user="nightly", identifier=1)
    (entry,) = again(table).entries()
    assert entry.file.file_name.startswith("data--u-nightly-s-")


def test_real_buckets_beside_rows_that_are_set_aside() -> None:
    """The count of buckets is that of the partition's files, not of those that are set aside."""
    table = created("p", "k", bucket="-2", postpone__default_bucket_num="3", write_only="true")
    aside = again(table)
    aside.alter(ll.set_option("postpone.batch-write-fixed-bucket", "false"))
    aside.upsert(rows((1, 1, "aside")))
    aside.alter(ll.set_option("postpone.batch-write-fixed-bucket", "true"))
    aside.upsert(rows(*((1, k, "a") for k in range(20))))
    aside.alter(ll.set_option("postpone.default-bucket-num", "2"))
    aside.upsert(rows(*((p, k, "b") for k in range(20) for p in (1, 2))))
    assert {(e.partition[-8], e.total_buckets) for e in again(table).entries()} == {(1, -2), (1, 3), (2, 2)}
    check(table, [(p, k, "b") for k in range(20) for p in (1, 2)])
