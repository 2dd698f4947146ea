"""The maintenance of many tables: a plan first, then every table in turn, whatever happens to one of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, Unsupported
from lakelatch.table.catalog import maintain as upkeep

FIELDS = pa.schema([("v", pa.int64())])


@pytest.fixture
def lake(tmp_path: Path) -> ll.Catalog:
    made = ll.open_catalog(str(tmp_path / "lake"))
    for name in ("air.a", "air.b", "sea.c"):
        made.create_database(name[:3], exist_ok=True)
        table = made.create_table(name, FIELDS)
        for value in range(6):
            table.append(pa.table({"v": [value]}))
        table.committer.settle()
    return made


def files(lake: ll.Catalog) -> dict[str, int]:
    return {name: len(lake[name].entries()) for name in lake}


def test_the_plan_changes_nothing_and_the_run_does_what_it_says(lake: ll.Catalog) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(lake.url).rglob("*")}
    plan = lake.maintain(dry_run=True)
    assert {path: path.stat().st_mtime_ns for path in Path(lake.url).rglob("*")} == before
    assert (str(plan), plan.failed, plan.applied) == ("3 tables, 3 have something to do", (), False)
    seen: list[tuple[int, int, str]] = []
    done = lake.maintain("air", progress=lambda *told: seen.append((*told[:2], told[2].table)), jobs=1)
    assert seen == [(1, 2, "air.a"), (2, 2, "air.b")]
    assert [str(one) for one in done.tables] == [f"air.{n}: compact: 6 files became 1, snapshot 7" for n in "ab"]
    assert done.tables[0].steps[0].name == "compact"
    assert files(lake) == {"air.a": 1, "air.b": 1, "sea.c": 6}
    assert [one.table for one in lake.maintain(tables=["sea.c"]).tables] == ["sea.c"]
    assert str(lake.maintain()) == "3 tables, 0 had something to do"
    with pytest.raises(InvalidArgument, match="not both"):
        lake.maintain("air", tables=["air.a"])


def test_automatic_tags_are_made_where_options_ask_for_them(lake: ll.Catalog) -> None:
    lake["air.a"].alter(ll.set_option("tag.automatic-creation", "batch"), ll.set_option("write-only", "true"))
    done = {one.table: one for one in lake.maintain("air").tables}
    made = [step.told for step in done["air.a"].steps if step.name == "tag"]
    assert made == [f"new tags: {tag.name} of snapshot {tag.snapshot.id}" for tag in lake["air.a"].tags()] != []
    assert all(step.name != "tag" for step in done["air.b"].steps)


def test_a_table_that_fails_does_not_stop_the_others(run_maintain: Any, lake: ll.Catalog) -> None:
    (Path(lake.url) / "air.db/b/schema/schema-0").write_text("{")
    manifest = next((Path(lake.url) / "air.db/a/manifest").glob("manifest-list-*-1"))
    manifest.unlink()
    code, lines = run_maintain(lake.url, "--apply", "--json")
    told = {one["table"]: one for one in lines}
    assert (code, {name: one["failed"] for name, one in told.items()}) == (
        1,
        {"air.a": True, "air.b": True, "sea.c": False},
    )
    assert told["air.b"]["steps"][0]["error"]["code"] == "table-corrupt"
    assert files_of(lake, "sea.c") == 1
    assert run_maintain(lake.url, "sea", "--apply")[0] == 0
    assert run_maintain(lake.url, "sea", "--jobs", "0")[0] == 2


@pytest.mark.parametrize(
    ("error", "failed", "steps"),
    [
        (Unsupported("not this table"), False, 3),
        (StoreUnavailable("no answer"), True, 1),
        (InvalidArgument("an option"), True, 3),
        (ZeroDivisionError("a bug"), True, 3),
    ],
)
def test_what_a_failed_step_means_for_the_rest(
    lake: ll.Catalog, monkeypatch: pytest.MonkeyPatch, error: Exception, failed: bool, steps: int
) -> None:
    """A store that is away ends the table's turn; what a table does not support is skipped."""

    def fails(table: ll.Table, dry_run: bool) -> Any:
        raise error

    chosen = {"compact": fails, "expire": upkeep._STEPS["expire"], "clean": upkeep._STEPS["clean"]}
    monkeypatch.setattr(upkeep, "_STEPS", chosen)
    (one,) = lake.maintain(tables=["air.a"]).tables
    assert (one.failed, len(one.steps), one.steps[0].skipped) == (failed, steps, not failed)


def test_a_table_that_is_dropped_meanwhile_is_skipped(lake: ll.Catalog) -> None:
    lake.drop_table("air.a")
    (one,) = lake.maintain(tables=["air.a"]).tables
    assert (one.failed, one.steps[0].told) == (False, "dropped meanwhile")


def test_every_step_that_the_options_ask_for_is_taken(tmp_path: Path) -> None:
    """Old partitions, consumers and tags go before the snapshots that they held back."""
    lake = ll.open_catalog(str(tmp_path))
    lake.create_database("air")
    options = {
        "partition.expiration-time": "90 d",
        "partition.timestamp-formatter": "yyyy-MM-dd",
        "snapshot.expire.automatic": "false",  # the expiry after the last commit might take the consumer first
        "consumer.expiration-time": "1 ms",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "snapshot.time-retained": "1 ms",
    }
    fields = pa.schema([("dt", pa.string()), ("v", pa.int64())])
    table = lake.create_table("air.a", fields, partition_by=["dt"], options=options)
    for day in ("2020-01-01", "2999-01-01", "2999-01-01"):
        table.append(pa.table({"dt": [day], "v": [1]}))
    table.create_tag("short", snapshot=1, keep="1 ms")
    table.create_tag("kept", snapshot=2)
    table.set_consumer("slow", next_snapshot=1)
    time.sleep(2.5)  # younger snapshots are kept: a running commit may need them
    (plan,) = lake.maintain(dry_run=True).tables
    due = [step.name for step in plan.steps if step.due]
    assert due[:2] == ["expire-partitions", "expire-consumers"] and "tag" in due
    (done,) = lake.maintain().tables
    assert not done.failed, str(done)
    time.sleep(2.5)
    (again,) = lake.maintain().tables
    assert not again.failed and table.consumers() == [] and [tag.name for tag in table.tags()] == ["kept"]
    assert [s.id for s in table.snapshots()] == [4]
    assert table.to_arrow()["dt"].to_pylist() == ["2999-01-01"] * 2
    assert [step.name for step in lake.maintain(dry_run=True).tables[0].steps if step.due] == []


def files_of(lake: ll.Catalog, name: str) -> int:
    return len(lake[name].entries())


@pytest.fixture
def run_maintain(capsys: pytest.CaptureFixture[str]) -> Any:
    from lakelatch.cli.main import main

    def execute(*words: str) -> tuple[int, list[Any]]:
        capsys.readouterr()
        code = main(["maintain", *words])
        out = capsys.readouterr().out
        return code, [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    return execute
