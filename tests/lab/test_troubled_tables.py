"""The fixtures for users' tests: each finds the bug that it is made for, and its error names a next step."""

from __future__ import annotations

import multiprocessing
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.registry import open_store
from lakelatch.lab.troubled_store import Killed
from lakelatch.lab.troubled_tables import ContendedTable, FaultyStore, ReplayedBatch

ROWS = pa.table({"month": [1, 2]})


@pytest.fixture
def faulty(tmp_path: Path) -> FaultyStore:
    return FaultyStore(tmp_path / "faulty")


# ------------------------------------------------------------------------------------------------------- faulty store


def append(url: str, **identity: Any) -> ll.Receipt:
    return ll.open_table(url).append(ROWS, **identity)


def test_a_lost_answer_is_unknown_and_can_be_resolved(faulty: FaultyStore) -> None:
    """H2: the commit has landed, but the job gets an unknown outcome. When asked again, the store answers."""
    url = faulty.create(ROWS)
    faulty.lose_answer()
    with pytest.raises(ll.OutcomeUnknown) as caught:
        append(url)
    faulty.assert_once(ROWS)
    assert caught.value.resolve().snapshot_id == 1
    assert append(url).snapshot_id == 2, "only one answer was to be lost"


def test_a_job_that_runs_again_without_an_identity_is_caught(faulty: FaultyStore) -> None:
    url = faulty.create(ROWS)
    faulty.lose_answer()
    with pytest.raises(ll.OutcomeUnknown):
        append(url)
    append(url)
    with pytest.raises(AssertionError, match=r"2 rows too many.*\n.*commit_user=") as caught:
        faulty.assert_once(ROWS)
    assert "{'month': 1}" in str(caught.value)


@pytest.mark.parametrize(("when", "there"), [("before", 0), ("after", 2)])
def test_a_killed_process_sends_nothing_more(faulty: FaultyStore, when: str, there: int) -> None:
    url = faulty.create(ROWS)
    getattr(faulty, f"kill_{when}_commit")()
    table = ll.open_table(url)
    landed = {"before": "just before the commit, which did not land", "after": "just after the commit landed"}[when]
    with pytest.raises(Killed, match=rf"{landed} \(snapshot/snapshot-1\)\. Expect it with pytest\.raises\(Killed\)"):
        table.append(ROWS, commit_user="etl", identifier=1)
    assert len(faulty.rows()) == there
    with pytest.raises(Killed, match=rf"{landed}, earlier; what it opened sends nothing more"):
        table.snapshot()
    assert append(url, commit_user="etl", identifier=1).replayed == (when == "after")
    faulty.assert_once(ROWS)


def test_planned_faults_must_happen(faulty: FaultyStore) -> None:
    """A test whose job met no fault must not pass."""
    url = faulty.create(ROWS)
    faulty.lose_answer()
    with pytest.raises(AssertionError, match=r"never happened: lose-answer.*\n.*faulty://"):
        faulty.assert_struck()
    faulty.calm()
    faulty.assert_struck()
    append(url)
    faulty.assert_once(ROWS)


def test_random_faults_are_survived_and_repeatable(tmp_path: Path) -> None:
    """G1, G2: lost and late answers, repeated sends, stale listings. The seed decides which requests they strike."""
    struck = []
    for run in range(2):
        faulty = FaultyStore(tmp_path / str(run))
        url = faulty.create(ROWS)
        faulty.rough(seed=5, lost=0.3, duplicate=0.2)
        faulty.rough("list", seed=5, stale=0.5)
        receipts = [append(url, commit_user="etl", identifier=n) for n in range(6)]
        assert [r.snapshot_id for r in receipts] == [1, 2, 3, 4, 5, 6]
        faulty.assert_once(pa.concat_tables([ROWS] * 6))
        struck.append([line for line in faulty.trouble.struck() if line["key"].startswith("snapshot/")])
    assert struck[0] == struck[1] != []
    assert {line["strike"] for line in struck[0]} >= {"lost", "stale"}


