"""Scenarios in which rows of a table without a primary key are changed by key, beside compactors of the files that are marked.

Owns: those scenarios. Must not know: how they are explored.
"""

from __future__ import annotations

from ..actors.jobs import Actor
from ..actors.mergers import adder, merger
from ..actors.rewriters import compactor
from ..world.stage import lab_schema
from .scenario import Scenario

_SCHEMA = lab_schema(**{"deletion-vectors.enabled": "true"})
_ONE_FILE = (Actor("old", adder("1", "2", "3")),)
_MARKED = (*_ONE_FILE, Actor("gone", merger("-3"), "merger"))


def _of_rows(name: str, budget: int, actors: tuple[Actor, ...], before: tuple[Actor, ...] = _MARKED) -> Scenario:
    alike = tuple(actor.name for actor in actors if actor.kind == "compactor")
    return Scenario(
        f"{name}, {budget} faults",
        actors,
        budget,
        before=before,
        schema=_SCHEMA,
        given=(("schema/schema-0", _SCHEMA.to_json()),),
        alike=alike if len(alike) > 1 else (),
        lands=frozenset(actor.name for actor in actors if actor.kind != "compactor"),
    )


def changing_rows(budget: int, *, mergers: int = 2, compactors: int = 2, marked: bool = True) -> Scenario:
    """Jobs change rows of a file by key, beside compactors that rewrite that file. All of them land, planned again
    where it takes. `marked`: the file already has a vector, in an index file that all of them replace.
    """
    jobs = (Actor("M", merger("1", "4"), "merger"), Actor("N", merger("-2"), "merger"))[:mergers]
    rewriters = tuple(Actor(name, compactor(warm=True), "compactor") for name in "CD"[:compactors])
    name = f"changing rows, {mergers} + {compactors}{'' if marked else ', not marked'}"
    return _of_rows(name, budget, (*jobs, *rewriters), _MARKED if marked else _ONE_FILE)


def changing_one_row(budget: int, *, appends: bool = False) -> Scenario:
    """Two jobs change the same row, and both of them add one of the same key, or another job does."""
    jobs = (Actor("M", merger("1", "4"), "merger"), Actor("N", merger("1", "4"), "merger"))
    jobs = (jobs[0], Actor("A", adder("4"))) if appends else jobs
    name = "changing rows beside an append" if appends else "changing one row"
    return _of_rows(name, budget, jobs)


def changing_two_files(budget: int) -> Scenario:
    """A job changes a row of each of two files, while another one deletes a row of the second."""
    before = (Actor("old", adder("1", "3")), Actor("new", adder("2", "5")))
    jobs = (Actor("M", merger("1", "2"), "merger"), Actor("N", merger("-5"), "merger"))
    return _of_rows("changing two files", budget, jobs, before)
