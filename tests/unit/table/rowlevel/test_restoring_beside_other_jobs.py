"""A rollback or an undo of a table with a primary key beside upserts: some serial order explains what is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.maintenance.rollback import RollbackPlan
from lakelatch.coordinator.maintenance.undo import UndoPlan
from lakelatch.core.errors import CommitConflict
from lakelatch.table.rowlevel.key_table import KeyChange

_names = count()
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
KINDS = {
    "fixed buckets": {"bucket": "2"},
    "dynamic buckets": {"bucket": "-1"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "partial-update": {"bucket": "1", "merge-engine": "partial-update"},
    "a column orders": {"bucket": "1", "sequence.field": "ts"},
    "snapshots order": {"bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"},
}
Rows = list[tuple[int, int]]
OLDER = ((5, 100), (7, 70))


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [p[0] for p in pairs], "v": [p[1] for p in pairs], "ts": [1 for _ in pairs]}, SCHEMA)


def made(kind: str) -> Any:
    table = ll.create_table(f"memory://restoring/{next(_names)}", SCHEMA, primary_key=["id"], options=KINDS[kind])
    table.upsert(rows((5, 10), (6, 60)))
    return table


def began(table: Any, *pairs: tuple[int, int]) -> Callable[[], Any]:
    """An upsert that has its rows and numbers, and is yet to be committed."""
    tx = ll.open_table(table.url).transaction()
    tx.__enter__()
    tx.upsert(rows(*(pairs or OLDER)))
    return lambda: tx.__exit__(None, None, None)


def found(table: Any) -> Rows:
    assert not [str(finding) for finding in table.verify()]
    return sorted((r["id"], r["v"]) for r in ll.open_table(table.url).to_arrow().to_pylist())


def newest(table: Any) -> int:
    return int(ll.open_table(table.url).snapshots()[-1].id)


def with_older(state: Rows) -> Rows:
    return sorted({**dict(state), **dict(OLDER)}.items())


def between_look_and_commit(monkeypatch: pytest.MonkeyPatch, plan: type, meanwhile: Callable[[], Any]) -> None:
    request, others = plan.request, [meanwhile]  # type: ignore[attr-defined]

    def after_others(self: Any, user: str, *about: Any) -> Any:
        if user and others:
            others.pop()()
        return request(self, user, *about)

    monkeypatch.setattr(plan, "request", after_others)


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_older_upsert_between_the_look_of_a_rollback_and_its_commit(
    kind: str, compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its rows would be hidden by those that come back, and others would stay."""
    table = made(kind)
    older = began(table)
    table.upsert(rows((5, 50)))
    if compacted:
        table.compact(full=True)
    state, back = found(table), newest(table)
    table.truncate()
    between_look_and_commit(monkeypatch, RollbackPlan, older)
    try:
        table.rollback(snapshot=back)
    except CommitConflict:  # its index file cannot stay beside the restored one, or a compaction has merged it
        assert kind in ("dynamic buckets", "vectors", "lookup")
        table.rollback(snapshot=back)
        assert found(table) == state
    else:
        assert found(table) == with_older(state)


