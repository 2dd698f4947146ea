"""Cleaning a table's folder of many small files that nothing names, beside Apache Paimon's Java, and on S3.

    python benchmarks/maintenance_clean.py --files 1000000 --both 100000 --s3 5000

`--files` is cleaned by lakelatch alone, `--both` by lakelatch and by Apache Paimon's Java, each on a folder of its own, `--s3` on
one S3 server behind a proxy that counts the requests. The table itself has 40 commits. Each run is a process of its own; seconds
and CPU are those of the call alone, without imports and the start of the JVM; memory is the process's peak, and before the call.
Files are empty: their bytes are neither read nor sent. `--no-fsync` leaves out the sync of folders.
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

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

from recorded import add_json, record  # noqa: E402

COMMITS = 40
PER_FOLDER = 10_000


def made_table(url: str, storage_options: dict[str, Any] | None = None) -> Any:
    """A table with one used file a commit."""
    import pyarrow as pa

    import lakelatch as ll

    schema = pa.schema([("p", pa.int32()), ("v", pa.int64())])
    table = ll.create_table(url, schema, partition_by=["p"], storage_options=storage_options)
    for value in range(COMMITS):
        table.append(pa.table({"p": [value % 4], "v": [value]}, schema=schema))
    table.committer.settle()
    return table


def fill(path: Path, files: int) -> None:
    """Orphans of two days ago, in bucket folders of many partitions and in `manifest`."""
    long_ago = time.time() - 2 * 86_400
    for first in range(0, files, PER_FOLDER):
        folder = path / ("manifest" if first == 0 else f"p={first // PER_FOLDER}/bucket-0")
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(first, min(first + PER_FOLDER, files)):
            name = f"{folder}/{'manifest' if first == 0 else 'data'}-{number:032d}-0.parquet"
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            os.utime(name, (long_ago, long_ago))


def child(side: str, path: str, fsync: bool) -> None:
    """Clean one folder, and print the figures."""
    if side == "java":
        from interop.java.paimon import PaimonJava

        java = PaimonJava()
        java.open(path)
        before, begun, cpu = peak_mb(), time.perf_counter(), time.process_time()
        deleted = java.remove_orphans(path)
    else:
        import lakelatch as ll

        table = ll.open_table(path, storage_options={} if fsync else {"fsync": False})
        before, begun, cpu = peak_mb(), time.perf_counter(), time.process_time()
        deleted = len(table.clean().files)
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    print(json.dumps({"deleted": deleted, "seconds": seconds, "cpu": used, "peak_mb": peak_mb(), "before_mb": before}))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(side: str, files: int, fsync: bool) -> dict[str, Any]:
    """Make a folder, clean it in a process of its own."""
    with TemporaryDirectory(prefix="lakelatch-clean-") as folder:
        made_table(f"{folder}/t", storage_options={"fsync": False})
        fill(Path(folder, "t"), files)
        command = [sys.executable, __file__, "--child", side, f"{folder}/t", *([] if fsync else ["--no-fsync"])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        found = json.loads(done.stdout.splitlines()[-1])
        shutil.rmtree(folder, ignore_errors=True)
    return {"by": side, "files": files, **found}


def on_s3(files: int) -> dict[str, Any]:
    """Clean a bucket; the objects cannot be made older, so the plan is made for a time to come."""
    from concurrent.futures import ThreadPoolExecutor

    from servers import FaultProxy, s3_server

    from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans

    with s3_server() as server, FaultProxy(server.endpoint_url) as proxy:
        options = server.storage_options()
        url = f"s3://{server.create_bucket()}/t"
        table = made_table(url, storage_options=options)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: table.store.put(f"p=9/bucket-0/data-{n:032d}-0.parquet", b""), range(files)))
        import lakelatch as ll

        table = ll.open_table(url, storage_options=server.storage_options(proxy.url))
        proxy.clear()
        begun = time.perf_counter()
        done = apply_clean(plan_orphans(table.timeline, table.schema, 2**62))
        seconds = time.perf_counter() - begun
        kinds = Counter(request.method for request in proxy.requests)
    return {
        "by": "lakelatch on S3",
        "files": files,
        "deleted": len(done.files),
        "seconds": seconds,
        "requests": dict(kinds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000, help="orphans that lakelatch alone deletes")
    parser.add_argument("--both", type=int, default=100_000, help="orphans that each side deletes")
    parser.add_argument("--s3", type=int, default=5_000, help="orphans in a bucket")
    parser.add_argument("--no-fsync", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    add_json(parser)
    options = parser.parse_args()
    if options.child:
        child(*options.child, fsync=not options.no_fsync)
        return
    fsync = not options.no_fsync
    sides = ("lakelatch", "java", "lakelatch", "java") if options.both else ()
    found = [show(measured(side, options.both, fsync)) for side in sides]
    if options.files:
        found.append(show(measured("lakelatch", options.files, fsync)))
    if options.s3:
        found.append(show(on_s3(options.s3)))
    record(options.json, f"orphan files, fsync {'on' if fsync else 'off'}", found)


def show(result: dict[str, Any]) -> dict[str, Any]:
    shown = {k: round(v, 2) if isinstance(v, float) else v for k, v in result.items()}
    print(json.dumps(shown), flush=True)
    return shown


if __name__ == "__main__":
    main()
