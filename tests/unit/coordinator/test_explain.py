"""How a snapshot came to be, from the table alone and from a journal: every line, for every kind of writer."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.explain import explain, timeline_of
from lakelatch.coordinator.history.lost import ATTEMPTS_PROPERTY, lost_attempts
from lakelatch.coordinator.history.timeline import BASE_PROPERTY
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, to_property
from lakelatch.coordinator.journal.lines import Entry
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("p", pa.string()), ("v", pa.int64())])


@pytest.fixture
def table() -> Table:
    """Three snapshots: a row, two rows of two partitions under an identity, and one that replaces a partition."""
    made = ll.create_table(f"memory://explain-{next(COUNTER)}/t", SCHEMA, partition_by=["p"])
    made.append(pa.table({"p": ["a"], "v": [1]}))
    made.append(pa.table({"p": ["a", "b"], "v": [2, 3]}), commit_user="etl", identifier=7)
    made.overwrite(pa.table({"p": ["a"], "v": [4]}), partition={"p": "a"})
    made.committer.settle()
    return made


def lines(table: Table, number: int, **changed: Any) -> dict[str, str]:
    """The explanation of a snapshot with some fields changed, as label -> text; the first line under ''."""
    snapshot = table.timeline.find(number)
    assert snapshot is not None
    first, *rest = explain(table.timeline, replace(snapshot, **changed)).splitlines()
    assert all(line.startswith("  ") and line[2] for line in rest)
    return {"": first} | {line[2:12].strip(): line[12:] for line in rest if line[2] != " "}


def properties(table: Table, number: int, **changed: str | None) -> dict[str, str]:
    snapshot = table.timeline.find(number)
    assert snapshot is not None
    kept = {**snapshot.properties, **changed}
    return {name: value for name, value in kept.items() if value is not None}


def test_every_line(table: Table) -> None:
    second = table.timeline.find(2)
    assert second is not None
    said = lines(table, 2, time_ms=1_600_000_000_123)
    moment = datetime.fromtimestamp(1_600_000_000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.123+00:00")
    assert said == {
        "": "snapshot 2  APPEND (WRITE)",
        "made by": f"etl, identifier 7, {second.writer_version}",
        "at": f"{moment}, schema 0",
        "identity": second.identity,
        "base": "snapshot 1",
        "attempts": "1",
        "changes": "2 files added, 0 deleted in 2 partitions",
        "rows": "+2, 3 in all",
    }


def test_an_overwrite_is_explained(table: Table) -> None:
    said = lines(table, 3)
    assert said["changes"] == "1 files added, 2 deleted"
    assert said["rows"] == "-1, 2 in all"
    snapshot = table.timeline.find(3)
    assert snapshot is not None
    assert said[""] == f"snapshot 3  OVERWRITE ({snapshot.operation})"
    assert lines(table, 3, operation=None)[""] == "snapshot 3  OVERWRITE"
    assert said["made by"] == f"{snapshot.commit_user}, {snapshot.writer_version}"
    assert lines(table, 3, writer_version=None)["made by"] == f"{snapshot.commit_user}, unknown writer"


def test_the_base_of_a_snapshot_is_explained(table: Table) -> None:
    assert lines(table, 1)["base"] == "none, the first"
    without = properties(table, 2, **{BASE_PROPERTY: None})
    assert lines(table, 2, properties=without)["base"] == "not recorded by its writer"
    assert lines(table, 1, properties={})["base"] == "none, the first"
    none = properties(table, 2, **{BASE_PROPERTY: "0:"})
    assert lines(table, 2, properties=none)["base"] == "none, the first"
    gone = properties(table, 3, **{BASE_PROPERTY: "9:somebody"})
    assert lines(table, 3, properties=gone)["base"] == "snapshot 9, since expired"
    replaced = properties(table, 3, **{BASE_PROPERTY: "2:somebody"})
    assert lines(table, 3, properties=replaced)["base"] == "snapshot 2, REPLACED since by another"


def test_lost_attempts_are_counted_and_named(table: Table) -> None:
    lost = [{"id": 1, "to": "one", "by": "her"}, {"id": 2, "to": "two", "by": "him"}]
    told = explain(table.timeline, with_lost(table, lost)).splitlines()
    start = next(place for place, line in enumerate(told) if "attempts" in line)
    assert told[start : start + 3] == [
        "  attempts  3",
        "            1: wanted 1, lost it to her (one)",
        "            2: wanted 2, lost it to him (two)",
    ]
    without = properties(table, 3, **{BASE_PROPERTY: None})
    assert "attempts" not in lines(table, 3, properties=without), "another writer does not say how often it tried"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, True),
        ({"commit.group": "auto"}, False),
        ({"bucket": "2", "bucket-key": "v"}, True),
        ({"row-tracking.enabled": "true"}, False),
    ],
    ids=["off", "auto", "buckets", "row ids"],
)
def test_an_append_that_lost_races_alone_could_have_ridden(options: dict[str, str], told: bool) -> None:
    made = ll.create_table(f"memory://alone-{'-'.join(options)}/t", pa.schema([("v", pa.int64())]), options=options)
    for value in range(3):
        made.append(pa.table({"v": [value]}))
    snapshot = with_lost(made, [{"id": 2, "to": "one", "by": "her"}])
    line = "  alone     with 'commit.group' = 'auto', a later winner could have carried it"
    assert (line in explain(made.timeline, snapshot).splitlines()) == told
    carried = replace(snapshot, properties={**(snapshot.properties or {}), CARRIES_PROPERTY: '[["me",null,"c",1]]'})
    assert line not in explain(made.timeline, carried)
    assert line not in explain(made.timeline, replace(snapshot, commit_kind="OVERWRITE"))
    assert line not in explain(made.timeline, replace(snapshot, operation="MERGE")), (
        "its rows were computed from others"
    )
    assert line not in explain(made.timeline, made.timeline.snapshot(3)), "it lost none"


def with_lost(table: Table, lost: list[dict[str, Any]]) -> Snapshot:
    snapshot = table.timeline.find(3)
    assert snapshot is not None
    return replace(snapshot, properties=properties(table, 3, **{ATTEMPTS_PROPERTY: json.dumps(lost)}))


@pytest.mark.parametrize(
    ("riders", "shown", "rest"),
    [(1, 1, []), (20, 20, []), (21, 20, ["            and 1 more"]), (25, 20, ["            and 5 more"])],
)
def test_the_commits_that_a_snapshot_carries_are_named_up_to_twenty(
    table: Table, riders: int, shown: int, rest: list[str]
) -> None:
    carried = [Carried("leader", None, "c0", 5)]
    carried += [Carried(f"job-{n}", n if n % 2 else None, f"c{n}", 10 * n) for n in range(1, riders + 1)]
    snapshot = table.timeline.find(3)
    assert snapshot is not None
    with_riders = replace(snapshot, properties=properties(table, 3, **{CARRIES_PROPERTY: to_property(carried)}))
    told = explain(table.timeline, with_riders).splitlines()
    start = told.index(f"  carries   {riders} other commits")
    names = [f"job-{n}/{n}" if n % 2 else f"job-{n}" for n in range(1, shown + 1)]
    expected = [f"            {name}: {10 * n} rows" for n, name in enumerate(names, 1)] + rest
    assert told[start + 1 : start + 1 + len(expected)] == expected
    assert told[start + 1 + len(expected)].startswith("  changes ")
    assert told[start - 1] == "  attempts  1"


def test_a_snapshot_that_carries_nobody_says_nothing_of_it(table: Table) -> None:
    alone = properties(table, 3, **{CARRIES_PROPERTY: to_property([Carried("leader", 1, "c0", 5)])})
    for kept in (alone, properties(table, 3)):
        assert "carries" not in lines(table, 3, properties=kept)


def test_unreadable_changes_are_reported_on_their_line(table: Table) -> None:
    said = lines(table, 3, delta_manifest_list="manifest-list-gone")
    assert said["changes"].startswith("cannot be read: manifest/manifest-list-gone is missing")
    assert said["rows"] == "-1, 2 in all"


def test_a_journal_is_printed_in_milliseconds_since_its_first_event() -> None:
    events = [
        (1_000, ev.CommitRequested("etl", None, "APPEND", True)),
        (1_005, ev.ManifestsCompacted("none", ())),
        (2_500, ev.FoundAnother(SnapshotRef(3, "x"), "her")),
        (3_000, ev.BaseAged()),
    ]
    told = timeline_of(Entry("c", "t", at_ms, event) for at_ms, event in events)
    assert told.splitlines() == [
        "      0 ms  CommitRequested      user=etl, kind=APPEND, has_data=True",
        "      5 ms  ManifestsCompacted   mode=none",
        f"   1500 ms  FoundAnother         winner={SnapshotRef(3, 'x')}, user=her",
        "   2000 ms  BaseAged",
    ]
    assert timeline_of([]) == ""


@pytest.mark.parametrize("lost", ["{", "7", "[7]", "[{}]", '[{"id": 1, "to": "one"}]', "null"])
def test_a_garbled_record_of_lost_attempts_is_reported_with_its_property(table: Table, lost: str) -> None:
    snapshot = table.timeline.find(3)
    assert snapshot is not None
    garbled = replace(snapshot, properties=properties(table, 3, **{ATTEMPTS_PROPERTY: lost}))
    with pytest.raises(TableCorrupt, match=f"snapshot-3: property '{ATTEMPTS_PROPERTY}' is garbled"):
        lost_attempts(garbled)


def test_a_snapshot_of_a_far_time_is_explained(tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("v", pa.int64())]))
    table.append(pa.table({"v": [1]}))
    table.committer.settle()
    path = tmp_path / "t" / "snapshot" / "snapshot-1"
    told = json.loads(path.read_text())
    for far in (300_000_000_000_000, -(1 << 62), (1 << 63) - 1, 1 << 80, -(1 << 70)):
        path.write_text(json.dumps({**told, "timeMillis": far}))
        assert f"at        {far} ms, schema 0" in str(ll.open_table(table.url).explain(1))
