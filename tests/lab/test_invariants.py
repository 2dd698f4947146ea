"""The invariants themselves: violations that they must report, in small worlds that are put together by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.lab.actors.jobs import Actor, writer
from lakelatch.lab.actors.maintainers import restorer
from lakelatch.lab.actors.rewriters import compactor, deleter
from lakelatch.lab.actors.upserters import Upserter
from lakelatch.lab.exploring.explorer import Explorer, play_alone
from lakelatch.lab.judging.invariants import Context, Violation, violations
from lakelatch.lab.scenarios.scenario import Scenario
from lakelatch.lab.scenarios.writers import SCHEMA, writers
from lakelatch.lab.world.marks import index_file, positions_in
from lakelatch.lab.world.published import Chronicle, History, Published, may_remove
from lakelatch.lab.world.reading import look
from lakelatch.lab.world.simulated_store import Objects, Request
from lakelatch.lab.world.stage import BEGAN, Told, keyed_schema, partitioned_schema


def played(*actors: Actor, schema: object = None) -> tuple[Objects, History]:
    """A store after some actors have played, one after another, and its history."""
    objects: Objects = dict(SCHEMA) if schema is None else {"schema/schema-0": schema.to_json()}  # type: ignore[attr-defined]
    for number, actor in enumerate(actors):
        objects = play_alone(actor, number + 1, objects, schema)  # type: ignore[arg-type]
    return objects, Chronicle().all_of(objects)


def judged(objects: Objects, history: History, *told: Told) -> list[Violation]:
    return violations(objects, look(objects), told, Context(published=history))


def changed(history: History, commit: str, **fields: object) -> History:
    """The history with a changed description of one commit's snapshot."""
    return {i: replace(p, **fields) if p.commit == commit else p for i, p in history.items()}  # type: ignore[arg-type]


def committed(commit: str, **fields: object) -> Told:
    return Told(commit, "committed", "", SnapshotRef(9, "x"), **fields)  # type: ignore[arg-type]


UPDATE = Actor("O", writer(overwrites=True), "overwriter")


def test_an_overwrite_may_remove_what_it_read() -> None:
    objects, history = played(Actor("A", writer()), UPDATE)
    assert look(objects).top.visible == ("O1",)  # type: ignore[union-attr]
    assert judged(objects, history, committed("A1"), committed("O1")) == []


def test_an_overwrite_may_not_remove_what_it_had_not_read() -> None:
    """H13: the same table, but the overwrite records that it had read the table without A's rows."""
    objects, history = played(Actor("A", writer()), UPDATE)
    first = next(i for i, p in history.items() if p.commit == "A1")
    empty = {**history, "before": Published("")}
    lied = changed(empty, "O1", read="before")
    assert [str(v) for v in judged(objects, lied, committed("A1"))] == [
        "G1: snapshot 2 (O1) removes the rows of A1, which it had not read",
        "G1: A1 was reported as committed, but readers do not see its rows",
    ]
    assert first in history


def test_rows_that_an_overwrite_replaced_may_not_stay() -> None:
    objects, history = played(Actor("A", writer()), Actor("B", writer()))
    first = next(i for i, p in history.items() if p.commit == "A1")
    found = judged(objects, changed(history, "B1", read=first))
    assert [v.promise for v in found] == ["H13"]
    assert "keeps the rows of A1" in found[0].text


def test_only_a_rollback_may_bring_rows_back() -> None:
    objects, history = played(Actor("A", writer()), UPDATE, Actor("R", restorer(1), "restorer"))
    assert "A1" in look(objects).top.visible  # type: ignore[union-attr]
    assert judged(objects, history) == []
    found = judged(objects, changed(history, "R1", restores=False))
    assert any("brings back the rows of A1" in v.text for v in found)


def test_an_overwrite_of_one_partition_may_not_remove_rows_of_another() -> None:
    both = Actor("A", writer(partitions=(0, 1)))
    first = Actor("O", writer(overwrites=True, partitions=(0,)), "overwriter")
    objects, history = played(both, first, schema=partitioned_schema())
    assert sorted(look(objects).top.visible) == ["A1~1", "O1~0"]  # type: ignore[union-attr]
    told = committed("A1", rows=("A1~0", "A1~1"))
    assert judged(objects, history, told) == []
    wide = changed(history, "O1", partitions=("1",))
    assert any("removes the rows of A1~0" in v.text for v in judged(objects, wide, told))


def riding(*told: Told) -> list[Violation]:
    """A snapshot in which L carries R: both had read the snapshot of A, and R wrote keys 1 and 2 with the smaller numbers."""
    schema = keyed_schema(**{"commit.group": "auto"})
    objects, history = played(
        Actor("A", Upserter(("1", "2"))), Actor("L", Upserter(("1",), ahead=20, rides=True)), schema=schema
    )
    (top,) = (i for i, made in history.items() if made.riders)
    reading = look(objects)
    assert reading.top is not None
    first = next(i for i in history if i != top)
    assert history[top].riders == (("L1", ("1",)),)
    assert history[top].commits == ("L1",)
    carried = (*history[top].riders, ("R1", ("1", "2")))
    history = {**history, top: replace(history[top], riders=carried)}
    view = replace(reading.top, visible=("L1~1", "R1~2"))
    began = [Told(name, BEGAN, first, None, ()) for name in ("L1", "R1")]
    context = Context(published=history, keyed=True)
    return violations(objects, replace(reading, views=(view, *reading.views[1:])), [*began, *told], context)


def test_each_commit_of_a_snapshot_is_one_of_a_serial_order() -> None:
    assert riding(committed("L1"), committed("R1")) == []


