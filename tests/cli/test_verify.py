"""`verify`: a sound table has no findings, and every planted damage has one that names its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.data_file import DELETE, DeletionVectorRange, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.manifest import (
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from lakelatch.core.snapshot import Snapshot, parse_snapshot
from lakelatch.table.finding import Finding
from lakelatch.table.verify import verify_store

Damage = Callable[["Planted"], str]
"""Breaks a table; answers a part of the file's key that a finding must name."""


class Planted:
    """A table's files, to be broken."""

    def __init__(self, table: ll.Table) -> None:
        self.root = Path(table.url)

    def path(self, key: str) -> Path:
        return self.root / key

    def snapshot(self, number: int) -> Snapshot:
        key = f"snapshot/snapshot-{number}"
        return parse_snapshot(self.path(key).read_bytes(), key)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        self.path(f"snapshot/snapshot-{snapshot.id}").write_bytes(snapshot.to_json())

    def delta(self, number: int) -> list[ManifestFile]:
        name = self.snapshot(number).delta_manifest_list
        return decode_manifest_list(self.path(f"manifest/{name}").read_bytes(), name)

    def entries(self, number: int) -> list[ManifestEntry]:
        name = self.delta(number)[0].file_name
        return decode_manifest(self.path(f"manifest/{name}").read_bytes(), name)

    def put_delta(self, number: int, manifests: list[ManifestFile]) -> None:
        """Replace the delta list, and its size in the snapshot."""
        snapshot, data = self.snapshot(number), encode_manifest_list(manifests)
        self.path(f"manifest/{snapshot.delta_manifest_list}").write_bytes(data)
        self.put_snapshot(replace(snapshot, delta_manifest_list_size=len(data)))

    def put_entries(self, number: int, entries: list[ManifestEntry]) -> str:
        """Replace the delta's manifest, and its size in the list; the manifest's key."""
        manifest, data = self.delta(number)[0], encode_manifest(entries)
        self.path(f"manifest/{manifest.file_name}").write_bytes(data)
        self.put_delta(number, [replace(manifest, file_size=len(data))])
        return f"manifest/{manifest.file_name}"


# --------------------------------------------------------------------------------------------------- what can be wrong


def cut_manifest(table: Planted) -> str:
    key = f"manifest/{table.delta(3)[0].file_name}"
    table.path(key).write_bytes(table.path(key).read_bytes()[:-40])
    return key


def missing_manifest(table: Planted) -> str:
    key = f"manifest/{table.delta(2)[0].file_name}"
    table.path(key).unlink()
    return key


def cut_list(table: Planted) -> str:
    key = f"manifest/{table.snapshot(3).base_manifest_list}"
    table.path(key).write_bytes(table.path(key).read_bytes()[:300])
    return key


def missing_data_file(table: Planted) -> str:
    path = next(iter(sorted(table.root.glob("month=1/bucket-0/*.parquet"))))
    path.unlink()
    return path.name


def cut_data_file(table: Planted) -> str:
    path = next(iter(sorted(table.root.glob("month=1/bucket-0/*.parquet"))))
    path.write_bytes(path.read_bytes()[:-9])
    return path.name


def missing_schema(table: Planted) -> str:
    table.path("schema/schema-0").unlink()
    return "schema/schema-0"


def garbage_schema(table: Planted) -> str:
    table.path("schema/schema-0").write_text("{")
    return "schema/schema-0"


def schema_version(table: Planted) -> str:
    path = table.path("schema/schema-0")
    path.write_text(path.read_text().replace('"version": 3', '"version": 99'))
    return "schema/schema-0"


def empty_snapshot(table: Planted) -> str:
    table.path("snapshot/snapshot-3").write_bytes(b"")
    return "snapshot/snapshot-3"


def snapshot_of_another_id(table: Planted) -> str:
    table.path("snapshot/snapshot-2").write_bytes(table.path("snapshot/snapshot-1").read_bytes())
    return "snapshot/snapshot-2"


def gap(table: Planted) -> str:
    table.path("snapshot/snapshot-2").unlink()
    return "snapshot/snapshot-2"


def total_count(table: Planted) -> str:
    table.put_snapshot(replace(table.snapshot(3), total_record_count=50))
    return "snapshot/snapshot-3"


def delta_count(table: Planted) -> str:
    table.put_snapshot(replace(table.snapshot(3), delta_record_count=7))
    return "snapshot/snapshot-3"


def schema_that_is_not_there(table: Planted) -> str:
    table.put_snapshot(replace(table.snapshot(3), schema_id=4))
    return "schema/schema-4"


