"""Scenarios in which the table itself changes under a writer: a new schema, dropped, dropped and made again.

Owns: those scenarios. Must not know: how they are explored.
"""

from __future__ import annotations

from dataclasses import replace

from ..actors.jobs import Actor, writer
from ..actors.maintainers import alterer, dropper
from ..world.stage import lab_schema
from .scenario import Scenario
from .writers import SCHEMA, history

ALTERED = {
    "directory": {"data-file.path-directory": "elsewhere"},
    "buckets": {"bucket": "2", "bucket-key": "v"},
}
"""Options that can change only while the table has no files, because they determine the location or buckets of files."""


def altered(what: str, budget: int) -> Scenario:
    """An option that files depend on is changed beside the first commit. Acknowledged rows can be read with the newest schema."""
    actors = (
        Actor("A", writer()),
        Actor("Y", alterer(**ALTERED[what]), "alterer"),
        Actor("L", writer(opens=True), after=("A", "Y")),
    )
    name = f"altered {what}, {budget} faults"
    faults = frozenset({"crash after", "answer lost", "misses the newest"})
    return Scenario(name, actors, budget, given=SCHEMA, victims=frozenset("AY"), lands=frozenset("L"), faults=faults)


def dropped(commits: int | None, budget: int, *, before: int = 1) -> Scenario:
    """A table is dropped beside a warm writer, whose commits do not get into the new table that is made with `commits`
    (None: none is made).
    """
    again = replace(lab_schema(), time_ms=1) if commits is not None else None
    actors = (
        # The new table's own writers do not begin while the old writer is publishing: see decision 17.
        Actor(
            "A", writer(2, opened=SCHEMA[0][1]), holds=("create snapshot/snapshot-", ("N",)) if commits else ("", ())
        ),
        Actor("N", dropper(again, commits or 0), "dropper"),
        *((Actor("L", writer(opens=True), after=("A", "N")),) if again else ()),
    )
    what = "dropped" if commits is None else f"dropped and made again, {commits} commits"
    name = f"{what}, {budget} faults" + (f", {before} before" if before != 1 else "")
    return Scenario(
        name,
        actors,
        budget,
        before=history(before),
        given=SCHEMA,
        # A writer that died, or whose answers are lost, cannot remove what lands in a table that was made again meanwhile.
        faults=frozenset({"answer lost", "503 though applied", "403"}),
        victims=frozenset("A"),
        strikes="create snapshot/",
        lands=frozenset("L") if again else frozenset(),
    )
