"""System tables of the golden tables tell what Apache Paimon (Java) found in them: each expectation, column by column.

The goldens have no system tables of their own; what they say of a table is what these tables must show. The columns of which they
say nothing are compared with Java's own system tables in `tests/interop/test_java_system_tables.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from figures import NIGHTLY
from golden.test_golden import FOLDERS, PACKED, WHOLE, load
from golden_tables import unpack
from values import assert_same_rows, encode_rows

import lakelatch as ll
from lakelatch.core import options as opt
from lakelatch.core.metadata.schemas.merge_rules import POSTPONED
from lakelatch.core.rows.types import Field, parse_type, string
from lakelatch.table.system.read import SYSTEM_TABLES

pytestmark = pytest.mark.given
ALWAYS = (
    "append_row_tracking append_dv life_branches life_changelog_decoupled life_consumers life_statistics life_tags"
    " pk_changelog_input pk_changelog_lookup_partitioned_agg pk_dv pk_partitioned"
).split()
DEFAULTS = {1: {"bucket": "1", "file.format": "orc"}, 2: {"file.format": "orc"}}
"""What a schema of an old version means where it says nothing; Apache Paimon shows it among the options."""
TABLES = WHOLE or PACKED
CHOSEN = [t for n, t in enumerate(TABLES) if NIGHTLY or n % 40 == 0 or t.rpartition("1.4.2/")[2] in ALWAYS]


@pytest.mark.parametrize("table_id", CHOSEN)
def test_a_golden_table_shows_what_java_found(table_id: str, tmp_path: Path) -> None:
    """G8: columns, options, ids, names, consumers, statistics, files, changes and rows; by day of every fortieth table."""
    path, expected = load(FOLDERS[table_id]) if FOLDERS else load(unpack(table_id, tmp_path).path.parent)
    table = ll.open_table(str(path))
    _check_settings(table, expected)
    _check_names(table, expected)
    _check_files(table, expected)
    _check_rows(table, expected)


def _rows(table: ll.Table, name: str, *columns: str, **given: Any) -> list[list[Any]]:
    fields = {f.name: f for f in SYSTEM_TABLES[name].fields(table.schema)}
    wanted = [fields[column] for column in columns or fields]
    return encode_rows(table.system(name, [f.name for f in wanted], **given), wanted)


def _check_settings(table: ll.Table, expected: dict[str, Any]) -> None:
    columns = table.system("aggregation_fields", ["field_name", "field_type"]).to_pylist()
    assert [list(row.values()) for row in columns] == expected["columns"]
    options = {**DEFAULTS.get(table.schema.version, {}), **expected["options"]}
    assert dict(_rows(table, "options", "key", "value")) == options
    newest = max(table.system("schemas").to_pylist(), key=lambda row: row["schema_id"])
    named = [(field["name"], parse_type(field["type"], field["name"])) for field in json.loads(newest["fields"])]
    assert named == [(field.name, field.type) for field in table.schema.fields]
    assert json.loads(newest["options"]) == options
    assert json.loads(newest["partition_keys"]) == expected["partition_keys"]
    assert json.loads(newest["primary_keys"]) == expected["primary_keys"]
    assert dict(_rows(table, "consumers")) == expected.get("consumers", {})
    told = expected.get("statistics")
    plain = ("snapshot_id", "schema_id", "mergedRecordCount", "mergedRecordSize", "colstat")
    found = [[*row[:4], json.loads(row[4])] for row in _rows(table, "statistics", *plain)]
    keys = ("snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize", "colStats")
    assert found == ([] if told is None else [[told[key] for key in keys]])


def _check_names(table: ll.Table, expected: dict[str, Any]) -> None:
    """The goldens are read at every snapshot, tag and branch."""
    ats = [read["at"] for read in expected["reads"]]
    of_main = [at for at in ats if "branch" not in at]
    if "table_dir" in expected:  # a sample of another project, of which only some states are read
        return
    assert {row[0] for row in _rows(table, "snapshots", "snapshot_id")} == {
        a["snapshot"] for a in of_main if "snapshot" in a
    }
    assert {row[0] for row in _rows(table, "tags", "tag_name")} == {at["tag"] for at in of_main if "tag" in at}
    assert {row[0] for row in _rows(table, "branches", "branch_name")} == {at["branch"] for at in ats if "branch" in at}


def _check_files(table: ll.Table, expected: dict[str, Any]) -> None:
    """The files that Java planned for each snapshot: its name, place, level and rows; and the sums by partition and bucket."""
    options = table.schema.options
    if {"scan.fallback-branch", "scan.primary-branch"} & set(options.texts):  # Java's plan has the files of both
        return
    only_merged = bool(expected["primary_keys"]) and (
        options.get(opt.DELETION_VECTORS) or options.texts.get("merge-engine") == "first-row"
    )
    plans = {
        read["at"]["snapshot"]: read["plan"]["data_files"]
        for read in expected["reads"]
        if set(read["at"]) == {"snapshot"} and "filter" not in read and "data_files" in (read.get("plan") or {})
    }
    for snapshot in list(plans) if NIGHTLY else list(plans)[-1:]:
        then = table.at(snapshot=snapshot)
        found = _rows(then, "files", "file_path", "bucket", "level", "record_count")
        files = [[*_place(table, row[0]), *row[1:]] for row in found if not (only_merged and row[2] == 0)]
        wanted = [[partition, name, bucket, level, rows] for partition, bucket, level, name, rows in plans[snapshot]]
        assert_same_rows(files, wanted, f"{table.url}: files of snapshot {snapshot}")
        if only_merged or table.schema.bucket == POSTPONED:  # a read does not see all files
            continue
        for name, keys in (("partitions", (0,)), ("buckets", (0, 2))):
            sums: dict[Any, list[int]] = {}
            for row in wanted:
                counts = sums.setdefault(tuple(row[key] for key in keys), [0, 0])
                counts[0], counts[1] = counts[0] + row[4], counts[1] + 1
            shown = _rows(then, name, "record_count", "file_count")
            assert sorted(shown) == sorted(sums.values()), f"{table.url}: {name} of snapshot {snapshot}"


def _place(table: ll.Table, file_path: str) -> tuple[str, str]:
    """The folder of the partition, and the name, of a file in the table's folder."""
    inside = file_path.split(f"{Path(table.url).name}/", 1)[1].removeprefix(
        table.schema.options.get(opt.DATA_FILE_DIRECTORY)
    )
    folder, _, name = inside.strip("/").rpartition("/")
    return folder[: folder.rfind("/") + 1], name


