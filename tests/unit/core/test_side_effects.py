"""Options that ask a commit for more than a snapshot: if readers would be misled, writing is refused; others are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.cli.inspect.doctor import examine
from lakelatch.core.side_effects import SIDE_EFFECTS, left_undone

SCHEMA = pa.schema([("v", pa.int64())])
ROWS = pa.table({"v": [1]})
REFUSED = [
    ("metadata.iceberg.storage", "table-location"),
    ("metadata.iceberg.storage", "Hive-Catalog"),
    ("type", "format-table"),
    ("chain-table.enabled", "true"),
    ("commit.strict-mode.last-safe-snapshot", "3"),
    ("delete.force-produce-changelog", "true"),
    ("write.sequence-number-init-mode", "snapshot"),
    ("pk-btree.index.columns", "v"),
    ("fields.v.default-value", "7"),
]
UNREAD = [
    ("scan.fallback-snapshot-branch", "main"),
    ("scan.fallback-delta-branch", "b"),
    ("postpone.merge-on-read", "true"),
    ("scan.mode", "compacted-full"),
]
TOLD = [
    ("commit.callbacks", "com.example.Tell"),
    ("query-auth.enabled", "true"),
    ("parquet.enable.dictionary", "false"),
    ("snapshot.ignore-empty-commit", "false"),
    ("blob-as-descriptor", "true"),
]
NOTHING = [
    ("metadata.iceberg.storage", "disabled"),
    ("type", "TABLE"),
    ("scan.mode", "latest-full"),
    ("read.allow.fullScan", "true"),
    ("orc.timestamp-ltz.writer-zone", "UTC"),  # one of ours
]


def made(tmp_path: Path, **options: str) -> ll.Table:
    """A table with one row, and with options set afterwards as another engine sets them."""
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    table.append(ROWS)
    raw = json.loads(table.schema.to_json())
    raw["id"], raw["options"] = 1, {**raw["options"], **options}
    table.store.put_if_absent("schema/schema-1", json.dumps(raw).encode())
    return ll.open_table(table.url)


@pytest.mark.parametrize(("option", "value"), REFUSED)
def test_a_table_that_a_commit_would_leave_wrong_is_read_but_not_written(
    tmp_path: Path, option: str, value: str
) -> None:
    table = made(tmp_path, **{option: value})
    assert table.to_arrow().num_rows == table.count() == 1
    changes = (
        lambda: table.append(ROWS),
        lambda: table.overwrite(ROWS),
        lambda: table.truncate(),
    )
    for change in changes:
        with pytest.raises(ll.Unsupported, match=f"option '{option}' = '{value}'"):
            change()
    assert [s.id for s in ll.open_table(table.url).snapshots()] == [1]
    assert not [key for key in table.store.list("bucket-0/") if key.key not in first_files(table)]


@pytest.mark.parametrize(("option", "value"), UNREAD)
def test_a_table_of_which_apache_paimon_shows_other_rows_is_not_read(tmp_path: Path, option: str, value: str) -> None:
    table = made(tmp_path, **{option: value})
    for read in (table.to_arrow, table.plan, lambda: table.append(ROWS), lambda: list(table.changes(0, 1))):
        with pytest.raises(ll.Unsupported, match=f"option '{option}' = '{value}'"):
            read()
    table.alter(ll.remove_option(option))
    assert ll.open_table(table.url).count() == 1


@pytest.mark.parametrize(("option", "value"), [*REFUSED, *UNREAD])
def test_no_table_is_given_an_option_with_which_it_could_not_be_written(
    tmp_path: Path, option: str, value: str
) -> None:
    with pytest.raises(ll.Unsupported, match=f"option '{option}' = '{value}' is not supported"):
        ll.create_table(str(tmp_path / "new"), SCHEMA, options={option: value})
    assert not (tmp_path / "new").exists()
    table = ll.create_table(str(tmp_path / "old"), SCHEMA)
    if option != "type":  # no table changes its type
        with pytest.raises(ll.Unsupported, match=f"option '{option}' = '{value}' is not supported"):
            table.alter(ll.set_option(option, value))
    assert table.append(ROWS).snapshot_id == 1


def test_the_plan_of_a_migration_refuses_such_an_option(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    pq.write_table(ROWS, tmp_path / "plain" / "a.parquet")
    options = {"fields.v.default-value": "7"}
    with pytest.raises(ll.Unsupported, match=r"option 'fields\.v\.default-value' = '7' is not supported"):
        ll.migrate(str(tmp_path / "plain"), str(tmp_path / "t"), options=options, files="move", dry_run=True)


def test_a_table_that_has_such_an_option_may_be_changed_otherwise(tmp_path: Path) -> None:
    table = made(tmp_path, **{"fields.v.default-value": "7"})
    table.alter(ll.rename_column("v", "w"), ll.set_option("target-file-size", "1 mb"))
    assert ll.open_table(table.url).options["fields.w.default-value"] == "7"


def first_files(table: ll.Table) -> set[str]:
    return {f"bucket-0/{entry.file.file_name}" for entry in table.entries()}


def test_a_rollback_of_a_table_that_a_commit_would_leave_wrong_is_refused(tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    table.append(ROWS)
    table.append(ROWS)
    raw = json.loads(table.schema.to_json())
    raw["id"], raw["options"] = 1, {**raw["options"], "metadata.iceberg.storage": "table-location"}
    table.store.put_if_absent("schema/schema-1", json.dumps(raw).encode())
    with pytest.raises(ll.Unsupported, match="Iceberg metadata"):
        ll.open_table(table.url).rollback(snapshot=1)


def test_the_option_may_be_removed_and_the_table_is_written_again(tmp_path: Path) -> None:
    table = made(tmp_path, **{"metadata.iceberg.storage": "table-location"})
    table.alter(ll.remove_option("metadata.iceberg.storage"))
    table.append(ROWS)
    assert table.count() == 2


@pytest.mark.parametrize(("option", "value"), [*TOLD, *NOTHING])
def test_an_option_that_leaves_rows_and_metadata_correct_is_not_refused(
    tmp_path: Path, option: str, value: str
) -> None:
    table = made(tmp_path, **{option: value})
    assert table.append(ROWS).snapshot_id == 2


@pytest.mark.parametrize(("option", "value"), [*REFUSED, *UNREAD, *TOLD])
def test_doctor_reports_each_option_that_is_not_followed(tmp_path: Path, option: str, value: str) -> None:
    told = [
        check for check in examine(made(tmp_path, **{option: value}).store, {}, writers=1) if check.check == "options"
    ]
    assert [check.status for check in told] == ["warn" if (option, value) in TOLD else "fail"]
    assert f"'{option}' = '{value}'" in told[0].detail


@pytest.mark.parametrize(("option", "value"), NOTHING)
def test_a_value_that_asks_for_nothing_leaves_nothing_undone(option: str, value: str) -> None:
    assert left_undone({option: value}) == []


def test_doctor_says_nothing_of_options_where_there_is_nothing_to_say(tmp_path: Path) -> None:
    checks = examine(ll.create_table(str(tmp_path / "t"), SCHEMA).store, {}, writers=1)
    assert "options" not in [check.check for check in checks]


def test_the_page_lists_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs/maintenance.md").read_text()
    for effect in SIDE_EFFECTS:
        treated = "neither read nor written" if effect.unread else "not written" if effect.refused else "written"
        assert f"| `{effect.option}` | {treated} | {effect.undone} |" in page
    assert left_undone({}) == []
