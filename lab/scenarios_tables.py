"""Small worlds in which the table itself changes under a writer: a new schema, dropped, dropped and made again.

Owns: those scenarios. Must not know: how they are explored.
"""

from __future__ import annotations

from dataclasses import replace

from .actors import Actor, writer
from .maintainers import alterer, dropper
from .scenario import Scenario
from .scenarios_writers import SCHEMA, history
from .stage import lab_schema

ALTERED = {
    "directory": {"data-file.path-directory": "elsewhere"},
    "buckets": {"bucket": "2", "bucket-key": "v"},
}
"""Options that change only as long as the table has no files: the place, or the buckets, of those depend on them."""


def altered(what: str, budget: int) -> Scenario:
    """An option that files depend on is changed beside the first commit.

    Whatever wins, what was acknowledged is read by the newest schema, and whoever comes later can write.

    Args:
        what: a key of `ALTERED`.
    """
    actors = (
        Actor("A", writer()),
        Actor("Y", alterer(**ALTERED[what]), "alterer"),
        Actor("L", writer(opens=True), after=("A", "Y")),
    )
    name = f"altered {what}, {budget} faults"
    faults = frozenset({"crash after", "answer lost", "misses the newest"})
    return Scenario(name, actors, budget, given=SCHEMA, victims=frozenset("AY"), lands=frozenset("L"), faults=faults)


def dropped(commits: int | None, budget: int, *, before: int = 1) -> Scenario:
    """A table is dropped beside a warm writer, and made again: the old writer's commits are no part of the new table.

    Args:
        commits: how many the new table has soon; None where it is not made again.
        before: how many the old one had.
    """
    again = replace(lab_schema(), time_ms=1) if commits is not None else None
    actors = (
        # The new table's own writers do not begin while the old writer is just publishing: see decision 17.
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
        # Whoever dies, or is not heard any more, cannot take back what lands in a table that is another by then.
        faults=frozenset({"answer lost", "503 though applied", "403"}),
        victims=frozenset("A"),
        strikes="create snapshot/",
        lands=frozenset("L") if again else frozenset(),
    )
