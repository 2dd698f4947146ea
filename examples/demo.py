"""Twelve PySpark jobs commit the twelve months of a year to one table at the same moment, and nothing is lost.

`make demo`, or with STORE=s3, gcs, adls or hdfs on a real server of that kind. Each job is a process of its own; a gate
holds all of them until the last is ready. Then a thirteenth job overwrites January while a fourteenth appends 31 December,
which the twelve had left out. The table is read back with Spark and every row is compared with the source. At the end two jobs
upsert the same flights of a table with a primary key at the same moment, and its rows must be those of one of them.

Twelve Spark sessions take a while to start. So that a commit is seen before, this process first appends the flights of
1 January without Spark; they are in the table twice until January is overwritten. Every step's time is printed.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import demo_upserts
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flights import flights

import lakelatch as ll
from lakelatch.coordinator.journal.lines import read_journal
from lakelatch.coordinator.protocol import events as ev

HERE = Path(__file__).parent
JOB = HERE / "demo_job.py"


class Clock:
    """Prints what happens, with the seconds since the demo began."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        print(f"[{self.seconds():6.1f} s] {text}", flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Says how long the block took, once it is done."""
        began = time.monotonic()
        yield
        self.say(f"{text}: {time.monotonic() - began:.1f} s")


class Jobs:
    """The PySpark jobs of one wave: started, held at a gate, watched through their journals."""

    def __init__(self, folder: Path, url: str, storage_options: dict[str, Any], clock: Clock) -> None:
        self.folder, self.url, self.storage_options, self.clock = folder, url, storage_options, clock
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.gate = folder / f"gate-{time.monotonic_ns()}"
        self.seen: Counter[str] = Counter()

    def start(self, name: str, source: Path, mode: str = "append", partition: dict[str, Any] | None = None) -> None:
        job = {
            "name": name,
            "source": str(source),
            "url": self.url,
            "storage_options": self.storage_options,
            "mode": mode,
            "partition": partition,
            "ready": str(self.folder / f"{name}.ready"),
            "gate": str(self.gate),
            "result": str(self.folder / f"{name}.result"),
        }
        settings = self.folder / f"{name}.json"
        settings.write_text(json.dumps(job))
        settings.chmod(0o600)
        environment = {**os.environ, "LAKELATCH_JOURNAL": str(self.journal(name))}
        log = (self.folder / f"{name}.log").open("wb")
        command = [sys.executable, str(JOB), str(settings)]
        self.processes[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def journal(self, name: str) -> Path:
        return self.folder / f"{name}.journal.jsonl"

    def open_gate(self) -> None:
        waiting = set(self.processes)
        while waiting:
            ready = {name for name in waiting if (self.folder / f"{name}.ready").exists()}
            for name in sorted(ready):
                waiting.discard(name)
                self.clock.say(f"{name} is ready ({len(self.processes) - len(waiting)}/{len(self.processes)})")
            self.stop_if_dead()
            time.sleep(0.05)
        self.clock.say(f"the gate opens for {len(self.processes)} jobs")
        self.gate.touch()

    def watch(self) -> list[dict[str, Any]]:
        """Show commits, conflicts and retries as they happen, until all jobs are done; their receipts."""
        while any(process.poll() is None for process in self.processes.values()):
            self.show_news()
            self.stop_if_dead()
            time.sleep(0.05)
        self.stop_if_dead()
        self.show_news()
        return [json.loads((self.folder / f"{name}.result").read_text()) for name in self.processes]

    def show_news(self) -> None:
        for name in self.processes:
            path = self.journal(name)
            entries = list(read_journal(path)) if path.exists() else []
            for entry in entries[self.seen[name] :]:
                line = news(entry.event)
                if line:
                    self.clock.say(f"{name}: {line}")
            self.seen[name] = len(entries)

    def stop_if_dead(self) -> None:
        for name, process in self.processes.items():
            if process.poll() not in (None, 0):
                for other in self.processes.values():
                    other.kill()
                log = (self.folder / f"{name}.log").read_text()[-4000:]
                raise SystemExit(f"{log}\ndemo: {name} failed with exit code {process.returncode}")


def news(event: ev.Event) -> str | None:
    """What a person wants to see of an event."""
    match event:
        case ev.LatestResolved(base=base):
            return f"builds on snapshot {base.id if base else 0}"
        case ev.FoundAnother(winner=winner, user=user):
            return f"lost the race for snapshot {winner.id} to {user}"
        case ev.RetryGranted(wait_ms=wait_ms):
            return f"tries again in {wait_ms} ms"
        case ev.LineageVerified():
            return "committed"
        case ev.ConflictFound(reason=reason):
            return f"conflict: {reason}"
        case _:
            return None


@contextmanager
def location(store: str, folder: Path, clock: Clock) -> Iterator[tuple[str, dict[str, Any]]]:
    """The table's URL and its storage options; an object store has its server started here."""
    if store == "local":
        yield str(folder / "flights"), {}
        return
    sys.path.insert(0, str(HERE.parent / "tests"))
    import servers
    from servers.process import NotInstalled

    start = {
        "s3": servers.s3_server,
        "gcs": servers.gcs_server,
        "adls": servers.azure_server,
        "hdfs": servers.hdfs_server,
    }
    with ExitStack() as running:
        try:
            with clock.step(f"starting a server for {store}"):
                server = running.enter_context(start[store]())
        except NotInstalled as error:
            raise SystemExit(f"demo: {error}") from error
        clock.say(f"{server.name} at {server.endpoint_url}")
        yield f"{server.new_root()}/flights", server.storage_options()


def months_of(table: pa.Table, folder: Path) -> dict[str, Path]:
    """Source files: one per month without 31 December, 31 December alone, and January again."""
    last_day = pc.and_(pc.equal(table["month"], 12), pc.equal(table["day"], 31))
    parts = {
        f"month-{m:02}": table.filter(pc.and_(pc.equal(table["month"], m), pc.invert(last_day))) for m in range(1, 13)
    }
    parts["december-31"] = table.filter(last_day)
    sources = {}
    for name, rows in parts.items():
        sources[name] = folder / f"{name}.parquet"
        pq.write_table(rows, sources[name])
    return sources


def row_keys(table: pa.Table) -> Counter[str]:
    """How often each row is there, every column counted in."""
    text = [pc.fill_null(column.cast(pa.string()), "null") for column in table.columns]
    counted = pc.value_counts(pc.binary_join_element_wise(*text, "|").combine_chunks())
    return Counter(dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)))


