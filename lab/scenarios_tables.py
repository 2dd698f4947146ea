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


def altered(option: str, value: str, budget: int, *, commits: int = 0) -> Scenario:
    """An option that the place of files depends on is changed beside the first commit.

    Whatever wins, what was acknowledged is read by the newest schema, and whoever comes later can write.

    Args:
        commits: that the table has before.
    """
    schema = lab_schema(bucket="1", **{"bucket-key": "v"})
    before = history(commits) if commits else ()
    actors = (
        Actor("A", writer()),
        Actor("Y", alterer(option, value), "alterer"),
        Actor("L", writer(opens=True), after=("A", "Y")),
    )
    name = f"altered {option}, {budget} faults" + (f", {commits} commits before" if commits else "")
    given = (("schema/schema-0", schema.to_json()),)
    lands = frozenset("L")
    return Scenario(
        name, actors, budget, before=before, schema=schema, given=given, victims=frozenset("AY"), lands=lands
    )


def dropped(commits: int | None, budget: int, *, before: int = 1) -> Scenario:
    """A table is dropped beside a warm writer, and made again: the old writer's commits are no part of the new table.

    Args:
        commits: how many the new table has soon; None where it is not made again.
        before: how many the old one had.
    """
    again = replace(lab_schema(), time_ms=1) if commits is not None else None
    actors = (
        Actor("A", writer(2)),
        Actor("N", dropper(again, commits or 0), "dropper"),
        *((Actor("L", writer(opens=True), after=("A", "N")),) if again else ()),
    )
    what = "dropped" if commits is None else f"dropped and made again, {commits} commits"
    name = f"{what}, {budget} faults" + (f", {before} before" if before != 1 else "")
    lands = frozenset("L") if again else frozenset[str]()
    return Scenario(name, actors, budget, before=history(before), given=SCHEMA, victims=frozenset("A"), lands=lands)
