"""Scenarios of tables with a primary key: jobs that upsert the same keys at once, and compactors of their bucket.

Owns: those scenarios. Must not know: how they are explored. Hazards: H12, H14.
"""

from __future__ import annotations

from ...core.metadata.schema import TableSchema
from ..actors.jobs import Actor
from ..actors.row_changers import Changer, Replacer
from ..actors.upserters import Upserter, key_compactor, rescaler
from ..world.stage import keyed_schema
from .groups import FAULTS
from .scenario import Scenario


def _of_keys(name: str, actors: tuple[Actor, ...], budget: int, schema: TableSchema, **more: object) -> Scenario:
    given = (("schema/schema-0", schema.to_json()),)
    return Scenario(f"{name}, {budget} faults", actors, budget, schema=schema, given=given, **more)  # type: ignore[arg-type]


def _job(name: str, *puts: str, ahead: int = 1, bucket: int | None = None, after: tuple[str, ...] = ()) -> Actor:
    return Actor(name, Upserter(puts, ahead, bucket), after=after)


def _compactor(
    name: str, level: int = 5, *, lookup: bool = False, picks: str = "", after: tuple[str, ...] = ()
) -> Actor:
    return Actor(name, key_compactor(level, lookup=lookup, picks=picks), "compactor", after=after)


def upserting(budget: int) -> Scenario:
    """Two jobs give the same number to two rows of one key."""
    actors = (_job("A", "1", "2"), _job("B", "2", "3", ahead=2))
    return _of_keys("upserting", actors, budget, keyed_schema(), before=(_job("old", "1", "2", "3"),))


def upserting_first(budget: int) -> Scenario:
    return _of_keys("upserting first", (_job("A", "1"), _job("B", "1")), budget, keyed_schema())


RIDING = {"commit.group": "auto"}


def _riding(name: str, *puts: str, ahead: int = 1, meets: bool = False, behind: bool = False) -> Actor:
    return Actor(name, Upserter(puts, ahead, rides=True, meets=meets, behind=behind))


def rescaled_riders(budget: int) -> Scenario:
    """The rows of a table with postponed buckets are written again into two, beside a job that writes files for one bucket, and
    one that begins afterwards, knows of both, and may carry the other.
    """
    one, two = (Upserter(("1",), 10 * n, buckets=n, rides=True, meets=True) for n in (1, 2))
    actors = (
        Actor("A", one),
        Actor("R", rescaler(2), "overwriter"),
        Actor("C", two, after=("R",)),
    )
    schema, before = keyed_schema(bucket="-2", **RIDING), (Actor("old", Upserter(("1",), buckets=1)),)
    return _of_keys(
        "riders of a rescaled table", actors, budget, schema, before=before, faults=FAULTS, lands=frozenset()
    )


def riding_upserts(count: int, budget: int) -> Scenario:
    """Jobs that upsert one key, and ride with each other. Who begins later has larger numbers, as of one clock."""
    names = "ABCD"[:count]
    actors = tuple(_riding(name, "1", ahead=10 * n) for n, name in enumerate(names, 1))
    schema, before = keyed_schema(**RIDING), (_job("old", "1"),)
    return _of_keys(
        f"{count} riders with keys", actors, budget, schema, before=before, faults=FAULTS, alike=tuple(names)
    )


def riding_keys(
    budget: int,
    *,
    carriers: int = 1,
    tie: bool = False,
    compacted: bool = False,
    faults: frozenset[str] | None = FAULTS,
) -> Scenario:
    """A rider that builds on the first of two snapshots, and jobs that may carry it.

    Args:
        tie: the one carrier gives the number to a row that the rider gives to one of the same key. Of two carriers the second
            does so when it numbers its row again, above the first.
        compacted: a compactor merges rows that are newer than the rider's, and drops one that deletes.
    """
    before = (_job("old", "1", "2"), _job("new", "-1", "2", ahead=20) if compacted else _job("new", "2"))
    ahead = 20 if not tie else 9 if carriers == 1 else 8
    names = "CD"[:carriers]
    actors = (
        _riding("A", "1", "2", ahead=10, behind=True),
        *(_riding(name, "1" if tie else "3", ahead=ahead, meets=True) for name in names),
        *((_compactor("K"),) if compacted else ()),
    )
    what = f"ridden with keys, {carriers} carrier{'s' if carriers > 1 else ''}"
    what += " with its numbers" if tie else ""
    what += " beside a compaction" if compacted else ""
    schema, alike = keyed_schema(**RIDING), tuple(names) if carriers > 1 else ()
    return _of_keys(what, actors, budget, schema, before=before, faults=faults, alike=alike)


def upserts_and_compactions(budget: int, *, compactors: int = 2) -> Scenario:
    """Two jobs, one of which deletes, and compactors of all files. The job with the smaller numbers may land last."""
    actors = (
        _job("A", "1", "2", ahead=10),
        _job("B", "-1", "2", ahead=20),
        *(_compactor(name) for name in "CD"[:compactors]),
    )
    name = f"upserts and {compactors} compactions"
    alike = ("C", "D") if compactors == 2 else ()
    return _of_keys(name, actors, budget, keyed_schema(), before=(_job("old", "1", "2"),), alike=alike)


def deleting_beside_compaction(budget: int) -> Scenario:
    """A key is deleted and the bucket compacted while an older job still writes the key."""
    actors = (
        _job("A", "1", "2", ahead=10),
        _job("B", "-1", "2", ahead=20),
        _compactor("C", after=("B",)),
    )
    name = "deleting beside a compaction"
    return _of_keys(name, actors, budget, keyed_schema(), before=(_job("old", "1", "2"),))


VECTORS = {"deletion-vectors.enabled": "true"}


