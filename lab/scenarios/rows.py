"""Scenarios in which rows are replaced, rewritten or marked: overwrites, partitions, compactions, deletion vectors.

Owns: those scenarios. Must not know: how they are explored.
"""

from __future__ import annotations

from ..actors.jobs import Actor, writer
from ..actors.maintainers import hints, rollback
from ..actors.rewriters import compactor, deleter
from ..world.stage import lab_schema, partitioned_schema
from .scenario import Scenario
from .writers import SCHEMA, history


def _overwriter(name: str = "O", *, keeps: bool = False, partitions: tuple[int, ...] = ()) -> Actor:
    return Actor(name, writer(overwrites=True, keeps=keeps, partitions=partitions), "overwriter")


def overwriting(budget: int) -> Scenario:
    actors = (_overwriter("A"), _overwriter("B"))
    return Scenario(f"overwriting, {budget} faults", actors, budget, before=history(1), alike=("A", "B"))


def overwriting_beside_append(budget: int) -> Scenario:
    """A job replaces what it read while another appends. Rows that were appended meanwhile stay (H13)."""
    actors = (Actor("A", writer()), _overwriter())
    name = f"overwriting beside an append, {budget} faults"
    return Scenario(name, actors, budget, before=history(1), lands=frozenset("AO"))


def partitioned(budget: int) -> Scenario:
    """One job appends to both partitions, one replaces the first, and one the second. They do not conflict."""
    actors = (
        Actor("A", writer(partitions=(0, 1))),
        _overwriter("O", partitions=(0,)),
        _overwriter("P", partitions=(1,)),
    )
    return _of_partitions("partitioned", actors, budget)


def partition_replaced(budget: int) -> Scenario:
    """A job replaces one of two partitions while another appends to both."""
    actors = (Actor("A", writer(partitions=(0, 1))), _overwriter("O", partitions=(0,)))
    return _of_partitions("partition replaced", actors, budget)


def _of_partitions(name: str, actors: tuple[Actor, ...], budget: int) -> Scenario:
    schema = partitioned_schema()
    return Scenario(
        f"{name}, {budget} faults",
        actors,
        budget,
        before=(Actor("old", writer(partitions=(0, 1))),),
        schema=schema,
        given=(("schema/schema-0", schema.to_json()),),
        victims=frozenset("O"),
        lands=frozenset(actor.name for actor in actors),
    )


def overwriting_after_rollback(budget: int) -> Scenario:
    """A job plans an update, then the table is rolled back and written again, so that known ids name other snapshots."""
    update = writer(overwrites=True, keeps=True)
    actors = (
        Actor("O", update, "overwriter", holds=("read manifest/", ("B",))),
        Actor("Z", rollback(1), "rollback", after=("O",)),
        Actor("B", writer(2), after=("Z",)),
    )
    name = f"overwriting after a rollback, {budget} faults"
    before = (*history(3), Actor("hand", hints(EARLIEST=b"1"), "hand"))
    return Scenario(name, actors, budget, before=before, victims=frozenset("O"))


def numbered_rows(budget: int) -> Scenario:
    """Every row has a permanent id, and two writers never assign the same one."""
    schema = lab_schema(**{"row-tracking.enabled": "true"})
    actors = (Actor("A", writer()), Actor("B", writer()))
    return Scenario(
        f"numbered rows, {budget} faults", actors, budget, before=history(1), schema=schema, alike=("A", "B")
    )


def compacting(budget: int) -> Scenario:
    actors = (Actor("A", writer()), Actor("C", compactor(), "compactor"), Actor("D", compactor(), "compactor"))
    return Scenario(f"compacting, {budget} faults", actors, budget, before=history(2), alike=("C", "D"))


def compacting_beside_overwrite(budget: int) -> Scenario:
    """A compaction beside a writer and an overwrite may merge new rows with replaced ones: its output must not be deleted."""
    actors = (Actor("A", writer()), Actor("C", compactor(), "compactor"), _overwriter())
    name = f"compacting beside an overwrite, {budget} faults"
    return Scenario(name, actors, budget, before=history(1), victims=frozenset("C"), lands=frozenset("A"))


def merging(budget: int) -> Scenario:
    """Every writer finds that manifests are due to be merged."""
    schema = lab_schema(**{"manifest.merge-min-count": "2"})
    actors = (Actor("A", writer()), Actor("B", writer()))
    return Scenario(
        f"merging, {budget} faults", actors, budget, before=history(3), schema=schema, victims=frozenset("A")
    )


def _marked() -> tuple[Actor, ...]:
    return (*history(2), Actor("gone", deleter("old1"), "deleter"))


def deleting(budget: int) -> Scenario:
    """Two jobs delete a row each by deletion vectors, in two files. Both write the first index file of the table."""
    actors = (Actor("D", deleter("old1"), "deleter"), Actor("E", deleter("old2"), "deleter"))
    return Scenario(f"deleting, {budget} faults", actors, budget, before=history(2), given=SCHEMA)


def deleting_from_one_file(budget: int, *, marked: bool) -> Scenario:
    """Two jobs delete a row each of the same file. `marked`: it already has a vector, whose index file both replace (H12)."""
    before = (*history(3), Actor("one", compactor(), "compactor"))
    before += (Actor("gone", deleter("old3"), "deleter"),) if marked else ()
    actors = (Actor("D", deleter("old1"), "deleter"), Actor("E", deleter("old2"), "deleter"))
    name = f"deleting from one file{', again' if marked else ''}, {budget} faults"
    return Scenario(name, actors, budget, before=before, given=SCHEMA)


def compacting_beside_delete(budget: int) -> Scenario:
    """Two compactors and a job that deletes a row: the deleted row stays deleted, and the others stay."""
    actors = (
        Actor("C", compactor(), "compactor"),
        Actor("E", compactor(), "compactor"),
        Actor("D", deleter("old2"), "deleter"),
    )
    name = f"compacting beside a delete, {budget} faults"
    victims = frozenset("D")
    return Scenario(name, actors, budget, before=_marked(), alike=("C", "E"), victims=victims, given=SCHEMA)


def overwriting_beside_delete(budget: int) -> Scenario:
    """An update writes the rows that it read again, while another job deletes one of them by a vector (H22)."""
    actors = (_overwriter(keeps=True), Actor("D", deleter("old2"), "deleter"))
    name = f"updating beside a delete, {budget} faults"
    return Scenario(name, actors, budget, before=_marked(), given=SCHEMA)
