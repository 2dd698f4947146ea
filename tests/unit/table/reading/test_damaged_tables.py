"""A damaged table, read: an error that names the file, rows where the damage does not reach, and nothing is changed (H11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from damage import DAMAGES, Damage, flights_table
from planted import Planted

import lakelatch as ll
from lakelatch.core.errors import LakelatchError

WRONG_ONLY_IN_SUM = {
    *(
        "total_count",
        "delta_count",
        "size_of_list",
        "counts_of_manifest",
        "buckets_of_manifest",
        "partitions_of_manifest",
    ),
    *("missing_statistics", "high_hint", "gap", "adds_twice", "missing_index_file"),
}
"""Damage that no single read can see; `verify` does, and is tested with the same list."""
TOLD_BY_WHAT_IT_NAMES = {
    "lost_files": "data file data-",
    "deletes_what_never_was": "data-ghost-0.parquet",
    "climbing_file_name": "../../outside.parquet",
    "climbing_manifest_name": "../schema/schema-0",
    "deltaManifestList_is_str": "../../elsewhere",
}
"""Damage for which the reader's error names the file that is missing because of it."""


def rows_at(url: str, snapshot: int) -> list[dict[str, Any]] | LakelatchError:
    """The result for a reader that opens the table now."""
    try:
        found = ll.open_table(url).at(snapshot=snapshot).to_arrow().to_pylist()
    except LakelatchError as error:
        return error
    return sorted(found, key=repr)


def contents(url: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(url).rglob("*") if path.is_file()}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_damage_is_named_and_the_rest_still_reads(damage: Damage, tmp_path: Path) -> None:
    url = flights_table(str(tmp_path / "flights")).url
    before = {snapshot: rows_at(url, snapshot) for snapshot in (1, 2, 3)}
    named = damage(Planted(ll.open_table(url)))
    files = contents(url)
    hurt = 0
    for snapshot, rows in before.items():
        found = rows_at(url, snapshot)
        if isinstance(found, LakelatchError):
            hurt += 1
            told = TOLD_BY_WHAT_IT_NAMES.get(damage.__name__, named.rpartition("/")[2])
            assert told in str(found), f"{told}: {found}"
        elif damage.__name__ not in WRONG_ONLY_IN_SUM:
            assert found == rows, f"snapshot {snapshot}"
    assert hurt or damage.__name__ in WRONG_ONLY_IN_SUM
    assert contents(url) == files


def test_there_are_many_kinds() -> None:
    assert len({damage.__name__ for damage in DAMAGES}) == len(DAMAGES) >= 30
