"""A bad day of a table with a primary key: many sorted runs, one key among millions, upserts that mark rows of large files.

    python benchmarks/lsm.py [--runs N] [--large N] [--keys N …] [--json FILE]

lakelatch beside Apache Paimon's Java, which is 2.0.0 where LAKELATCH_TOOLS names the folder of its connector. Each piece of work
runs in a process of its own, on a copy of the same files, after a plan (of one key and upserts: after another of them): its CPU
(of all threads, so with a JVM's compiler), the bytes that it reads, and the largest memory of the process. Both merge by their
own defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from merge_readers import peak_mib  # noqa: E402
from recorded import add_json, markdown, record  # noqa: E402

VALUES = "abcdefgh"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)] + [(name, pa.int64()) for name in VALUES])
STEP = 3
"""The keys of large tables are the multiples of this."""
BATCH = 1_000_000
UPSERTED = 1000
Work = Callable[[], object]


# ---------------------------------------------------------------------------------------------------------------- tables


def rows_of(random: np.random.Generator, keys: Any) -> pa.Table:
    return pa.table({"k": keys, **{name: random.integers(0, 2**60, len(keys)) for name in VALUES}}, schema=SCHEMA)


def many_runs(url: str, runs: int, rows: int, buckets: int = 1) -> None:
    """Each bucket gets so many runs of so many rows; two of three keys come once."""
    import lakelatch as ll

    random = np.random.default_rng(1)
    table = ll.create_table(url, SCHEMA, primary_key=["k"], options={"bucket": str(buckets), "write-only": "true"})
    for _ in range(runs):
        table.upsert(rows_of(random, random.integers(0, runs * rows * buckets, rows * buckets)))


def one_run(url: str, rows: int, by: str, **options: str) -> None:
    """One run of a bucket, as the one or the other compacts it."""
    import lakelatch as ll

    random = np.random.default_rng(1)
    table = ll.create_table(url, SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options})
    for first in range(0, rows, BATCH):
        table.upsert(rows_of(random, np.arange(first, min(first + BATCH, rows)) * STEP))
    asked = json.dumps([by, url, "compact", rows])
    subprocess.run([sys.executable, __file__, "--child", asked], check=True, stdout=subprocess.DEVNULL)
    ll.open_table(url).alter(ll.set_option("write-only", "false"))


# ------------------------------------------------------------------------------------------------------------- the work


def lakelatch(url: str, work: str, rows: int) -> tuple[Work, Work]:
    """The work, and what warms it."""
    import lakelatch as ll

    table = ll.open_table(url)

    def read(where: str | None = None) -> Work:
        return lambda: sum(batch.num_rows for batch in table.to_batches(where=where))

    def upsert(seed: int) -> Work:
        given = _given(seed, rows)

        def upserted() -> None:
            table.upsert(given)
            table.settle()

        return upserted

    match work:
        case "compact":
            return lambda: table.compact(full=True), table.plan
        case "read":
            return read(), table.plan
        case "one key":
            return read(f"k = {rows // 2 * STEP}"), read("k = 0")
        case _:
            return upsert(7), upsert(8)


def java(url: str, work: str, rows: int) -> tuple[Work, Work]:
    """The same by Apache Paimon; loops over rows that are read run inside the JVM."""
    import jpype
    from interop.java import jvm

    tools = sorted(Path(os.environ.get("LAKELATCH_TOOLS", "/nowhere")).glob("paimon-spark-*.jar"))
    library = jvm.java_home.wire() / "lib" / "server" / "libjvm.so"
    path = [str(tools[-1] if tools else jvm.bundle_jar()), str(jvm.pyspark_jars() / "*")]
    jpype.startJVM(str(library), "-Xmx6g", "-Dlog4j2.level=ERROR", classpath=path, convertStrings=False)
    from interop.java.java_values import build_row
    from interop.java.paimon import PaimonJava

    paimon, named = PaimonJava(), jpype.JClass
    table = paimon.open(url)
    streams, spliterators = named("java.util.stream.StreamSupport"), named("java.util.Spliterators")
    iterator = named("org.apache.paimon.reader.RecordReaderIterator")

    def plan() -> Any:
        return table.newReadBuilder().newScan().plan()

    def read(key: int | None = None) -> Work:
        builder = table.newReadBuilder()
        if key is not None:
            of = named("org.apache.paimon.predicate.PredicateBuilder")(table.rowType())
            builder = builder.withFilter(of.equal(jpype.JInt(0), named("java.lang.Long")(key)))

        def found() -> int:
            source = builder.newRead().createReader(builder.newScan().plan().splits())
            return int(streams.stream(spliterators.spliteratorUnknownSize(iterator(source), 0), False).count())

        return found

    def upsert(seed: int) -> Work:
        types = list(table.rowType().getFieldTypes())
        given = [build_row(list(row), types) for row in zip(*_given(seed, rows).to_pydict().values(), strict=True)]

        def upserted() -> None:
            write = table.newWrite("java").withIOManager(paimon._io_manager())
            commit = table.newCommit("java")
            for row in given:
                write.write(row)
            commit.commit(jpype.JLong(seed), write.prepareCommit(True, jpype.JLong(seed)))
            write.close()
            commit.close()

        return upserted

    match work:
        case "compact":
            return lambda: paimon.compact(url), plan
        case "read":
            return read(), plan
        case "one key":
            return read(rows // 2 * STEP), read(0)
        case _:
            return upsert(7), upsert(8)


def _given(seed: int, rows: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return rows_of(random, random.choice(rows, UPSERTED, replace=False) * STEP)


def child(who: str, url: str, work: str, rows: int) -> None:
    """Do the work in this process, and print what it took."""
    done, warmed = (lakelatch if who == "lakelatch" else java)(url, work, rows)
    warmed()
    before, cpu_s = _read_bytes(), time.process_time()
    done()
    took = {"CPU s": time.process_time() - cpu_s, "MB read": (_read_bytes() - before) / 1e6, "peak MiB": peak_mib()}
    print(json.dumps(took), flush=True)
    os._exit(0)  # a JVM that ends takes seconds


def _read_bytes() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


# --------------------------------------------------------------------------------------------------------------- figures


def beside(work: str, told: str, url: str, rows: int = 0) -> Iterator[Mapping[str, Any]]:
    """The figures of both."""
    for who in ("lakelatch", "Java"):
        copy = f"{url}-copy"
        shutil.copytree(url, copy)
        asked = json.dumps([who, copy, work, rows])
        told_by = subprocess.run(
            [sys.executable, __file__, "--child", asked], check=True, stdout=subprocess.PIPE, text=True
        )
        shutil.rmtree(copy)
        yield {"work": told, "by": who, **json.loads(told_by.stdout.splitlines()[-1])}


def figures(folder: str, options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    runs = options.runs
    many_runs(f"{folder}/small", runs, 1000, 2)
    yield from beside("read", f"read 2 buckets of {runs} runs of 1,000 rows", f"{folder}/small")
    many_runs(f"{folder}/large", runs, options.large)
    for work in ("read", "compact"):
        yield from beside(work, f"{work} {runs} runs of {options.large:,} rows", f"{folder}/large")
    shutil.rmtree(f"{folder}/large")
    for times in (2, 4):
        many_runs(f"{folder}/{times}", runs * times, 1000)
        yield from beside("read", f"read {runs * times:,} runs of 1,000 rows", f"{folder}/{times}")
    for by in ("lakelatch", "Java"):
        one_run(f"{folder}/{by}", options.keys[-1], by)
        told = f"one key of {options.keys[-1]:,} rows, files of {by}"
        yield from beside("one key", told, f"{folder}/{by}", options.keys[-1])
        shutil.rmtree(f"{folder}/{by}")
    for keys in options.keys:
        one_run(f"{folder}/vectors", keys, "lakelatch", **{"deletion-vectors.enabled": "true"})
        yield from beside("upsert", f"upsert {UPSERTED:,} of {keys:,} rows, vectors", f"{folder}/vectors", keys)
        shutil.rmtree(f"{folder}/vectors")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--large", type=int, default=10_000, help="rows of a larger run")
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000, 5_000_000], help="rows of one run")
    add_json(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(figures(folder, options))
    record(options.json, "each in a process of its own", found)
    print(markdown(found))


if __name__ == "__main__":
    main()
