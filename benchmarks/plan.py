"""Planning a table of many files: decoding its manifests, and plans with and without filters.

    python benchmarks/plan.py --files 100000

Decoders side by side in one run: fastavro's records, polars' reader over the joined blocks, entries one by one, and columns
side by side; before them whole plans. CPU and wall seconds are medians; peak memory is that of this process until then,
the building of the table (some 200 MiB) included.
"""

from __future__ import annotations

import argparse
import io
import resource
import statistics
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
from lakelatch.coordinator.history import timeline
from lakelatch.core.avro.blocks import MAGIC, blocks_of
from lakelatch.core.avro.columns import Columns, read_columns
from lakelatch.core.metadata.data_file import ADD, NO_BUCKETS, DataFile, ManifestEntry, SimpleStats
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import decode_manifest, decode_manifests, encode_manifest, encode_manifest_list
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.rows.binary_row import encode_row

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
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    add_json(parser)
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        table = build(str(Path(folder) / "t"), args.files)
        lines = table.timeline.manifests(table.snapshot())  # type: ignore[arg-type]
        manifests = [(m.file_name, table.store.get(table.paths.manifest(m.file_name))) for m in lines]
        print(f"{args.files} files in {len(manifests)} manifests, {sum(len(d) for _, d in manifests)} bytes")
        rows = compare_plans(table, args.files, args.times)
        record(args.json, f"plans of {args.files:,} files in {len(manifests)} manifests", rows)
        print(f"{'decode':<42} {'CPU s':>8} {'wall s':>8} {'entries/s of CPU':>18}")
        rows = []
        for name, decode in decoders(manifests):
            cpu, wall = measured(decode, args.times)
            rows.append({"decode": name, "CPU s": cpu, "wall s": wall, "entries/s of CPU": args.files / cpu})
            print(f"{name:<42} {cpu:>8.3f} {wall:>8.3f} {args.files / cpu:>18,.0f}")
        record(args.json, f"decoding the manifests of {args.files:,} files", rows)


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
    print(f"{'plan':<42} {'CPU s':>8} {'wall s':>8} {'files planned':>18} {'peak MiB':>10}")
    rows = []
    for way, columns_from in (("columns", timeline.COLUMNS_FROM), ("entry by entry", files + 1)):
        timeline.COLUMNS_FROM = columns_from
        for name, where in filters:
            planned = table.plan(where=where).file_count
            cpu, wall = measured(lambda where=where: table.plan(where=where), times)  # type: ignore[misc]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{f'{name} ({way})':<42} {cpu:>8.3f} {wall:>8.3f} {planned:>18,} {peak:>10.0f}")
            row = {"plan": f"{name}, {way}", "CPU s": cpu, "wall s": wall, "files planned": planned, "peak MiB": peak}
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
