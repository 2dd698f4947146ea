"""Golden tables of the kinds that can be read give the rows that Apache Paimon (Java) reads; the others are refused by name.

Guards G8 (what Apache Paimon writes, lakelatch reads), H11, H16 (bad/). The packed tables always run; the whole set of
309 runs where `LAKELATCH_GOLDEN` names its folder.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from figures import NIGHTLY
from golden_filters import golden_predicate, golden_root
from golden_tables import packed, unpack
from report import tell
from values import assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import InvalidArgument, LakelatchError, TableCorrupt, Unsupported
from lakelatch.core.expressions.tree import Predicate
from lakelatch.core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.types import Field, string
from lakelatch.table.reading.arrow import arrow_schema_of, fields_of, read_batches
from lakelatch.table.scan.plan import ScanPlan, count_rows, plan_scan
from lakelatch.table.travel import schema_at, snapshot_at

pytestmark = pytest.mark.given
REFUSALS = {
    "primary key": "primary keys",
}
LEAST_WHOLE_TABLES = 282
"""Of the 309, those of which every read was right when this was written: less is a step back. One of them needs the library of
sketches, which is an extra.
"""
CHANGE_READS = 8
"""The reads of changes between two snapshots or tags in the whole set: all are right."""
AUDITED_TABLES = 18
"""The tables of the whole set with the changes of each snapshot: all are right."""


CORRECTED = {("append_evolve_casts_time_string_parquet", "c2"): {"1970-01-01": "1969-12-31"}}
"""What later releases of Apache Paimon have corrected since the tables were written (decision 11), by table and column."""


# ------------------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True)
class View:
    """A table as one `at` means it."""

    store: LocalStore
    timeline: Timeline
    snapshot: Snapshot | None
    schema: TableSchema
    as_of_ms: int | None = None

    @staticmethod
    def of(path: Path, at: dict[str, Any]) -> View:
        store = LocalStore(str(path))
        timeline = Timeline(store, TablePaths(at.get("branch", "main")))
        latest = timeline.latest_schema()
        moment = {name: at.get(name) for name in ("snapshot", "tag", "watermark")} | {
            "timestamp": at.get("timestamp_ms")
        }
        if all(value is None for value in moment.values()):
            return View(store, timeline, timeline.latest(), latest)
        found = snapshot_at(timeline, **moment)
        return View(store, timeline, found, schema_at(timeline, found, latest), found.time_ms)

    def plan(self, where: Predicate | None, columns: list[str] | None = None) -> ScanPlan:
        return plan_scan(self.timeline, self.snapshot, self.schema, where, columns, self.as_of_ms)

    def table(self, plan: ScanPlan, columns: list[str] | None) -> pa.Table:
        batches = list(read_batches(self.timeline, plan, self.schema, columns))
        schema = arrow_schema_of(self.schema, columns)
        for batch in batches:
            assert batch.schema.equals(schema, check_metadata=True)
            batch.validate(full=True)
        return pa.Table.from_batches(batches, schema=schema)


def check_read(path: Path, read: dict[str, Any]) -> None:
    """One entry of `reads`: rows, counts, and that no more files were planned than Java planned."""
    view = View.of(path, read["at"])
    columns, tracked = read.get("projection"), "row_tracking" in read["at"]
    where = None
    if "filter" in read:
        where = golden_predicate(read["filter"], {f.name: f.type for f in view.schema.fields})
    fields = fields_of(
        view.schema, columns or ([*view.schema.names, ROW_ID.name, ROW_SEQUENCE.name] if tracked else None)
    )
    columns = [f.name for f in fields] if columns or tracked else None
    plan = view.plan(where, columns)
    what = f"{path} at {read['at']}, columns {columns}, filter {read.get('filter')}"
    found = encode_rows(view.table(plan, columns), fields)
    rows = _corrected(read["rows"], [f.name for f in fields], path.parent.name)
    assert_same_rows(_without_order(found, fields, view), _without_order(rows, fields, view), what)
    assert view.table(plan, []).num_rows == len(read["rows"])
    assert count_rows(plan) in (len(read["rows"]), None)
    planned = read.get("plan")
    # Where Java prunes rows that match, it opens too few files (format/binary-row §2).
    if planned is not None and "java_rows" not in read:
        assert plan.file_count <= planned["files"], f"{what}: Java plans {planned['files']} files\n{plan}"


def _corrected(rows: list[list[Any]], names: Sequence[str], table: str) -> list[list[Any]]:
    values = [CORRECTED.get((table, name), {}) for name in names]
    if not any(values):
        return rows
    return [[known.get(v, v) if known else v for known, v in zip(values, row, strict=True)] for row in rows]


def _without_order(rows: list[list[Any]], fields: Sequence[Field], view: View) -> list[list[Any]]:
    """Rows with sorted lists in columns whose order Apache Paimon leaves open, or its releases differ in (format/releases)."""
    texts = view.schema.options.texts
    keyed = {"collect": "distinct", "nested_update": "nested-key"}
    functions = {i: texts.get(f"fields.{f.name}.aggregate-function") for i, f in enumerate(fields)}
    lists = [i for i, name in functions.items() if texts.get(f"fields.{fields[i].name}.{keyed.get(name)}")]
    if not lists:
        return rows
    return [[sorted(v, key=str) if i in lists and v is not None else v for i, v in enumerate(row)] for row in rows]


def check_changes(path: Path, read: dict[str, Any]) -> None:
    """One entry of `reads` that asks for changes: each row begins with its kind."""
    table = ll.open_table(str(path))
    start, end = read["at"]["incremental"]
    found = table.changes(start, end, columns=read["columns"], overwrites=False).read_all()
    kind, fields = Field(0, "_row_kind", string()), fields_of(table.schema, read["columns"])
    rows = encode_rows(found, [kind, *fields])
    assert_same_rows(rows, read["rows"], f"{path}: changes {start} to {end}")
    if isinstance(start, int):
        assert all(start < i <= end for i in found["_snapshot_id"].to_pylist())


def check_every_change(path: Path, expected: dict[str, Any]) -> None:
    """The changes of each snapshot, from the oldest one whose changes are there, as a streaming reader of Java sees them."""
    table = ll.open_table(str(path))
    first = min([*table.timeline.changelog_ids(), *table.timeline.snapshot_ids()])
    found = table.changes(first - 1, overwrites=False).read_all()
    fields = [Field(0, "_row_kind", string()), *table.schema.fields]
    ids = found["_snapshot_id"]
    assert set(ids.to_pylist()) == {told["snapshot"] for told in expected["changelog"] if told["rows"]}
    for told in expected["changelog"]:
        rows = encode_rows(found.filter(pc.equal(ids, told["snapshot"])), fields)
        assert_same_rows(rows, told["rows"], f"{path}: changes of snapshot {told['snapshot']}")


@dataclass
class Outcome:
    """What became of one table's reads."""

    right: int = 0
    changes: int = 0
    audited: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if self.problems:
            return "wrong"
        if self.refused:
            return "partly" if self.right else "refused"
        return "read"


