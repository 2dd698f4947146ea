"""Tables with one thing broken: every file of the metadata and the data cut, gone, of another shape, or lying.

Owns: the damage, and the name that an error must tell. Must not know: who reads.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from planted import Planted

import lakelatch as ll
from lakelatch.core.metadata.data_file import DELETE, DeletionVectorRange, IndexEntry, IndexFile
from lakelatch.core.metadata.manifest import encode_index_manifest


def flights_table(url: str) -> ll.Table:
    """A partitioned table of three snapshots: two appends, one overwrite of a partition."""
    schema = pa.schema([("carrier", pa.string()), ("delay", pa.decimal128(8, 2)), ("month", pa.int32())])
    table = ll.create_table(url, schema, partition_by=["month"])
    for rows in (
        {"carrier": ["AA", "UA", None], "delay": ["1.50", "-3.00", None], "month": [1, 1, 2]},
        {"carrier": ["DL", "B6"], "delay": ["0.25", "7.00"], "month": [2, 3]},
    ):
        table.append(pa.table({**rows, "delay": pa.array(rows["delay"], pa.string()).cast(pa.decimal128(8, 2))}))
    table.overwrite(pa.table({"carrier": ["WN"], "delay": pa.nulls(1), "month": [3]}), partition={"month": 3})
    table.committer.settle()
    return table


Damage = Callable[[Planted], str]
"""Breaks a table; answers a part of the file's key that a finding must name."""


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
    ghost = entries[0]._replace(kind=DELETE, file=entries[0].file._replace(file_name="data-ghost-0.parquet"))
    return table.put_entries(3, [*entries, ghost])


def adds_twice(table: Planted) -> str:
    return table.put_entries(3, [*table.entries(3), table.entries(1)[0]])


def climbing_file_name(table: Planted) -> str:
    entries = table.entries(3)
    bad = entries[0]._replace(file=entries[0].file._replace(file_name="../../outside.parquet"))
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


def half_a_snapshot(table: Planted) -> str:
    data = table.path("snapshot/snapshot-3").read_bytes()
    table.path("snapshot/snapshot-3").write_bytes(data[: len(data) // 2])
    return "snapshot/snapshot-3"


def said_in_the_snapshot(key: str, value: Any) -> Damage:
    """The newest snapshot with another value of one key."""

    def damage(table: Planted) -> str:
        path = table.path("snapshot/snapshot-3")
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
        return "snapshot/snapshot-3"

    damage.__name__ = f"{key}_is_{type(value).__name__}"
    return damage


def a_list_for_a_manifest(table: Planted) -> str:
    key = f"manifest/{table.delta(3)[0].file_name}"
    table.path(key).write_bytes(table.path(f"manifest/{table.snapshot(3).delta_manifest_list}").read_bytes())
    return key


def noise_for_a_manifest(table: Planted) -> str:
    key = f"manifest/{table.delta(3)[0].file_name}"
    table.path(key).write_bytes(random.Random(7).randbytes(500))
    return key


def empty_list(table: Planted) -> str:
    key = f"manifest/{table.snapshot(3).delta_manifest_list}"
    table.path(key).write_bytes(b"")
    return key


def empty_data_file(table: Planted) -> str:
    path = next(iter(sorted(table.root.glob("month=1/bucket-0/*.parquet"))))
    path.write_bytes(b"")
    return path.name


def another_s_data_file(table: Planted) -> str:
    """Of other columns and another number of rows, under the name of one that is listed."""
    path = next(iter(sorted(table.root.glob("month=1/bucket-0/*.parquet"))))
    pq.write_table(pa.table({"x": range(9)}), path)
    return path.name


def schema_without_fields(table: Planted) -> str:
    path = table.path("schema/schema-0")
    raw = json.loads(path.read_text())
    del raw["fields"]
    path.write_text(json.dumps(raw))
    return "schema/schema-0"


def unknown_type(table: Planted) -> str:
    path = table.path("schema/schema-0")
    path.write_text(path.read_text().replace('"STRING"', '"TEXTILE"'))
    return "schema/schema-0"


DAMAGES: list[Damage] = [
    cut_manifest, missing_manifest, cut_list, missing_data_file, cut_data_file, missing_schema, garbage_schema,
    schema_version, empty_snapshot, snapshot_of_another_id, gap, total_count, delta_count, schema_that_is_not_there,
    size_of_list, lost_files, counts_of_manifest, buckets_of_manifest, partitions_of_manifest, deletes_what_never_was,
    adds_twice, climbing_file_name, climbing_manifest_name, missing_index_file, missing_index_manifest,
    missing_statistics, high_hint, half_a_snapshot, a_list_for_a_manifest, noise_for_a_manifest, empty_list, empty_data_file,
    another_s_data_file, schema_without_fields, unknown_type, said_in_the_snapshot("version", 99),
    said_in_the_snapshot("id", "three"), said_in_the_snapshot("commitKind", "MERGE"),
    said_in_the_snapshot("deltaManifestList", "../../elsewhere"), said_in_the_snapshot("baseManifestList", None),
]  # fmt: skip
"""Each breaks a table of its own."""