@pytest.mark.parametrize("gone", ["older rows go", "newer rows go"])
@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_older_upsert_is_not_hidden_by_rows_that_stay(
    kind: str, compacted: bool, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are there before the rollback as well as after it. It gives way, and takes the older rows away when run again."""
    table = made(kind)
    oldest = began(table, (8, 80))
    older = began(table)
    table.upsert(rows((5, 50)))
    if compacted:
        table.compact(full=True)
    state, back = found(table), newest(table)
    if gone == "older rows go":
        oldest()
    else:
        table.upsert(rows((8, 80)))
    between_look_and_commit(monkeypatch, RollbackPlan, older)
    try:
        table.rollback(snapshot=back)
    except CommitConflict as error:
        assert kind != "snapshots order"
        assert (
            gone != "older rows go"
            or kind not in ("fixed buckets", "a column orders")
            or "newer_rows_stay" in str(error)
        )
        table.rollback(snapshot=back)
        assert found(table) == state
    else:
        assert found(table) == with_older(state)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("dynamic buckets", "vectors", "lookup")])
def test_a_newer_upsert_between_the_look_and_the_commit_stays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(kind)
    state, back = found(table), newest(table)
    table.upsert(rows((5, 50), (8, 80)))
    between_look_and_commit(monkeypatch, RollbackPlan, lambda: ll.open_table(table.url).upsert(rows(*OLDER)))
    table.rollback(snapshot=back)
    assert found(table) == with_older(state)


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_upsert_that_began_before_a_rollback_and_lands_after_it(kind: str, compacted: bool) -> None:
    table = made(kind)
    older = began(table)
    table.upsert(rows((5, 50)))
    if compacted:
        table.compact(full=True)
    state, back = found(table), newest(table)
    table.upsert(rows((8, 80)))
    table.rollback(snapshot=back)
    older()
    assert found(table) == with_older(state)


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_upsert_that_was_compacted_stays_above_what_comes_back(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is in the level of those that come back, or a row with which it deletes is gone."""
    table = made(kind)
    table.compact(full=True)
    state, back = found(table), newest(table)
    table.truncate()

    def meanwhile() -> None:
        other = ll.open_table(table.url)
        other.upsert(rows(*OLDER))
        other.compact(full=True)

    between_look_and_commit(monkeypatch, RollbackPlan, meanwhile)
    try:
        table.rollback(snapshot=back)
    except CommitConflict:
        table.rollback(snapshot=back)
        assert found(table) == state
    else:
        assert found(table) == with_older(state)


def test_a_delete_that_a_compaction_has_dropped_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("fixed buckets")
    back = newest(table)
    table.truncate()

    def meanwhile() -> None:
        other = ll.open_table(table.url)
        other.delete(rows((5, 0)).select(["id"]))
        other.compact(full=True)

    between_look_and_commit(monkeypatch, RollbackPlan, meanwhile)
    with pytest.raises(CommitConflict, match=r"newer_rows_stay.*merged without the restored ones"):
        table.rollback(snapshot=back)
    assert found(table) == []


def test_a_compaction_of_what_goes_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("fixed buckets")
    state, back = found(table), newest(table)
    table.delete(rows((5, 0)).select(["id"]))
    between_look_and_commit(monkeypatch, RollbackPlan, lambda: ll.open_table(table.url).compact(full=True))
    table.rollback(snapshot=back)
    assert found(table) == state


COMMITS: dict[str, Callable[[Any], Any]] = {
    "upsert": lambda t: t.upsert(rows((5, 50))),
    "overwrite": lambda t: t.overwrite(rows((5, 50))),
    "truncate": lambda t: t.truncate(),
}


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["between", "after"])
def test_an_older_upsert_beside_an_undo(kind: str, commit: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(kind)
    state, older = found(table), began(table)
    COMMITS[commit](table)
    undone = newest(table)
    if kind in ("vectors", "lookup") and commit != "truncate":
        return  # a compaction has built on it
    if when == "between":
        between_look_and_commit(monkeypatch, UndoPlan, older)
    try:
        table.undo(undone)
    except CommitConflict as error:
        assert when == "between" and commit != "upsert" and "depended_on" in str(error)
        return
    if when == "after":
        older()
    assert found(table) == with_older(state)


def test_a_rollback_from_one_compacted_state_to_another_is_no_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """It deletes a file that a compaction wrote, and adds such a file with as many rows. A change of rows is planned again."""
    table = made("a column orders")
    table.upsert(rows((5, 11), (6, 61)))
    table.compact(full=True)
    back = newest(table)
    table.upsert(rows((5, 50), (6, 65)))
    table.compact(full=True)
    written, others = KeyChange.written, [lambda: ll.open_table(table.url).rollback(snapshot=back)]

    def after_others(self: KeyChange, *about: Any) -> Any:
        if others:
            others.pop()()
        return written(self, *about)

    monkeypatch.setattr(KeyChange, "written", after_others)
    table.update(set={"v": "v + 1"})
    assert found(table) == [(5, 12), (6, 62)]