def test_a_rider_is_in_the_table_or_not_as_its_caller_was_told() -> None:
    lost = Told("R1", "not committed", "commit-conflict", None, ())
    assert [v.promise for v in riding(lost)] == ["G2"]
    assert [str(v) for v in riding(committed("S1"))] == [
        "G1: S1 was reported as committed, but it is not part of the table"
    ]


def test_a_rider_is_after_what_it_had_read() -> None:
    """R has read the snapshot that L leads, so that key 1 should have its value."""
    schema = keyed_schema(**{"commit.group": "auto"})
    jobs = (Actor("A", Upserter(("1",))), *(Actor(name, Upserter(("1",), 20, rides=True)) for name in "LR"))
    objects, history = played(*jobs, schema=schema)
    newest_first = look(objects)
    assert newest_first.top is not None and newest_first.top.visible == ("R1~1",)
    top = newest_first.top.snapshot.identity
    leader = history[top].base
    view = replace(newest_first.top, visible=("L1~1",))
    reading = replace(newest_first, views=(view, *newest_first.views[1:]))
    context = Context(published=history, keyed=True)
    began = [Told("L1", BEGAN, history[leader].base, None, ())]
    assert violations(objects, reading, [*began, Told("R1", BEGAN, history[leader].base, None, ())], context) == []
    found = violations(objects, reading, [*began, Told("R1", BEGAN, leader, None, ())], context)
    assert [str(v) for v in found] == ["H14: snapshot 3 (R1) has rows of no serial order of its commits: L1~1"]


def test_a_row_that_a_vector_marks_is_not_visible() -> None:
    objects, history = played(Actor("A", writer(2)), Actor("D", deleter("A1"), "deleter"))
    top = look(objects).top
    assert top is not None
    assert (top.visible, len(top.files), top.stray) == (("A2",), 2, ())
    assert judged(objects, history, committed("A1"), committed("D1", rows=(), deletes=("A1",))) == []
    found = judged(objects, changed(history, "D1", deletes=frozenset()))
    assert [v.promise for v in found] == ["G1"]


def test_a_deleted_row_that_is_visible_is_reported() -> None:
    objects, history = played(Actor("A", writer()))
    found = judged(objects, history, committed("D1", rows=(), deletes=("A1",)))
    assert [str(v) for v in found] == ["G1: D1 was reported as committed, but readers see A1, which it deleted"]


def test_a_compaction_leaves_marked_rows_out() -> None:
    objects, history = played(
        Actor("A", writer(2)), Actor("D", deleter("A1"), "deleter"), Actor("C", compactor(), "compactor")
    )
    top = look(objects).top
    assert top is not None
    assert (top.files, top.visible, top.rows, top.stray) == (("data-A2@C1.parquet",), ("A2",), 1, ())
    assert judged(objects, history, committed("C1", rows=())) == []


def test_a_vector_of_a_missing_file_is_reported() -> None:
    """H12: a live vector of a file that is not live is a violation."""
    objects, _ = played(Actor("A", writer(2)), Actor("D", deleter("A1"), "deleter"))
    reading = look(objects)
    assert reading.top is not None
    stray = replace(reading.top, stray=("data-X.parquet",))
    found = violations(objects, replace(reading, views=(stray,)), [], Context())
    assert any(v.promise == "H12" and "data-X.parquet" in v.text for v in found)


def test_a_commit_that_was_reported_lost_and_only_marked_rows_is_found_by_its_name() -> None:
    objects, history = played(Actor("A", writer(2)), Actor("D", deleter("A1"), "deleter"))
    lost = Told("D1", "not committed", "commit-conflict", None, (), ("A1",))
    assert [v.promise for v in judged(objects, history, lost)] == ["G2"]


@pytest.mark.parametrize("marked", [{"data-A1.parquet": [0]}, {"a": [0, 3], "b": [1]}])
def test_marks_are_read_as_they_were_written(marked: dict[str, list[int]]) -> None:
    file, data = index_file("index-D1", marked)
    assert {v.data_file: list(positions_in(data, v)) for v in file.deletion_vectors or ()} == marked


def test_an_unknown_snapshot_may_remove_nothing() -> None:
    assert may_remove({}, Published("", read="unknown")) == frozenset()


def test_two_equal_requests_in_flight_are_two() -> None:
    """H9: a snapshot that was sent twice can land twice, once its name is free again."""
    explorer = Explorer(writers(1, 1))
    once = explorer.first()
    late = Request("create", "journal-of-nobody", b"x")
    one, two = replace(once, in_flight=(late,)), replace(once, in_flight=(late, late))
    assert explorer.key(one) != explorer.key(two)
    landings = [choice for choice in explorer.choices(two) if choice[0] < 0]
    assert len(landings) == 1, "which of two equal requests lands first makes no difference"
    assert explorer.moved(two, landings[0]).in_flight == (late,)


def test_time_passes_for_writers_under_way_while_snapshots_expire() -> None:
    """H6: expiry spares young snapshots, so a writer that still knows an expired one has slept. By hand, no time passes."""
    from lakelatch.lab.scenarios.upkeep import expired

    for by_hand in (False, True):
        naps = _naps_of("A", expired(0, by_hand=by_hand))
        assert naps == (0.0 if by_hand else 3600.0)


def _naps_of(name: str, scenario: Scenario) -> float:
    """One walk: the actor begins, then all others play to the end, then the actor does."""
    explorer = Explorer(scenario)
    world = explorer.first()
    index = explorer.names.index(name)
    world = explorer.moved(world, (index, ""))
    for turn in (lambda i: i != index, lambda i: i == index):
        while choices := [c for c in explorer.choices(world) if turn(c[0])]:
            world = explorer.moved(world, choices[0])
    return sum(reply.nap_s for _, reply in explorer.cast.plays[world.actors[index]].history)