def size_of_list(table: Planted) -> str:
    snapshot = table.snapshot(3)
    table.put_snapshot(replace(snapshot, delta_manifest_list_size=17))
    return snapshot.delta_manifest_list


def lost_files(table: Planted) -> str:
    """What an overwritten snapshot does: the base list of 3 knows nothing of 2."""
    snapshot, first = table.snapshot(3), table.snapshot(2)
    data = table.path(f"manifest/{first.base_manifest_list}").read_bytes()
    table.path(f"manifest/{snapshot.base_manifest_list}").write_bytes(data)
    table.put_snapshot(replace(snapshot, base_manifest_list_size=len(data)))
    return "snapshot/snapshot-3"


def counts_of_manifest(table: Planted) -> str:
    manifest = table.delta(3)[0]
    table.put_delta(3, [replace(manifest, num_added_files=9)])
    return manifest.file_name


def buckets_of_manifest(table: Planted) -> str:
    manifest = table.delta(3)[0]
    table.put_delta(3, [replace(manifest, min_bucket=5, max_bucket=5)])
    return manifest.file_name


def partitions_of_manifest(table: Planted) -> str:
    """A span that is too narrow makes readers skip live files."""
    manifest, other = table.delta(3)[0], table.delta(1)[0]
    table.put_delta(3, [replace(manifest, partition_stats=other.partition_stats)])
    return manifest.file_name


def deletes_what_never_was(table: Planted) -> str:
    entries = table.entries(3)
    ghost = replace(entries[0], kind=DELETE, file=replace(entries[0].file, file_name="data-ghost-0.parquet"))
    return table.put_entries(3, [*entries, ghost])


def adds_twice(table: Planted) -> str:
    return table.put_entries(3, [*table.entries(3), table.entries(1)[0]])


def climbing_file_name(table: Planted) -> str:
    entries = table.entries(3)
    bad = replace(entries[0], file=replace(entries[0].file, file_name="../../outside.parquet"))
    return table.put_entries(3, [bad, *entries[1:]])


def climbing_manifest_name(table: Planted) -> str:
    table.put_delta(3, [replace(table.delta(3)[0], file_name="../schema/schema-0")])
    return "snapshot/snapshot-3"


def missing_index_file(table: Planted) -> str:
    ranges = (DeletionVectorRange("data-x-0.parquet", 1, 22, 1),)
    file = IndexFile("DELETION_VECTORS", "index-gone-0", 31, 1, ranges)
    table.path("manifest/index-manifest-x-0").write_bytes(
        encode_index_manifest([IndexEntry(0, table.entries(1)[0].partition, 0, file)])
    )
    table.put_snapshot(replace(table.snapshot(3), index_manifest="index-manifest-x-0"))
    return "index/index-gone-0"


def missing_index_manifest(table: Planted) -> str:
    table.put_snapshot(replace(table.snapshot(3), index_manifest="index-manifest-gone-0"))
    return "manifest/index-manifest-gone-0"


def missing_statistics(table: Planted) -> str:
    table.put_snapshot(replace(table.snapshot(3), statistics="stat-gone-0"))
    return "statistics/stat-gone-0"


def high_hint(table: Planted) -> str:
    table.path("snapshot/LATEST").write_text("12")
    return "snapshot/LATEST"


DAMAGES: list[Damage] = [
    cut_manifest, missing_manifest, cut_list, missing_data_file, cut_data_file, missing_schema, garbage_schema,
    schema_version, empty_snapshot, snapshot_of_another_id, gap, total_count, delta_count, schema_that_is_not_there,
    size_of_list, lost_files, counts_of_manifest, buckets_of_manifest, partitions_of_manifest, deletes_what_never_was,
    adds_twice, climbing_file_name, climbing_manifest_name, missing_index_file, missing_index_manifest,
    missing_statistics, high_hint,
]  # fmt: skip


def findings(table: ll.Table, **how: Any) -> list[Finding]:
    return verify_store(LocalStore(table.url), **how)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_damage_is_found(damage: Damage, run: Any, flights: ll.Table) -> None:
    """Whatever is wrong is found, by name, without a traceback, and ends in exit code 1."""
    named = damage(Planted(flights))
    found = findings(flights, snapshots="all")
    assert any(named in f.file and f.severity == "error" for f in found), found
    answer = run("verify", flights.url, "--all", "--json")
    assert (answer.code, answer.json["ok"], answer.json["errors"] > 0) == (1, False, True)
    assert list(answer.json) == ["url", "ok", "errors", "warnings", "findings"]
    assert all(list(f) == ["severity", "file", "field", "message"] for f in answer.json["findings"])
    assert named in run("verify", flights.url, "--all").out