def test_throttling_is_reported_as_such(faulty: FaultyStore) -> None:
    url = faulty.create(ROWS)
    faulty.rough("get", throttled=1.0)
    with pytest.raises(ll.StoreUnavailable, match="slow down"):
        append(url)
    faulty.calm()
    append(url)


@pytest.mark.parametrize(("operation", "shares"), [("put", {"lots": 0.1}), ("push", {"lost": 0.1})])
def test_a_misspelt_fault_is_refused(faulty: FaultyStore, operation: str, shares: dict[str, float]) -> None:
    with pytest.raises(ll.InvalidArgument, match=r"is called 'lots'|is called 'push'"):
        faulty.rough(operation, **shares)


def in_another_process(url: str) -> None:
    try:
        append(url)
    except ll.OutcomeUnknown:
        raise SystemExit(7) from None


def test_faults_are_shared_by_processes(faulty: FaultyStore) -> None:
    """Spark commits in other processes too. A planned fault strikes once, in whichever process comes first."""
    url = faulty.create(ROWS)
    faulty.lose_answer()
    codes = []
    for _ in range(2):
        process = multiprocessing.get_context("spawn").Process(target=in_another_process, args=(url,))
        process.start()
        process.join()
        codes.append(process.exitcode)
    assert codes == [7, 0]
    store = open_store(url)
    assert pickle.loads(pickle.dumps(store)).url == store.url == url


def test_a_url_whose_test_is_over_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ll.InvalidArgument, match="folder with its faults does not exist"):
        open_store(f"faulty://{tmp_path}/gone/table")


def test_tables_may_lie_on_another_store(s3: Any, faulty: FaultyStore) -> None:
    url, options = s3
    faulty.on(url, options)
    append(faulty.create(ROWS))
    assert ll.open_table(f"{url}/table", storage_options=options).count() == 2
    assert options["secret"] not in repr(faulty.trouble.settings)


# ---------------------------------------------------------------------------------------------------- contended table


def negated(rows: pa.Table) -> pa.Table:
    return pa.table({"month": [-month for month in rows["month"].to_pylist()]})


def careless(url: str) -> None:
    """A job that reads the table, and then replaces everything in it."""
    table = ll.open_table(url)
    table.overwrite(negated(table.to_arrow()))


def careful(url: str) -> None:
    """A job that passes the snapshot that it read."""
    table = ll.open_table(url)
    snapshot = table.snapshot()
    assert snapshot is not None
    table.overwrite(negated(table.at(snapshot=snapshot.id).to_arrow()), read_snapshot=snapshot.id)


def strict(url: str) -> None:
    """A job that plans again until no other commit came in between."""
    while True:
        table = ll.open_table(url)
        snapshot = table.snapshot()
        assert snapshot is not None
        rows = negated(table.at(snapshot=snapshot.id).to_arrow())
        try:
            table.overwrite(rows, read_snapshot=snapshot.id, isolation="serializable")
            return
        except ll.CommitConflict:
            continue


@pytest.fixture
def contended(tmp_path: Path) -> Callable[..., ContendedTable]:
    def make(**arguments: Any) -> ContendedTable:
        return ContendedTable(tmp_path / uuid.uuid4().hex, ROWS, [{"month": 7}], **arguments)

    return make


def test_an_overwrite_of_rows_it_never_read_is_caught(contended: Any) -> None:
    """H13"""
    table = contended()
    careless(table.url())
    with pytest.raises(AssertionError, match=r"1 of 4 rows .* are gone: \{'month': 7\}") as caught:
        table.assert_rivals_survive()
    assert "read_snapshot=" in str(caught.value)


@pytest.mark.parametrize("times", [1, 3])
def test_an_overwrite_with_a_read_snapshot_keeps_rows_of_others(contended: Any, times: int) -> None:
    """H13: rows that are appended meanwhile stay if the overwrite passes the snapshot that it read."""
    table = contended(times=times)
    careful(table.url())
    table.assert_rivals_survive()
    assert sorted(row["month"] for row in table.rows()) == [-2, -1, *[7] * table.rivals]


