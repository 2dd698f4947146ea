"""The checks of `doctor`.

Owns: the checks, and what each result means. Must not know: arguments, printing. Invariants: everything it writes has a
name of its own and is deleted afterwards. It sends about forty requests, not counting the table's snapshots and a race.
If one check fails with an error, the error is reported and the other checks still run.
"""

from __future__ import annotations

import secrets
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...backends.around.race import race
from ...backends.local import local_path
from ...backends.probe import ProbedStores, probe
from ...backends.registry import scheme_of
from ...backends.storage_options import is_secret
from ...backends.store import Created, ObjectNotFound, Store
from ...core.errors import LakelatchError
from ...core.paths import TablePaths
from ...core.side_effects import left_undone

if TYPE_CHECKING:
    from ...lab.seeded.simulate import Forecast

Status = Literal["ok", "warn", "fail"]

ROUND_TRIPS = 3
LISTED = 4
"""The number of objects that are listed: once after each of them is created, and once after all are deleted."""
WRITERS = 8
FORECAST_COMMITS = 5
SLOW_MS = 2_000
SKEW_MS = 5_000
"""Clocks may differ by this much; some stores round their times to seconds."""


@dataclass(frozen=True, slots=True)
class Check:
    check: str
    status: Status
    detail: str
    next_step: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine(
    store: Store,
    options: Mapping[str, Any],
    branch: str = "main",
    racers: int | None = None,
    rounds: int = 20,
    writers: int = WRITERS,
) -> list[Check]:
    """Run the checks at the root of a table, which need not exist yet. Of the storage options only the names are used. `racers`
    processes race to create the same `rounds` objects; the commits per minute are estimated for `writers` writers.
    """
    folders = _missing_folders(store)
    reached = _made("reach", lambda: _reach(store))
    checks = [reached, _credentials(store, options), *_transport(store)]
    if reached.status == "fail":
        return checks
    scratch = f"lakelatch-doctor-{secrets.token_hex(8)}"
    checks.append(_made("table", lambda: _table(store, branch)))
    checks += _left_undone(store, branch)
    try:
        checks.append(_made("permissions", lambda: _permissions(store, f"{scratch}/may")))
        checks.append(_made("atomic create", lambda: _atomic_create(store, f"{scratch}-create")))
        checks.append(_made("list", lambda: _listing(store, f"{scratch}/")))
        measured, latency_ms = _write_and_clock(store, f"{scratch}-write")
        checks += measured
        if latency_ms is not None:
            expected, alone = _expectation(latency_ms, writers)
            checks += [expected, _riding(store, branch, latency_ms, alone)]
        checks.append(_made("history", lambda: _history(store, branch)))
        checks += _runs(store, branch)
        if racers is not None:
            checks.append(_made("race", lambda: _race(store, racers, rounds, f"{scratch}-race-")))
    finally:
        left = _made("clean up", lambda: _clean_up(store, scratch, folders))
    return [*checks, left] if left.status != "ok" else checks


