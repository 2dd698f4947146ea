"""UPDATE, DELETE and MERGE beside upserts, deletes by key, overwrites and drops: some serial order explains what is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, cast

import pyarrow as pa
import pytest
from hooked_store import HookedStore

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import CommitConflict, Unsupported
from lakelatch.table.rowlevel.key_table import KeyChange
from lakelatch.table.table import Table

_names = count()
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
KINDS = {
    "fixed buckets": {"bucket": "2"},
    "dynamic buckets": {"bucket": "-1"},
    "postponed buckets": {"bucket": "-2"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "changelog of the input": {"bucket": "1", "changelog-producer": "input"},
    "partial-update": {"bucket": "1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "a column orders": {"bucket": "1", "sequence.field": "ts"},
    "snapshots order": {"bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"},
}  # fmt: skip
KINDS_OF_ALL = ("fixed buckets", "a column orders")
"""Here every job meets every change; on the other tables some of them do."""
Rows = list[tuple[int, int]]


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [p[0] for p in pairs], "v": [p[1] for p in pairs], "ts": [1 for _ in pairs]}, SCHEMA)


def made(kind: str) -> Any:
    url = f"memory://beside-other-jobs/{next(_names)}"
    ll.create_table(url, SCHEMA, primary_key=["id"], options=KINDS[kind])
    jobs_table = ll.open_table(url)
    jobs_table.upsert(rows((5, 10), (6, 60)))
    if kind == "postponed buckets":
        jobs_table.compact()
    return url


JOBS: dict[str, Callable[[Any], Any]] = {
    "upsert": lambda tx: tx.upsert(rows((5, 100), (7, 70))),
    "delete by key": lambda tx: tx.delete(rows((5, 0))),
    "overwrite": lambda tx: tx.overwrite(rows((5, 100))),
    "truncate": lambda tx: tx.truncate(),
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    "update": lambda t: t.update(set={"v": "v + 1"}),
    "delete": lambda t: t.delete(where="v = 10"),
    "merge": lambda t: (
        t.merge(rows((5, 7)), on=["id"]).when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert_all().execute()
    ),
}


MEETINGS = [
    (kind, job, change)
    for kind in KINDS
    for job in JOBS
    for change in CHANGES
    if kind in KINDS_OF_ALL
    or (job, change) in [("upsert", "update"), ("delete by key", "merge"), ("truncate", "update")]
]


def run(job: str, url: str, meanwhile: Callable[[], Any] = lambda: None) -> None:
    """A job writes its rows, others run, and it commits."""
    table = ll.open_table(url)
    with table.transaction() as tx:
        JOBS[job](tx)
        meanwhile()


def found(url: str) -> Rows:
    return sorted((r["id"], r["v"]) for r in ll.open_table(url).to_arrow().to_pylist())


@cache
def serial(kind: str, job: str, change: str) -> dict[str, Rows]:
    """What both orders leave, and either one alone."""
    left = {}
    for order in ("job, change", "change, job", "job", "change"):
        url = made(kind)
        for name in order.split(", "):
            run(job, url) if name == "job" else CHANGES[change](ll.open_table(url))
        left[order] = found(url)
    return left


@pytest.mark.parametrize(("kind", "job", "change"), MEETINGS)
def test_a_change_of_rows_between_the_rows_of_a_job_and_its_commit(kind: str, job: str, change: str) -> None:
    """The change has not seen what the job does, so that it comes first. An overwrite gives way instead."""
    url, orders = made(kind), serial(kind, job, change)
    try:
        run(job, url, lambda: CHANGES[change](ll.open_table(url)))
    except CommitConflict:
        assert job in ("overwrite", "truncate") and found(url) == orders["change"]
    else:
        assert found(url) == orders["change, job"]


@pytest.mark.parametrize(("kind", "job", "change"), MEETINGS)
def test_a_job_between_the_plan_of_a_change_of_rows_and_its_commit(
    kind: str, job: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is planned again on what the job left."""
    url, orders = made(kind), serial(kind, job, change)
    written, others = KeyChange.written, [job]

    def after_others(self: KeyChange, *about: Any) -> Any:
        if others:
            run(others.pop(), url)
        return written(self, *about)

    monkeypatch.setattr(KeyChange, "written", after_others)
    CHANGES[change](ll.open_table(url))
    assert found(url) == orders["job, change"]


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "snapshots order"])
def test_an_overwrite_beside_an_upsert_is_the_older_one(kind: str) -> None:
    """The rows of the upsert stay, all of them, whichever began first."""
    for began in ("upsert", "overwrite"):
        url = made(kind)
        other = "overwrite" if began == "upsert" else "upsert"
        try:
            run(began, url, lambda url=url, other=other: run(other, url))  # type: ignore[misc]
        except CommitConflict:
            assert began == "overwrite" and kind in ("vectors", "lookup"), "a compaction has merged the newer rows"
        else:
            assert found(url) == [(5, 100), (7, 70)], began


