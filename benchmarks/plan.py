"""Planning a table of many files: decoding its manifests, and plans with and without filters.

    python benchmarks/plan.py --files 100000

Whole plans, each in a process of its own: CPU and wall seconds are medians after a first plan, and memory is the peak of the
process after its first plan and after all of them. Then decoders side by side in one process, each once before it is measured:
fastavro's records, polars' reader over the joined blocks, entries one by one, and columns. Above 200,000 files only plans by
columns are measured.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro
import pyarrow as pa
from recorded import add_json, record

import lakelatch as ll
from lakelatch.coordinator.history import manifests
from lakelatch.core.avro.blocks import MAGIC, blocks_of
from lakelatch.core.avro.columns import Columns, read_columns
from lakelatch.core.metadata.data_file import ADD, NO_BUCKETS, DataFile, ManifestEntry, SimpleStats
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import decode_manifest, decode_manifests, encode_manifest, encode_manifest_list
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.rows.binary.binary_row import encode_row

COLUMNS = pa.schema(
    [
        ("day", pa.int32()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("at", pa.timestamp("ms")),
    ]
)
MANIFEST_ENTRIES = 10_000
DAYS = 100
ROWS = 1_000
MOST_IN_ALL_WAYS = 200_000


def build(url: str, files: int) -> ll.Table:
    """A table of metadata alone: `files` files over 100 days, ids and times growing, names spread."""
    table = ll.create_table(url, COLUMNS, partition_by=["day"])
    schema = table.schema
    types, day_types = [f.type for f in schema.fields], [schema.by_name["day"].type]
    days = [encode_row([day], day_types) for day in range(DAYS)]
    lines = []
    for first in range(0, files, MANIFEST_ENTRIES):
        prefix, entries = uuid.uuid4(), []
        for n in range(first, min(first + MANIFEST_ENTRIES, files)):
            low = encode_row([n % DAYS, n * ROWS, f"name-{n:08d}-a", 0.5, n * 10**9], types)
            high = encode_row([n % DAYS, n * ROWS + ROWS - 1, f"name-{n:08d}-z", 99.5, (n + 1) * 10**9], types)
            stats = SimpleStats(low, high, (0, 0, 3, None, 0))
            file = DataFile(
                f"data-{prefix}-{n}.parquet", 10**6 + n, ROWS, value_stats=stats, creation_time=1_700_000_000_000
            )
            entries.append(ManifestEntry(ADD, days[n % DAYS], 0, NO_BUCKETS, file))
        name, data = f"manifest-{prefix}-0", encode_manifest(entries)
        table.store.put(table.paths.manifest(name), data)
        lines.append(summarise(name, len(data), entries, schema.partition_fields, schema.id))
    for name, found in (("manifest-list-base", lines), ("manifest-list-delta", [])):
        table.store.put(table.paths.manifest(name), encode_manifest_list(found))
    snapshot = Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list="manifest-list-base",
        delta_manifest_list="manifest-list-delta",
        commit_user="benchmark",
        commit_identifier=1,
        commit_kind="APPEND",
        time_ms=1_700_000_000_000,
        total_record_count=files * ROWS,
        delta_record_count=files * ROWS,
        uuid=str(uuid.uuid4()),
    )
    table.store.put(table.paths.snapshot(1), snapshot.to_json())
    return table


def joined(manifests: list[bytes]) -> bytes:
    """All blocks of all manifests as one container without compression, for readers that take one."""
    schema, _ = blocks_of(manifests[0])
    sync = bytes(16)
    parts = [MAGIC, _long(2)]
    for text in (b"avro.schema", schema, b"avro.codec", b"null"):
        parts += [_long(len(text)), text]
    parts += [_long(0), sync]
    for manifest in manifests:
        for count, block in blocks_of(manifest)[1]:
            parts += [_long(count), _long(len(block)), block, sync]
    return b"".join(parts)


def _long(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def decoders(manifests: list[tuple[str, bytes]]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, what decodes all manifests)."""
    data = [d for _, d in manifests]
    yield "fastavro, records", lambda: [list(fastavro.reader(io.BytesIO(d))) for d in data]
    try:
        import polars

        yield "polars, joined blocks", lambda: polars.read_avro(io.BytesIO(joined(data)))
    except ImportError:
        print("polars is not installed: its line is left out", file=sys.stderr)
    yield "lakelatch, entry by entry", lambda: [decode_manifest(d, name) for name, d in manifests]
    yield "lakelatch, columns", lambda: list(decode_manifests(manifests))
    yield "lakelatch, lists in them too", lambda: whole(read_columns(data))
    yield "lakelatch, columns to entries", lambda: [part.entries() for part in decode_manifests(manifests)]  # type: ignore[union-attr]