def marking(budget: int, *, writers: int = 1) -> Scenario:
    """Two compactors look up older rows and mark them, beside jobs: a key has one row above level 0."""
    before = (_job("old", "1", "2"), _compactor("one", lookup=True), _job("new", "1"))
    actors = (
        *(_job(name, "2", ahead=ahead) for name, ahead in (("A", 10), ("B", 20))[:writers]),
        _compactor("C", 4, lookup=True),
        _compactor("D", 4, lookup=True),
    )
    name = f"marking beside {writers} writer{'s' if writers > 1 else ''}"
    return _of_keys(name, actors, budget, keyed_schema(**VECTORS), before=before, alike=("C", "D"))


def marking_one_key(budget: int, *, writers: int = 2, compactors: int = 2) -> Scenario:
    """As `marking`, as small as it can be: one key, one file above level 0."""
    before = (_job("old", "1"), _compactor("one", lookup=True))
    actors = (
        *(_job(name, "1", ahead=ahead) for name, ahead in (("A", 10), ("B", 20))[:writers]),
        *(_compactor(name, 4, lookup=True) for name in "CD"[:compactors]),
    )
    name, alike = f"marking one key, {writers} + {compactors}", ("C", "D") if compactors == 2 else ()
    return _of_keys(name, actors, budget, keyed_schema(**VECTORS), before=before, alike=alike)


def marking_two_files(budget: int) -> Scenario:
    """Two compactors mark rows of two files; both write the first index file of the bucket (H12)."""
    files = (_job("x", "1"), _compactor("one", lookup=True), _job("y", "2"), _compactor("two", lookup=True))
    before = (*files, _job("new", "1"), _job("more", "2"))
    actors = (_compactor("C", 4, lookup=True, picks="new1"), _compactor("D", 4, lookup=True, picks="more1"))
    return _of_keys("marking two files", actors, budget, keyed_schema(**VECTORS), before=before)


def marking_beside_full(budget: int) -> Scenario:
    """One compactor marks rows of a file that another one rewrites."""
    before = (_job("old", "1", "2"), _compactor("one", lookup=True), _job("new", "1"))
    actors = (_compactor("C", 4, lookup=True), _compactor("F"))
    return _of_keys("marking beside a full compaction", actors, budget, keyed_schema(**VECTORS), before=before)


def indexing(budget: int, *, writers: int = 2, compactors: int = 2) -> Scenario:
    """Jobs add keys to one dynamic bucket while compactors mark older rows in it: its two index files are replaced at once."""
    before = (_job("old", "1", bucket=0), _compactor("one", lookup=True))
    actors = (
        *(
            _job(name, "1", new, ahead=ahead, bucket=0)
            for name, new, ahead in (("A", "2", 10), ("B", "3", 20))[:writers]
        ),
        *(_compactor(name, 4, lookup=True) for name in "CD"[:compactors]),
    )
    name, alike = f"indexing one bucket, {writers} + {compactors}", ("C", "D") if compactors == 2 else ()
    schema = keyed_schema(bucket="-1", **VECTORS)
    return _of_keys(name, actors, budget, schema, before=before, alike=alike)


def changing_keys(
    budget: int, *, changers: int = 1, drops: bool = True, keys: tuple[str, ...] = (), strikes: str = ""
) -> Scenario:
    """A row is changed beside an older job that upserts it, and one that removes all rows (`drops`) and may write `keys`."""
    jobs = tuple(Actor(name, Changer(("1",), ahead=20 + n)) for n, name in enumerate("MN"[:changers]))
    actors = (_job("A", "1", "2", ahead=10), *jobs)
    actors = (*actors, Actor("D", Replacer(keys, ahead=30))) if drops else actors
    what = f" beside {'an overwrite' if keys else 'a drop'}" if drops else ""
    what += f", at {strikes.strip()}" if strikes else ""
    name = f"changing keys, {changers} + 1{what}"
    given = (("schema/schema-0", keyed_schema().to_json()),)
    before = (_job("old", "1", "2"),)
    return Scenario(
        f"{name}, {budget} faults",
        actors,
        budget,
        schema=keyed_schema(),
        given=given,
        before=before,
        strikes=strikes,
        lands=frozenset(actor.name for actor in actors if actor.name != "D"),
    )


def changing_no_row(budget: int) -> Scenario:
    """A change that finds no row 2, after a job that upserts row 1. An older job upserts both rows, and lands at any time."""
    actors = (
        _job("A", "1", "2", ahead=10),
        _job("B", "1", ahead=20),
        Actor("M", Changer(("2",)), after=("B",)),
    )
    schema = keyed_schema()
    given = (("schema/schema-0", schema.to_json()),)
    name = f"a change of no row, {budget} faults"
    return Scenario(
        name, actors, budget, schema=schema, given=given, before=(_job("old", "1"),), lands=frozenset({"A", "B", "M"})
    )


def overwriting_keys(budget: int) -> Scenario:
    """An overwrite beside an upsert that began before it."""
    actors = (_job("A", "1", "3", ahead=10), Actor("D", Replacer(("1", "2"), ahead=30)))
    schema = keyed_schema()
    given = (("schema/schema-0", schema.to_json()),)
    name = f"overwriting keys, {budget} faults"
    return Scenario(
        name, actors, budget, schema=schema, given=given, before=(_job("old", "1", "2"),), lands=frozenset({"A"})
    )


def placing(budget: int) -> Scenario:
    schema = keyed_schema(bucket="-1")
    actors = (_job("A", "1", bucket=0), _job("B", "1", bucket=1))
    before = (_job("old", "2", bucket=0),)
    return _of_keys("placing a new key", actors, budget, schema, before=before, lands=frozenset())