NO_ROW: dict[str, Callable[[Table], Any]] = {
    "update": lambda t: t.update(where="id = 7", set={"v": "0"}),
    "delete": lambda t: t.delete(where="id = 7"),
    "merge": lambda t: t.merge(rows((7, 0)), on=["id"]).when_matched_update({"v": "s.v"}).execute(),
}


def changed_no_row(change: str, url: str) -> None:
    receipt = NO_ROW[change](ll.open_table(url))
    assert (receipt.rows_inserted, receipt.rows_updated, receipt.rows_deleted) == (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["update", "delete", "merge"])
def test_a_change_that_found_no_row_has_read_that_there_is_none(kind: str, change: str) -> None:
    """An upsert began first, another landed, and after it the change, which saw no row 7. So the first one is the newest."""
    url = made(kind)

    def others() -> None:
        ll.open_table(url).upsert(rows((5, 200)))
        changed_no_row(change, url)

    run("upsert", url, others)
    assert found(url) == [(5, 100), (6, 60), (7, 70)]


@pytest.mark.parametrize("began", ["overwrite", "truncate", "rollback"])
@pytest.mark.parametrize("change", ["update", "delete", "merge"])
def test_what_replaces_rows_gives_way_to_a_change_that_has_read_beside_rows_that_stay(began: str, change: str) -> None:
    """It is older than the rows that stay, and newer than the change, which has seen them: unless these came after the change."""
    for stays_first in (True, False):
        url = made("fixed buckets")
        ll.open_table(url).upsert(rows((7, 1)))
        ll.open_table(url).delete(rows((7, 0)))

        def others(url: str = url, stays_first: bool = stays_first) -> None:
            steps = [lambda: ll.open_table(url).upsert(rows((9, 90))), lambda: changed_no_row(change, url)]
            for step in steps if stays_first else reversed(steps):
                step()

        def act(url: str = url, others: Callable[[], None] = others) -> None:
            if began != "rollback":
                run(began, url, others)
                return
            table, store = ll.open_table(url), cast(Any, HookedStore(MemoryStore(url)))
            store.before["snapshot/snapshot-"] = others
            Table(store, table.schema, first_schema=table._first_schema).rollback(snapshot=2)

        before = found(url)
        if stays_first:
            with pytest.raises(CommitConflict, match=r"rows_changed_meanwhile.*has read rows which stay"):
                act()
            assert found(url) == [*before, (9, 90)]
        else:
            act()
            assert found(url)[-1] == (9, 90) and found(url) != [*before, (9, 90)]


UNSEEN = {
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
    "postponed": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_rows_that_are_committed_and_cannot_be_read_yet_are_not_overlooked(kind: str) -> None:
    url = f"memory://beside-other-jobs/{next(_names)}"
    table = ll.create_table(url, SCHEMA, primary_key=["id"], options=UNSEEN[kind])
    table.upsert(rows((5, 10)))
    table.compact()
    table.upsert(rows((5, 100)))
    with pytest.raises(Unsupported, match=r"1 files with rows.*cannot be read.*compact the table"):
        table.update(set={"v": "v + 1"})
    table.compact()
    table.update(set={"v": "v + 1"})
    table.compact()
    assert found(url) == [(5, 101)]


def test_rows_that_a_filter_on_the_key_rules_out_may_stay_unseen() -> None:
    table = ll.create_table(
        f"memory://beside-other-jobs/{next(_names)}", SCHEMA, primary_key=["id"], options=UNSEEN["vectors"]
    )
    table.upsert(rows((5, 10)))
    table.compact()
    table.upsert(rows((9, 90)))
    assert table.update(where="id = 5", set={"v": "v + 1"}).rows_updated == 1


def test_a_change_compacts_rows_that_the_writer_could_not_compact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's own compaction comes after its commit, so that a change may come in between."""
    from lakelatch.table.compaction import inline

    table = ll.open_table(made("vectors"))
    with monkeypatch.context() as patched:
        patched.setattr(inline, "_is_urgent", lambda *about: False)
        table.upsert(rows((5, 100)))
    assert found(table.url) == [(5, 10), (6, 60)]
    assert table.update(set={"v": "v + 1"}).plans == 2
    assert found(table.url) == [(5, 101), (6, 61)]