def outcome_of(path: Path, expected: dict[str, Any]) -> Outcome:
    outcome = Outcome()
    for read in expected["reads"]:
        try:
            if "incremental" in read["at"]:
                check_changes(path, read)
                outcome.changes += 1
            else:
                check_read(path, read)
            outcome.right += 1
        except Unsupported as error:
            words = {word for word in REFUSALS if word in error.message}
            if not words or not expected["primary_keys"]:
                outcome.problems.append(f"{read['at']}: refused for no reason: {error}")
            outcome.refused.update(REFUSALS[word] for word in words)
        except (LakelatchError, AssertionError) as error:
            outcome.problems.append(str(error))
    if "changelog" in expected:
        try:
            check_every_change(path, expected)
            outcome.audited = 1
        except (LakelatchError, AssertionError) as error:
            outcome.problems.append(str(error))
    return outcome


# ------------------------------------------------------------------------------------------------------------- tables


def folders() -> dict[str, Path]:
    """Every golden table of the whole set by its id, the samples of another project too; empty without the set."""
    root = golden_root()
    if root is None:
        return {}
    entries = json.loads((root / "index.json").read_text())
    found = {f"{e['set']}/{e['name']}": root / e["set"] / e["name"] for e in entries}
    samples = root.glob("paimon-cpp-samples/*/*/expected.json")
    return found | {str(p.parent.relative_to(root)): p.parent for p in sorted(samples)}


FOLDERS = folders()
WHOLE = [table_id for table_id in FOLDERS if not table_id.startswith("bad/")]
BAD = [table_id for table_id in FOLDERS if table_id.startswith("bad/")]


def load(folder: Path) -> tuple[Path, dict[str, Any]]:
    expected = json.loads((folder / "expected.json").read_text())
    return folder / expected.get("table_dir", "table"), expected


@cache
def whole_outcome(table_id: str) -> Outcome:
    return outcome_of(*load(FOLDERS[table_id]))


PACKED = [table_id for table_id in packed() if not table_id.startswith("bad/")]


@pytest.mark.parametrize("table_id", [t for n, t in enumerate(PACKED) if NIGHTLY or t not in FOLDERS or n % 5 == 0])
def test_packed_table(table_id: str, tmp_path: Path) -> None:
    """G8: the rows of Apache Paimon, of the tables that travel with the code. By day a few where the whole set is there."""
    table = unpack(table_id, tmp_path)
    outcome = outcome_of(table.path, table.expected)
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.right or outcome.refused


