"""Options that ask a commit for more than a snapshot: if readers would be misled, writing is refused; others are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
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
]
TOLD = [
    ("commit.callbacks", "com.example.Tell"),
    ("query-auth.enabled", "true"),
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


def first_files(table: ll.Table) -> set[str]:
    return {f"bucket-0/{entry.file.file_name}" for entry in table.entries()}


def test_a_rollback_of_a_table_that_a_commit_would_leave_wrong_is_refused(tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "t"), SCHEMA)
    table.append(ROWS)
    table.append(ROWS)
    table.alter(ll.set_option("metadata.iceberg.storage", "table-location"))
    with pytest.raises(ll.Unsupported, match="Iceberg metadata"):
        ll.open_table(table.url).rollback(snapshot=1)


def test_the_option_may_be_removed_and_the_table_is_written_again(tmp_path: Path) -> None:
    table = made(tmp_path, **{"metadata.iceberg.storage": "table-location"})
    table.alter(ll.remove_option("metadata.iceberg.storage"))
    table.append(ROWS)
    assert table.count() == 2


@pytest.mark.parametrize(("option", "value"), [*TOLD, ("metadata.iceberg.storage", "disabled"), ("type", "TABLE")])
def test_an_option_that_leaves_rows_and_metadata_correct_is_not_refused(
    tmp_path: Path, option: str, value: str
) -> None:
    table = made(tmp_path, **{option: value})
    assert table.append(ROWS).snapshot_id == 2


@pytest.mark.parametrize(("option", "value"), [*REFUSED, *TOLD])
def test_doctor_reports_each_option_that_is_not_followed(tmp_path: Path, option: str, value: str) -> None:
    told = [
        check for check in examine(made(tmp_path, **{option: value}).store, {}, writers=1) if check.check == "options"
    ]
    assert [check.status for check in told] == ["fail" if (option, value) in REFUSED else "warn"]
    assert f"'{option}' = '{value}'" in told[0].detail


def test_doctor_says_nothing_of_options_where_there_is_nothing_to_say(tmp_path: Path) -> None:
    checks = examine(ll.create_table(str(tmp_path / "t"), SCHEMA).store, {}, writers=1)
    assert "options" not in [check.check for check in checks]


def test_the_page_lists_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs/maintenance.md").read_text()
    for effect in SIDE_EFFECTS:
        assert f"| `{effect.option}` | {'refused' if effect.refused else 'written'} |" in page
    assert left_undone({}) == []