def test_a_sound_table(run: Any, flights: ll.Table) -> None:
    """No findings where nothing is wrong: newest, all, one, with data."""
    for words in ((), ("--all",), ("--snapshot", 1), ("--all", "--data")):
        answer = run("verify", flights.url, *words, "--json")
        assert (answer.code, answer.json["findings"]) == (0, [])
    assert flights.verify("all", data=True) == []
    assert "nothing is wrong" in run("verify", flights.url).err


@pytest.mark.parametrize("snapshots", [None, "all"])
def test_a_table_that_nobody_wrote_to(tmp_path: Path, snapshots: Any) -> None:
    """It has a schema and no snapshot: sound, and nothing to look at."""
    assert ll.create_table(str(tmp_path / "t"), pa.schema({"v": pa.int64()})).verify(snapshots) == []


def test_what_was_never_verified(run: Any, tmp_path: Path, flights: ll.Table) -> None:
    """No table is a usage error; a snapshot that is not there is a finding."""
    assert run("verify", tmp_path / "none").code == 2
    assert run("verify", flights.url, "--snapshot", 9).code == 1


def test_harmless_hints(run: Any, flights: ll.Table) -> None:
    """H7: a low or missing hint changes nothing; garbage is a warning, and no problem."""
    latest = Path(flights.url) / "snapshot" / "LATEST"
    for text, warnings in (("1", 0), ("abc", 1)):
        latest.write_text(text)
        answer = run("verify", flights.url, "--json").json
        assert (answer["ok"], answer["warnings"]) == (True, warnings)
    latest.unlink()
    assert findings(flights) == []


def test_many_files_are_listed(tmp_path: Path) -> None:
    """Files are asked for by folder where there are many: far fewer requests than files, and a missing one is found."""
    from lakelatch.backends.metered import MeteredStore

    table = ll.create_table(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    for number in range(20):
        table.append(pa.table({"a": [number]}))
    metered = MeteredStore(LocalStore(table.url))
    assert verify_store(metered) == []
    assert metered.snapshot().by_operation.get("head", 0) == 0
    lost = sorted((tmp_path / "t" / "bucket-0").iterdir())[7]
    lost.unlink()
    assert [f.file for f in verify_store(metered)] == [f"bucket-0/{lost.name}"]


def test_lineage_through_manifest_compaction(tmp_path: Path) -> None:
    """G6: where manifests were rewritten, the files before and after are compared, and are the same."""
    schema = pa.schema([("a", pa.int64())])
    options = {"manifest.merge-min-count": "3", "manifest.full-compaction-threshold-size": "4 kb"}
    table = ll.create_table(str(tmp_path / "t"), schema, options=options)
    for number in range(9):
        table.append(pa.table({"a": [number]}))
    assert len(table.timeline.manifests(table.snapshot())) < 9
    assert findings(table, snapshots="all") == []


def test_footers(run: Any, flights: ll.Table) -> None:
    """`--data` finds row counts and statistics that the files contradict; without it they pass."""
    planted = Planted(flights)
    entries = planted.entries(1)
    path = next(iter(planted.root.glob(f"*/bucket-0/{entries[0].file.file_name}")))
    # Other rows of the same number, in a file whose new size the manifest is told.
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
    return replace(entry, file=replace(entry.file, file_size=path.stat().st_size))


BROKEN = golden_tables.packed(set_name="bad")
NOT_IN_METADATA = ("bad/data_page_damaged", "bad/tag_name_traversal")
"""Damage inside a page, which only reading finds; and a good table."""


@pytest.mark.parametrize("name", sorted(set(golden_tables.packed()) - set(BROKEN)))
def test_tables_of_apache_paimon(name: str, golden: Callable[[str], golden_tables.GoldenTable]) -> None:
    """What Apache Paimon wrote is sound: no error in any snapshot, tag, manifest or footer."""
    store = LocalStore(str(golden(name).path))
    assert [f for f in verify_store(store, snapshots="all", data=True) if f.severity == "error"] == []


@pytest.mark.parametrize("name", sorted(set(BROKEN) - set(NOT_IN_METADATA)))
def test_broken_tables(name: str, golden: Callable[[str], golden_tables.GoldenTable], run: Any) -> None:
    """A table of Apache Paimon with one thing broken: the very thing is named."""
    table = golden(name)
    mentions = table.expected["error_mentions"]
    answer = run("verify", table.path, "--all", "--data")
    assert answer.code == 1
    for mention in [mentions] if isinstance(mentions, str) else mentions:
        assert mention in answer.out