def read_back(url: str, storage_options: dict[str, Any]) -> pa.Table:
    """The table as Spark sees it."""
    from demo_job import session

    import lakelatch.spark as lake

    spark = session("read-back")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        return lake.read(spark, url, storage_options=storage_options).toArrow()
    finally:
        spark.stop()


def first_commit(url: str, source: pa.Table, storage_options: dict[str, Any], clock: Clock) -> None:
    """Creates the table and appends 1 January to it, from this process and without Spark."""
    with clock.step("creating the table"):
        table = ll.create_table(url, source.schema, partition_by=["month"], storage_options=storage_options)
    first_day = source.filter(pc.and_(pc.equal(source["month"], 1), pc.equal(source["day"], 1)))
    with clock.step("the first commit, 1 January without Spark"):
        receipt = table.append(first_day, commit_user="first-day", identifier=1)
    clock.say(f"first-day: committed {receipt}")


def run(store: str, folder: Path) -> int:
    clock = Clock()
    with clock.step("reading the flights"):
        source = flights()
        sources = months_of(source, folder)
    with location(store, folder, clock) as (url, storage_options):
        first_commit(url, source, storage_options, clock)
        first = Jobs(folder, url, storage_options, clock)
        clock.say("twelve jobs start, each with a Spark session of its own: a minute or more on a small machine")
        with clock.step("starting the twelve jobs"):
            for month in range(1, 13):
                first.start(f"month-{month:02}", sources[f"month-{month:02}"])
            first.open_gate()
        with clock.step("twelve commits at once"):
            receipts = first.watch()
        clock.say("12 months are in; now January is overwritten while 31 December is appended")
        second = Jobs(folder, url, storage_options, clock)
        with clock.step("an overwrite beside an append"):
            second.start("january-again", sources["month-01"], "overwrite", {"month": 1})
            second.start("december-31", sources["december-31"])
            second.open_gate()
            receipts += second.watch()
        with clock.step("reading back with Spark"):
            found = read_back(url, storage_options)
        with clock.step("comparing every row"):
            want, got = row_keys(source), row_keys(found.select(source.schema.names).cast(source.schema))
        lost, doubled = (want - got).total(), (got - want).total()
        table = ll.open_table(url, storage_options=storage_options)
        show_log(table)
        print(table.explain(max(receipts, key=lambda r: int(r["retries"]))["snapshot_id"]))
        january = source.filter(pc.equal(source["month"], 1))
        winner = upserted_twice(f"{url}-by-key", january, storage_options, folder, clock)
        retries = sum(r["retries"] for r in receipts)
        commits = len(receipts) - 2
        print(
            f"demo: {commits}/12 commits, {found.num_rows} rows, {lost} lost, {doubled} doubled, {retries} retries;"
            f" two upserts of {january.num_rows} flights, all rows are of {winner or 'neither'};"
            f" {clock.seconds():.0f} s, table at {url}"
        )
    return 0 if (lost, doubled, found.num_rows) == (0, 0, source.num_rows) and winner else 1


def upserted_twice(url: str, rows: pa.Table, storage_options: dict[str, Any], folder: Path, clock: Clock) -> str | None:
    """Let two jobs upsert the same keys at once. Returns the one whose rows the table holds, None if they are mixed."""
    reports = demo_upserts.reports_of(rows)
    with clock.step(f"{rows.num_rows} flights of January into a table with a primary key"):
        demo_upserts.create(url, rows, storage_options)
    jobs = Jobs(folder, url, storage_options, clock)
    with clock.step("two upserts of the same flights at once"):
        for name, source in demo_upserts.stored(reports, folder).items():
            jobs.start(name, source)
        jobs.open_gate()
        jobs.watch()
    with clock.step("reading back with Spark and comparing every row"):
        winner = demo_upserts.believed(read_back(url, storage_options), reports)
    show_log(ll.open_table(url, storage_options=storage_options))
    return winner


def show_log(table: ll.Table) -> None:
    print(f"\n{'snapshot':>8}  {'kind':<10} {'by':<14} {'rows':>8} {'in all':>8}  attempts")
    for row in reversed(table.history()):
        counts = f"{row['delta_rows']:>8} {row['total_rows']:>8}"
        print(f"{row['snapshot_id']:>8}  {row['kind']:<10} {row['commit_user']:<14} {counts}  {row['attempts']}")
    print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["local", "s3", "gcs", "adls", "hdfs"], default="local")
    parser.add_argument(
        "--folder", type=Path, help="where sources, journals, logs and a local table go (emptied first)"
    )
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.gettempdir()) / "lakelatch-demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return run(options.store, folder)


if __name__ == "__main__":
    sys.exit(main())