def _check_rows(table: ll.Table, expected: dict[str, Any]) -> None:
    kind = Field(0, "rowkind", string())
    reads = [read for read in expected["reads"] if "latest" in read["at"] and not {"filter", "projection"} & set(read)]
    latest = next((read["rows"] for read in reads if read["at"] == {"latest": True}), None)
    if latest is not None and not expected["primary_keys"]:
        assert_same_rows(_rows(table, "ro"), latest, f"{table.url}: ro")
        names = (kind.name, *table.schema.names)
        assert_same_rows(_rows(table, "audit_log", *names), [["+I", *row] for row in latest], f"{table.url}: audit_log")
        wrapped = [["+I", *([value] for value in row)] for row in latest]
        assert_same_rows(_rows(table, "binlog", *names), wrapped, f"{table.url}: binlog")
    for read in reads:
        if "row_tracking" in read["at"]:
            assert_same_rows(_rows(table, "row_tracking"), read["rows"], f"{table.url}: row_tracking")
    if "changelog" in expected:
        names = ("_snapshot_id", kind.name, *table.schema.names)
        wanted = [[told["snapshot"], *row] for told in expected["changelog"] for row in told["rows"]]
        assert_same_rows(_rows(table, "changelog", *names), wanted, f"{table.url}: changelog")
