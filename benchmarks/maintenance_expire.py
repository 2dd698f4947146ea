"""Expiring snapshots of a table with many files, beside Apache Paimon's Java: time, requests and peak memory.

    python benchmarks/maintenance_expire.py --files 10000 --snapshots 2000 --expire 1000
    python benchmarks/maintenance_expire.py --files 100 --snapshots 60 --expire 40 --s3

Each commit of the table replaces one file. Both expire the same snapshots of a copy of the same table, each in a process of its
own, which begins when its libraries are loaded; afterwards the files that are left are compared. lakelatch expires a second time
after that, `--again` snapshots, with what it has remembered. Memory is the process's peak. On S3 (versitygw, or moto where there
is no Go) only lakelatch is measured, with its requests as a proxy before the server counts them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

from recorded import add_json, markdown, record  # noqa: E402

import lakelatch as ll  # noqa: E402
from lakelatch.coordinator.commit.request import CommitRequest  # noqa: E402
from lakelatch.coordinator.maintenance.expiry.expire import expire  # noqa: E402
from lakelatch.coordinator.maintenance.expiry.retention import Retention  # noqa: E402
from lakelatch.core.metadata.data_file import ADD, DataFile, ManifestEntry  # noqa: E402

SCHEMA = pa.schema([("v", pa.int64())])
NEVER_MS = 2**62


def made(url: str, files: int, snapshots: int, options: dict[str, Any]) -> None:
    """A table of so many files, each a few bytes, of which every further snapshot replaces one."""
    table = ll.create_table(url, SCHEMA, storage_options=options)
    table.append(pa.table({"v": [1]}))
    (pattern,) = table.entries()

    def entry(number: int) -> ManifestEntry:
        name = f"data-bench-{number}.parquet"
        table.store.put(f"bucket-0/{name}", b"PAR1")
        file: DataFile = pattern.file._replace(file_name=name, file_size=4, creation_time=1_700_000_000_000 + number)
        return pattern._replace(kind=ADD, file=file)

    held = [entry(number) for number in range(files)]
    table.committer.commit(CommitRequest("APPEND", tuple(held), "bench"))
    for number in range(snapshots - 2):
        position, new = number % files, entry(files + number)
        change = (held[position].deletion(), new)
        table.committer.commit(CommitRequest("COMPACT", change, "bench", read_snapshot=table.timeline.latest()))
        held[position] = new
    table.committer.settle()


def by_lakelatch(url: str, keep: int, options: dict[str, Any]) -> int:
    table = ll.open_table(url, storage_options=options)
    return len(expire(table.timeline, table.schema, Retention(keep, keep, NEVER_MS, NEVER_MS, 1_000_000)).snapshot_ids)


def measured(library: str, url: str, keep: int, options: dict[str, Any]) -> dict[str, Any]:
    """Expire in this process."""
    if library == "java":
        import jpype
        from interop.java import jvm

        home = jvm.java_home.wire()
        path = [str(jvm.bundle_jar()), str(jvm.pyspark_jars() / "*")]
        jpype.startJVM(str(home / "lib/server/libjvm.so"), "-Xmx4g", "-Dlog4j2.level=ERROR", classpath=path)
        from interop.java.paimon import PaimonJava

        paimon = PaimonJava()
        run = lambda: paimon.expire(url, keep)  # noqa: E731
    else:
        import lakelatch.table.table  # noqa: F401

        run = lambda: by_lakelatch(url, keep, options)  # noqa: E731
    wall, cpu = time.monotonic(), time.process_time()
    run()
    return {
        "library": library,
        "seconds": time.monotonic() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_child(library: str, url: str, keep: int, options: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", json.dumps([library, url, keep, options])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def left(folder: str) -> set[str]:
    """The files of a table, without what only lakelatch keeps."""
    found = (os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)
    return {name for name in found if not name.startswith("lakelatch")}


def locally(files: int, snapshots: int, gone: int, again: int, libraries: list[str]) -> list[dict[str, Any]]:
    found = []
    with TemporaryDirectory(prefix="lakelatch-bench-") as folder:
        options = {"fsync": "false"}
        made(f"{folder}/table", files, snapshots, options)
        for library in libraries:
            shutil.copytree(f"{folder}/table", f"{folder}/{library}")
            line = in_child(library, f"{folder}/{library}", snapshots - gone, options)
            found.append({"run": f"{gone} of {snapshots}", **line})
        if len(libraries) == 2:
            names = [left(f"{folder}/{library}") for library in libraries]
            assert names[0] == names[1], sorted(names[0] ^ names[1])[:5]
        if again:
            line = in_child("lakelatch", f"{folder}/lakelatch", snapshots - gone - again, options)
            found.append({"run": f"{again} of {snapshots - gone}", **line})
    return found


def on_s3(files: int, snapshots: int, gone: int) -> list[dict[str, Any]]:
    from servers import FaultProxy, s3_server

    with s3_server() as server, FaultProxy(server.endpoint_url) as proxy:
        print(f"S3 server {server.name}", file=sys.stderr)
        url, options = f"s3://{server.create_bucket()}/table", server.storage_options(proxy.url)
        made(url, files, snapshots, options)
        proxy.clear()
        began = time.monotonic()
        by_lakelatch(url, snapshots - gone, options)
        kinds = Counter(request.method for request in proxy.requests)
        line = {"run": f"{gone} of {snapshots}", "library": "lakelatch", "seconds": time.monotonic() - began}
        return [{**line, "requests": sum(kinds.values()), **kinds}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--snapshots", type=int, default=2_000)
    parser.add_argument("--expire", type=int, default=1_000)
    parser.add_argument("--again", type=int, default=50, help="how many expire in the second run")
    parser.add_argument("--libraries", nargs="*", default=["lakelatch", "java"])
    parser.add_argument("--s3", action="store_true")
    add_json(parser)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        library, url, keep, storage = json.loads(options.child)
        print(json.dumps(measured(library, url, keep, storage)))
        return
    found = (
        on_s3(options.files, options.snapshots, options.expire)
        if options.s3
        else locally(options.files, options.snapshots, options.expire, options.again, options.libraries)
    )
    record(options.json, f"expiry of a table of {options.files} files", found)
    print(markdown(found))


if __name__ == "__main__":
    main()