def whole(columns: Columns) -> list[Any]:
    """All columns with the items of their lists, which are decoded when somebody asks for them."""
    return [columns.column(name) for name in columns]


def measured(run: Callable[[], Any], times: int) -> tuple[float, float]:
    """Median CPU and wall seconds."""
    cpu, wall = [], []
    for _ in range(times):
        began, cpu_began = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    return statistics.median(cpu), statistics.median(wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=[100_000])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--one", help="for the processes that this one starts: the plan to make, as JSON")
    add_json(parser)
    args = parser.parse_args()
    if args.one:
        plan_often(**json.loads(args.one))
        return
    for files in args.files:
        with TemporaryDirectory() as folder:
            table = build(str(Path(folder) / "t"), files)
            lines = table.timeline.manifests(table.snapshot())  # type: ignore[arg-type]
            print(f"{files} files in {len(lines)} manifests, {sum(m.file_size for m in lines)} bytes")
            rows = compare_plans(table, files, args.times)
            record(args.json, f"plans of {files:,} files in {len(lines)} manifests", rows)
            if files <= MOST_IN_ALL_WAYS:
                stored = [(m.file_name, table.store.get(table.paths.manifest(m.file_name))) for m in lines]
                record(
                    args.json, f"decoding the manifests of {files:,} files", compare_decoders(stored, files, args.times)
                )


def compare_decoders(manifests: list[tuple[str, bytes]], files: int, times: int) -> list[dict[str, Any]]:
    print(f"{'decode':<42} {'CPU s':>8} {'wall s':>8} {'entries/s of CPU':>18}")
    rows = []
    for name, decode in decoders(manifests):
        decode()
        cpu, wall = measured(decode, times)
        rows.append({"decode": name, "CPU s": cpu, "wall s": wall, "entries/s of CPU": files / cpu})
        print(f"{name:<42} {cpu:>8.3f} {wall:>8.3f} {files / cpu:>18,.0f}")
    return rows


def compare_plans(table: ll.Table, files: int, times: int) -> list[dict[str, Any]]:
    """Plans through columns, with the memory that they take, and entry by entry."""
    middle = files // 2 * ROWS
    filters: list[tuple[str, str | None]] = [
        ("one day", "day = 7"),
        ("one id", f"id = {middle}"),
        ("a thousandth of the ids", f"id >= {middle} AND id < {middle + files}"),
        ("one day, one name", f"day = 7 AND name = 'name-{7:08d}-m'"),
        ("no filter", None),
    ]
    print(f"{'plan':<42} {'CPU s':>8} {'wall s':>8} {'files planned':>18} {'peak MiB':>10} {'then MiB':>10}")
    rows = []
    ways = [("columns", manifests.COLUMNS_FROM), ("entry by entry", files + 1)]
    for way, columns_from in ways if files <= MOST_IN_ALL_WAYS else ways[:1]:
        for name, where in filters:
            request = json.dumps({"url": table.url, "where": where, "columns_from": columns_from, "times": times})
            command = [sys.executable, __file__, "--one", request]
            row = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            print(
                f"{f'{name} ({way})':<42} {row['CPU s']:>8.3f} {row['wall s']:>8.3f} {row['files planned']:>18,}"
                f" {row['peak MiB']:>10.0f} {row['then MiB']:>10.0f}"
            )
            rows.append({"plan": f"{name}, {way}", **row})
    return rows


def plan_often(url: str, where: str | None, columns_from: int, times: int) -> None:
    """Make the same plan again and again, and print what it took as JSON."""
    manifests.COLUMNS_FROM = columns_from
    table = ll.open_table(url)
    planned, peak = table.plan(where=where).file_count, peak_mib()
    cpu, wall = measured(lambda: table.plan(where=where), times)
    print(
        json.dumps({"CPU s": cpu, "wall s": wall, "files planned": planned, "peak MiB": peak, "then MiB": peak_mib()})
    )


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