def _made(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except LakelatchError as error:
        return Check(name, "fail", error.message, error.next_step)


def _reach(store: Store) -> Check:
    began = time.monotonic()
    found = sum(1 for _ in store.list(TablePaths().schema_dir))
    took_ms = (time.monotonic() - began) * 1000
    return Check("reach", "ok", f"{store.url} was listed in {took_ms:.0f} ms ({found} schema files)")


def _credentials(store: Store, options: Mapping[str, Any]) -> Check:
    if scheme_of(store.url) in ("file", "memory"):
        return Check("credentials", "ok", "none are needed")
    explicit = sorted(name for name in options if is_secret(name))
    if not explicit:
        return Check("credentials", "ok", "from the environment, a profile or the machine")
    # H19: explicit storage options are sent along with every task.
    return Check(
        "credentials",
        "warn",
        f"given as options: {', '.join(explicit)}; they are sent to every worker",
        "use the environment or a named profile if the workers have them",
    )


def _transport(store: Store) -> list[Check]:
    used = getattr(store, "transport", None)
    return [Check("transport", "ok", f"{used.name}: {used.reason}", used.next_step)] if used else []


def _table(store: Store, branch: str) -> Check:
    from ...coordinator.history.timeline import Timeline

    timeline = Timeline(store, TablePaths(branch))
    if not timeline.schema_ids():
        url = shlex.quote(store.url)
        create = f"create one with its columns: lakelatch create {url} --column id:BIGINT --column name:STRING"
        return Check("table", "warn", "there is no table here yet", create)
    schema, ids = timeline.latest_schema(), timeline.snapshot_ids()
    span = f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshot yet"
    return Check("table", "ok", f"schema {schema.id}, {len(schema.fields)} columns; {span}")


def _left_undone(store: Store, branch: str) -> list[Check]:
    from ...coordinator.history.timeline import Timeline

    with suppress(LakelatchError):  # there is no table, or the check "table" has reported the error
        options = Timeline(store, TablePaths(branch)).latest_schema().option_texts
        return [
            Check(
                "options",
                "fail" if effect.refused else "warn",
                f"'{effect.option}' = '{options[effect.option]}': {effect.undone}",
                "write the table with Apache Paimon, or remove the option" if effect.refused else "do not rely on it",
            )
            for effect in left_undone(options)
        ]
    return []


def _permissions(store: Store, key: str) -> Check:
    """Try every operation that commits and maintenance need, on an object of its own; report all refusals together."""
    folder = f"{key.rpartition('/')[0]}/"
    asked: dict[str, Callable[[], object]] = {
        "create": lambda: store.put_if_absent(key, b"one"),
        "write": lambda: store.put(key, b"other"),
        "read": lambda: (store.get(key), store.get_range(key, 1, 3), store.head(key)),
        "list": lambda: list(store.list(folder)),
        "delete": lambda: store.delete_many([key]),
    }
    refused: dict[str, str] = {}
    for name, ask in asked.items():
        try:
            ask()
        except LakelatchError as error:
            refused[name] = error.message
        except ObjectNotFound as error:
            refused[name] = str(error)
    if not refused:
        return Check("permissions", "ok", f"may {', '.join(asked)}")
    detail = f"may not {', '.join(refused)}: {next(iter(refused.values()))}"
    if list(refused) == ["delete"]:
        next_step = f"commits work, but clean-up and maintenance do not: allow delete, then delete {key}"
        return Check("permissions", "warn", detail, next_step)
    return Check("permissions", "fail", detail, f"allow {', '.join(refused)} below {store.url}")


def _listing(store: Store, folder: str) -> Check:
    keys = [f"{folder}{number}" for number in range(LISTED)]
    late = 0
    for number, key in enumerate(keys, 1):
        store.put(key, b"1")
        late += not set(keys[:number]) <= {info.key for info in store.list(folder)}
    store.delete_many(keys)
    ghosts = len({info.key for info in store.list(folder)} & set(keys))
    if not late and not ghosts:
        return Check(
            "list", "ok", f"{LISTED} objects were listed as soon as they were created, and none after deletion"
        )
    detail = f"{late} of {LISTED} listings lacked an object that was just created, {ghosts} deleted objects were still listed"
    return Check(
        "list", "fail", detail, "use a store with consistent listings: lakelatch finds the newest snapshot by listing"
    )


def _expectation(latency_ms: float, writers: int) -> tuple[Check, Forecast]:
    """A simulation of the shipped committer in virtual time at this latency, with the forecast for so many writers."""
    from ...lab.seeded.simulate import simulate

    one, many = (simulate(n, commits=FORECAST_COMMITS, latency_ms=max(latency_ms, 0.1)) for n in (1, writers))
    together = (
        f"{writers} at once {many.commits_per_minute:.0f} together, half of them within {many.p50_ms / 1000:.2f} s"
    )
    detail = f"one writer can commit {one.commits_per_minute:.0f} times a minute, {together} (simulated, {latency_ms:.1f} ms)"
    return Check("expect", "ok", detail), many


def _riding(store: Store, branch: str, latency_ms: float, alone: Forecast) -> Check:
    from .riding import advice, forecast, newest_appends

    detail = forecast(max(latency_ms, 0.1), alone, FORECAST_COMMITS)
    known = newest_appends(store, branch)
    said, next_step = advice(*known, store.url) if known is not None else ("", "")
    return Check("riding", "warn" if next_step else "ok", f"{detail}; {said}" if said else detail, next_step)


def _atomic_create(store: Store, key: str) -> Check:
    """A create must succeed if the object does not exist, and be refused if it does (G9, H1)."""
    name, data = "atomic create", b"one"
    outcome = store.put_if_absent(key, data)
    if not isinstance(outcome, Created):
        return Check(name, "fail", f"a new object could not be created: {outcome}", "try again; check the network")
    if probe(store, key, data, allow_unsafe=None, probed=ProbedStores()):
        return Check(name, "ok", f"by {store.capabilities.atomic_create}: {store.capabilities.detail}")
    return Check(
        name,
        "warn",
        "UNSAFE, but allowed by allow_unsafe: two writers can overwrite each other",
        "use one writer only",
    )


def _write_and_clock(store: Store, key: str) -> tuple[list[Check], float | None]:
    """The checks of writing and of the clock, and the latency of a request in milliseconds if it could be measured."""
    put_ms, get_ms = [], []
    skew: Check | None = None
    try:
        for number in range(ROUND_TRIPS):
            data = str(number).encode()
            began, wall_ms = time.monotonic(), time.time() * 1000
            store.put(key, data)
            written = time.monotonic()
            read = store.get(key)
            put_ms.append((written - began) * 1000)
            get_ms.append((time.monotonic() - written) * 1000)
            if read != data:
                detail = "an object that was replaced still returned its old content"
                return [Check("write", "fail", detail, "use a store with strong read-after-write consistency")], None
        skew = _clock(store.head(key).modified_ms, wall_ms, put_ms[-1])
    except LakelatchError as error:
        return [Check("write", "fail", error.message, error.next_step)], None
    put, get = statistics.median(put_ms), statistics.median(get_ms)
    detail = f"put {put:.1f} ms, get {get:.1f} ms (median of {ROUND_TRIPS}); a commit waits for about three puts"
    if put > SLOW_MS:
        return [Check("write", "warn", detail, "run the job closer to the store"), skew], (put + get) / 2
    return [Check("write", "ok", detail), skew], (put + get) / 2


def _clock(modified_ms: int, sent_ms: float, took_ms: float) -> Check:
    if not modified_ms:
        return Check(
            "clock",
            "warn",
            "the store reports no modification times",
            "maintenance cannot tell old files from new ones",
        )
    behind_ms = sent_ms - modified_ms
    skew_ms = max(0.0, behind_ms, -behind_ms - took_ms)
    if skew_ms <= SKEW_MS:
        return Check("clock", "ok", f"the store's clock and this machine's differ by at most {skew_ms / 1000:.1f} s")
    which = "behind" if behind_ms > 0 else "ahead of"
    detail = f"the store's clock is {skew_ms / 1000:.0f} s {which} this machine's"
    return Check("clock", "warn", detail, "set this machine's clock by NTP: snapshots carry its time")


def _history(store: Store, branch: str) -> Check:
    """Is the history intact, or has a writer without an atomic create replaced a snapshot (G1)?"""
    from ...coordinator.history.timeline import Timeline
    from ...table.verify.finding import Findings
    from ...table.verify.history import check_hints, lineage_findings
    from ...table.verify.journals import check_commits
    from ..frame.journals import journal_lines

    timeline = Timeline(store, TablePaths(branch))
    snapshots, found = lineage_findings(timeline)
    of_journal, by_id = Findings(), {snapshot.id: snapshot for snapshot in snapshots}
    check_commits(timeline, list(by_id), by_id, journal_lines(None), of_journal)
    found += of_journal
    hints = Findings()
    check_hints(timeline, timeline.snapshot_ids(), hints)
    problems = [*found, *hints]
    if not problems:
        return Check("history", "ok", f"{len(snapshots)} snapshots, each built on the one before")
    worst: Status = "fail" if any(finding.severity == "error" for finding in problems) else "warn"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Check(
        "history",
        worst,
        f"{problems[0].file} {problems[0].message}{more}",
        f"lakelatch verify {shlex.quote(store.url)} --all",
    )


def _runs(store: Store, branch: str) -> list[Check]:
    from ...coordinator.history.timeline import Timeline
    from ...core import options as opt
    from ...table.verify.runs import crowded_buckets

    with suppress(LakelatchError):  # there is no table, or another check has reported the error
        timeline = Timeline(store, TablePaths(branch))
        schema = timeline.latest_schema()
        if not schema.primary_keys:
            return []
        crowded = crowded_buckets(timeline)
        if not crowded:
            return [Check("sorted runs", "ok", "no bucket has more than reads should merge")]
        worst = crowded[0]
        more = f", {len(crowded) - 1} more buckets have too many" if len(crowded) > 1 else ""
        detail = f"{worst.folder} has {worst.runs} sorted runs to merge, and should have {worst.most} at most{more}"
        compact = f"lakelatch compact {shlex.quote(store.url)} --apply"
        if schema.options.get(opt.WRITE_ONLY):
            own = f"then run it regularly, or set option '{opt.WRITE_ONLY.key}' = false so that writers compact"
        else:
            own = f"use more buckets if '{opt.RUNS_TO_COMPACT.key}' is often passed"
        return [Check("sorted runs", "warn", detail, f"{compact}; {own}")]
    return []


def _race(store: Store, racers: int, rounds: int, prefix: str) -> Check:
    in_process = store.capabilities.atomic_create == "lock"  # memory: other processes cannot see it
    result = race(store, racers, rounds, prefix, threads=in_process)
    who = f"{racers} {'threads' if in_process else 'processes'}"
    detail = f"{who}: {result.right} of {rounds} rounds with one winner"
    if result.unknown:
        detail += f", {result.unknown} answers were inconclusive"
    if result.is_safe:
        return Check("race", "ok", detail)
    detail += (
        f"; {result.several_won} rounds with several winners, {result.overwritten} rounds whose winner was overwritten"
    )
    return Check("race", "fail", detail, "do not let two writers commit to this store: they would lose rows")


def _missing_folders(store: Store) -> list[Path]:
    if store.capabilities.native_scheme != "file":
        return []
    root = Path(local_path(store.url))
    return [folder for folder in (root, *root.parents) if not folder.exists()]


def _clean_up(store: Store, scratch: str, folders: Sequence[Path]) -> Check:
    listed = [f"{scratch}/{number}" for number in range(LISTED)]
    store.delete_many([f"{scratch}-create", f"{scratch}-write", f"{scratch}/may", *listed])
    store.delete_many([scratch])  # for stores with real folders: HDFS deletes an empty folder like a file
    if store.capabilities.native_scheme == "file":
        with suppress(OSError):  # another process has written into one of them meanwhile
            for folder in (Path(local_path(store.url), scratch), *folders):
                with suppress(FileNotFoundError):
                    folder.rmdir()
    return Check("clean up", "ok", "")