@pytest.mark.parametrize("name", ["pk_file_index", "pk_partial_aggregates", "pk_dedup_orc"])
def test_no_filter_brings_back_an_old_version(name: str, tmp_path: Path) -> None:
    """G8: a filter on merged rows finds the rows of an unfiltered read, for the values of all times."""
    path = unpack(f"paimon-java-1.4.2/{name}", tmp_path).path
    timeline = Timeline(LocalStore(str(path)), TablePaths())
    views = [View.of(path, {"snapshot": i}) for i in timeline.snapshot_ids()][-3:]
    whole = [view.table(view.plan(None), None) for view in views]
    for field_ in views[-1].schema.fields:
        if not pa.types.is_integer(whole[-1][field_.name].type) and not pa.types.is_string(whole[-1][field_.name].type):
            continue
        values = sorted({v for rows in whole for v in rows[field_.name].to_pylist() if v is not None})
        for value in values[:: max(1, len(values) // 5)]:
            for view, rows in zip(views, whole, strict=True):
                where = golden_predicate(["=", field_.name, value], {f.name: f.type for f in view.schema.fields})
                found = view.table(view.plan(where), None).num_rows
                assert found == rows[field_.name].to_pylist().count(value), (field_.name, value)


def test_each_column_can_be_read_alone(tmp_path: Path) -> None:
    """G8: a column of BLOBs is in files of its own, which do not say which rows there are."""
    table = unpack("paimon-java-1.4.2/append_blob", tmp_path)
    found = ll.open_table(str(table.path))
    latest = next(read for read in table.expected["reads"] if read["at"] == {"latest": True} and "filter" not in read)
    for position, field_ in enumerate(found.schema.fields):
        rows = [[row[position]] for row in latest["rows"]]
        nulls = sum(row == [None] for row in rows)
        assert_same_rows(encode_rows(found.to_arrow(columns=[field_.name]), [field_]), rows, field_.name)
        assert found.count(f"{field_.name} is null") == nulls
        assert found.count(f"{field_.name} is not null") == len(rows) - nulls
        assert found.to_arrow(columns=[field_.name], limit=1).num_rows == 1


if FOLDERS:

    @pytest.mark.parametrize("table_id", WHOLE)
    def test_table(table_id: str) -> None:
        """G8: the rows of Apache Paimon, or a refusal that names the feature."""
        outcome = whole_outcome(table_id)
        assert not outcome.problems, "\n".join(outcome.problems)

    def test_how_many_are_read() -> None:
        """G8: reports how many tables can be read. The number may only grow."""
        outcomes = {table_id: whole_outcome(table_id) for table_id in WHOLE}
        verdicts = Counter(o.verdict for o in outcomes.values())
        why = Counter(reason for o in outcomes.values() for reason in o.refused)
        right, changes = sum(o.right for o in outcomes.values()), sum(o.changes for o in outcomes.values())
        tell(f"golden tables: {len(FOLDERS)}, of them {len(BAD)} damaged on purpose; of the other {len(WHOLE)}:")
        tell(f"  every read is right: {verdicts['read']}; some are, the others refused: {verdicts['partly']}")
        tell(f"  refused as a whole: {verdicts['refused']}; reads right: {right}")
        tell("  tables with refusals: " + ", ".join(f"{count} for {reason}" for reason, count in why.most_common()))
        audited = sum(o.audited for o in outcomes.values())
        tell(f"  reads of changes that are right: {changes}; tables whose every change is right: {audited}")
        assert verdicts["read"] >= LEAST_WHOLE_TABLES
        assert (changes, audited) == (CHANGE_READS, AUDITED_TABLES)


# ------------------------------------------------------------------------------------------------------- damaged ones


def damaged_read(path: Path, at: dict[str, Any]) -> pa.Table:
    view = View.of(path, at)
    return view.table(view.plan(None), None)


def check_damaged(path: Path, expected: dict[str, Any]) -> None:
    """Damage is reported once, by name, and only to reads that need the damaged file."""
    by_snapshot = {read["at"].get("snapshot"): read for read in expected.get("reads", ())}
    for behaviour in expected["java_behaviour"]:
        at = behaviour["at"]
        snapshot = at.get("snapshot")
        if snapshot in expected.get("still_readable_snapshots", ()):
            check_read(path, by_snapshot[snapshot])
        elif "snapshot" in at:
            with pytest.raises((TableCorrupt, Unsupported)) as caught:
                damaged_read(path, at)
            assert expected["error_mentions"] in str(caught.value)
            assert str(caught.value).count(expected["error_mentions"]) == 1


@pytest.mark.parametrize("table_id", [t for t in packed() if t.startswith("bad/")])
def test_packed_damaged_table(table_id: str, tmp_path: Path) -> None:
    """H11, H16: as `test_damaged_table`, of the tables that travel with the code."""
    table = unpack(table_id, tmp_path)
    check_damaged(table.path, table.expected)


if FOLDERS:

    @pytest.mark.parametrize("table_id", BAD)
    def test_damaged_table(table_id: str) -> None:
        """H11, H16: one error that names the file; the snapshots that do not use it still read."""
        path, expected = load(FOLDERS[table_id])
        check_damaged(path, expected)


@pytest.mark.parametrize("name", ["../snapshot/snapshot-1", "x/../../snapshot/snapshot-1", "..", "a/b", ""])
def test_hostile_names(name: str, tmp_path: Path) -> None:
    """H16: a tag or branch name with path parts is refused before any file is looked for."""
    with pytest.raises(InvalidArgument):
        snapshot_at(Timeline(LocalStore(str(tmp_path)), TablePaths()), tag=name)
    with pytest.raises(InvalidArgument):
        Timeline(LocalStore(str(tmp_path)), TablePaths(name)).latest()