def test_a_serializable_overwrite_gets_conflicts_while_others_commit(contended: Any) -> None:
    table = contended(times=2)
    strict(table.url())
    assert table.rivals == 4
    assert sorted(row["month"] for row in table.rows()) == [-7] * 4 + [-2, -1]
    with pytest.raises(AssertionError, match="4 of 4 rows"):
        table.assert_rivals_survive()


def test_a_job_that_never_met_the_other_writer_fails(contended: Any) -> None:
    table = contended()
    with pytest.raises(AssertionError, match="met no other writer"):
        table.assert_rivals_survive()


def test_the_rows_of_a_rival_may_be_known_by_a_key(tmp_path: Path) -> None:
    rows, rival = [{"flight": 1, "delay": -1}], [{"flight": 2, "delay": -5}]
    table = ContendedTable(tmp_path / "t", rows, rival, times=1)
    ll.open_table(table.url()).append(pa.table({"flight": [3], "delay": [0]}))
    changed = ll.open_table(table.url()).to_arrow().set_column(1, "delay", pa.array([0] * 4, pa.int64()))
    ll.open_table(table.url()).overwrite(changed)
    table.assert_rivals_survive(on=["flight"])
    with pytest.raises(AssertionError, match="rows that another writer committed are gone"):
        table.assert_rivals_survive()


def test_a_contended_table_on_a_store_of_the_user(s3: Any, tmp_path: Path) -> None:
    url, options = s3
    table = ContendedTable(
        tmp_path / "t", ROWS, [{"month": 7}], url=url, storage_options=options, partition_by=["month"]
    )
    receipt = append(table.url())
    assert receipt.retries == 2
    table.assert_rivals_survive()
    assert ll.open_table(f"{url}/table", storage_options=options).schema.partition_keys == ("month",)


# ----------------------------------------------------------------------------------------------------- replayed batch


@pytest.fixture
def replayed(tmp_path: Path) -> ReplayedBatch:
    return ReplayedBatch(tmp_path / "replayed")


def test_a_function_with_a_stable_identity_passes(replayed: ReplayedBatch) -> None:
    """H8"""
    url = replayed.create(ROWS)
    replayed(lambda batch, batch_id: append(url, commit_user="q", identifier=batch_id), ROWS)
    assert len(replayed.rows()) == 4, "the batch, and the next one"


@pytest.mark.parametrize(
    ("identity", "says"),
    [
        (lambda batch_id: {}, r"added 4 rows instead of 2.*\n2 x \{'month': 1\}"),
        (lambda batch_id: {"commit_user": uuid.uuid4().hex, "identifier": batch_id}, "added 4 rows instead of 2"),
        (lambda batch_id: {"commit_user": "q", "identifier": 1}, "batch 1 was taken for a replay of batch 0"),
    ],
    ids=["none", "fresh user", "constant identifier"],
)
def test_a_function_without_one_is_caught(replayed: ReplayedBatch, identity: Any, says: str) -> None:
    url = replayed.create(ROWS)
    with pytest.raises(AssertionError, match=says) as caught:
        replayed(lambda batch, batch_id: append(url, **identity(batch_id)), ROWS)
    assert "identifier=batch_id" in str(caught.value)


def test_a_function_that_filters_passes_its_row_count(replayed: ReplayedBatch) -> None:
    url = replayed.create(ROWS)

    def write_batch(batch: pa.Table, batch_id: int) -> None:
        ll.open_table(url).append(batch.slice(1), commit_user="q", identifier=batch_id)

    with pytest.raises(AssertionError, match="added 1 rows instead of 2"):
        replayed(write_batch, ROWS)
    replayed(write_batch, ROWS, rows=1, batch_id=5)


def test_a_function_that_writes_elsewhere_fails(replayed: ReplayedBatch) -> None:
    replayed.create(ROWS)
    with pytest.raises(AssertionError, match="never happened"):
        replayed(lambda batch, batch_id: None, ROWS)


def test_an_error_of_the_function_itself_is_shown(replayed: ReplayedBatch) -> None:
    replayed.create(ROWS)
    with pytest.raises(ZeroDivisionError):
        replayed(lambda batch, batch_id: 1 // 0, ROWS)
