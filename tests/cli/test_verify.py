"""`verify` has no findings for a sound table, and for every planted damage one that names the damaged file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import DAMAGES, Damage
from planted import Planted

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.table.verify.finding import Finding
from lakelatch.table.verify.whole import verify_store


def findings(table: ll.Table, **how: Any) -> list[Finding]:
    return verify_store(LocalStore(table.url), **how)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_damage_is_found(damage: Damage, run: Any, flights: ll.Table) -> None:
    """Damage is reported with the name of the file, without a traceback, and with exit code 1."""
    named = damage(Planted(flights))
    found = findings(flights, snapshots="all")
    assert any(named in f.file and f.severity == "error" for f in found), found
    answer = run("verify", flights.url, "--all", "--json")
    assert (answer.code, answer.json["ok"], answer.json["errors"] > 0) == (1, False, True)
    assert list(answer.json) == ["url", "ok", "errors", "warnings", "findings"]
    assert all(list(f) == ["severity", "file", "field", "message"] for f in answer.json["findings"])
    assert named in run("verify", flights.url, "--all").out


def test_a_sound_table(run: Any, flights: ll.Table) -> None:
    """A sound table has no findings, whichever snapshots are checked, with data files or without."""
    for words in ((), ("--all",), ("--snapshot", 1), ("--all", "--data"), ("--all", "--deep")):
        answer = run("verify", flights.url, *words, "--json")
        assert (answer.code, answer.json["findings"]) == (0, [])
    assert flights.verify("all", data=True) == []
    assert "no problems found" in run("verify", flights.url).err


@pytest.mark.parametrize("snapshots", [None, "all"])
def test_a_table_without_snapshots(tmp_path: Path, snapshots: Any) -> None:
    """A table with a schema and no snapshot is sound."""
    assert ll.create_table(str(tmp_path / "t"), pa.schema({"v": pa.int64()})).verify(snapshots) == []


def test_a_missing_table_or_snapshot(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """A missing table is a usage error; a missing snapshot is a finding."""
    assert run("verify", tmp_path / "none").code == 2
    assert run("verify", flights.url, "--snapshot", 9).code == 1


def test_harmless_hints(run: Any, flights: ll.Table) -> None:
    """H7: a low or missing hint has no finding; an unreadable hint is a warning, not an error."""
    latest = Path(flights.url) / "snapshot" / "LATEST"
    for text, warnings in (("1", 0), ("abc", 1)):
        latest.write_text(text)
        answer = run("verify", flights.url, "--json").json
        assert (answer["ok"], answer["warnings"]) == (True, warnings)
    latest.unlink()
    assert findings(flights) == []


def test_many_files_are_listed(tmp_path: Path) -> None:
    """Many files are checked by listing their folder, not by one request per file, and a missing file is still found."""
    from lakelatch.backends.around.metered import MeteredStore

    table = ll.create_table(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    for number in range(20):
        table.append(pa.table({"a": [number]}))
    metered = MeteredStore(LocalStore(table.url))
    assert verify_store(metered) == []
    assert metered.snapshot().by_operation.get("head", 0) == 1, "of the next snapshot, which may have come meanwhile"
    lost = sorted((tmp_path / "t" / "bucket-0").iterdir())[7]
    lost.unlink()
    assert [f.file for f in verify_store(metered)] == [f"bucket-0/{lost.name}"]


def test_lineage_through_manifest_compaction(tmp_path: Path) -> None:
    """G6: after a manifest compaction, the files before and after it are compared, and are the same."""
    schema = pa.schema([("a", pa.int64())])
    options = {"manifest.merge-min-count": "3", "manifest.full-compaction-threshold-size": "4 kb"}
    table = ll.create_table(str(tmp_path / "t"), schema, options=options)
    for number in range(9):
        table.append(pa.table({"a": [number]}))
    assert len(table.timeline.manifests(table.snapshot())) < 9
    assert findings(table, snapshots="all") == []


def test_footers(run: Any, flights: ll.Table) -> None:
    """Row counts and statistics that contradict the files are found with `--data` only."""
    planted = Planted(flights)
    entries = planted.entries(1)
    path = next(iter(planted.root.glob(f"*/bucket-0/{entries[0].file.file_name}")))
    # Replace the rows with the same number of other rows, and record the new file size in the manifest.
    table = pq.read_table(path)
    other = table.set_column(0, "carrier", pa.array(["ZZ"] * table.num_rows))
    pq.write_table(other.cast(table.schema), path)
    key = planted.put_entries(1, [_of_size(entries[0], path), *entries[1:]])
    assert findings(flights, snapshots=[1]) == []
    found = findings(flights, snapshots=[1], data=True)
    assert [(f.field, "carrier" in f.message) for f in found] == [("_VALUE_STATS", True)], (key, found)
    pq.write_table(pa.concat_tables([table, table]), path)
    planted.put_entries(1, [_of_size(entries[0], path), *entries[1:]])
    answer = run("verify", flights.url, "--snapshot", 1, "--data", "--json")
    assert (answer.code, {f["field"] for f in answer.json["findings"]} >= {"_ROW_COUNT"}) == (1, True)


def _of_size(entry: ManifestEntry, path: Path) -> ManifestEntry:
    return entry._replace(file=entry.file._replace(file_size=path.stat().st_size))


BROKEN = golden_tables.packed(set_name="bad")
NOT_IN_METADATA = ("bad/data_page_damaged", "bad/tag_name_traversal")
"""Damage inside a page, which is found only by reading the rows, and a table without damage."""


@pytest.mark.parametrize("name", sorted(set(golden_tables.packed()) - set(BROKEN)))
def test_tables_of_apache_paimon(name: str, golden: Callable[[str], golden_tables.GoldenTable]) -> None:
    """Tables written by Apache Paimon have no error in any snapshot, tag, manifest or footer."""
    store = LocalStore(str(golden(name).path))
    assert [f for f in verify_store(store, snapshots="all", data=True) if f.severity == "error"] == []


@pytest.mark.parametrize("name", sorted(set(BROKEN) - set(NOT_IN_METADATA)))
def test_broken_tables(name: str, golden: Callable[[str], golden_tables.GoldenTable], run: Any) -> None:
    """In a table of Apache Paimon with one defect, the finding names the defect."""
    table = golden(name)
    mentions = table.expected["error_mentions"]
    answer = run("verify", table.path, "--all", "--data")
    assert answer.code == 1
    for mention in [mentions] if isinstance(mentions, str) else mentions:
        assert mention in answer.out
