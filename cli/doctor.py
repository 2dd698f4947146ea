"""What `doctor` looks at, one check after another.

Owns: the checks and what each answer means. Must not know: arguments, printing.
Invariants: what it writes has a name of its own, and is deleted; it asks about fifteen requests, the table's snapshots and
a race aside; a check that cannot be made says so, and the others go on.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..backends.probe import ProbedStores, probe
from ..backends.race import race
from ..backends.registry import scheme_of
from ..backends.storage_options import is_secret
from ..backends.store import Created, Store
from ..core.errors import LakelatchError
from ..core.paths import TablePaths

Status = Literal["ok", "warn", "fail"]

ROUND_TRIPS = 3
SLOW_MS = 2_000
SKEW_MS = 5_000
"""Clocks may differ by this much; the store's own is rounded to seconds by some."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        check: its name.
        detail: what was seen.
        next_step: what to do about it; "" where nothing is to be done.
    """

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
) -> list[Check]:
    """Run the checks.

    Args:
        store: bound to the table's root, or to where one will be.
        options: the storage options that were given: only their names are looked at.
        racers: processes that race to create the same objects; None for no race.
        rounds: objects that they race for.
    """
    reached = _made("reach", lambda: _reach(store))
    checks = [reached, _credentials(store, options)]
    if reached.status == "fail":
        return checks
    scratch = f"lakelatch-doctor-{secrets.token_hex(8)}"
    checks.append(_made("table", lambda: _table(store, branch)))
    try:
        checks.append(_made("atomic create", lambda: _atomic_create(store, f"{scratch}-create")))
        checks += _write_and_clock(store, f"{scratch}-write")
        checks.append(_made("history", lambda: _history(store, branch)))
        if racers is not None:
            checks.append(_made("race", lambda: _race(store, racers, rounds, f"{scratch}-race-")))
    finally:
        left = _made("clean up", lambda: _clean_up(store, [f"{scratch}-create", f"{scratch}-write"]))
    return [*checks, left] if left.status != "ok" else checks


def _made(name: str, check: Callable[[], Check]) -> Check:
    """A check's result; an error of ours is one too."""
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
    # H19: what is given by hand travels with every task.
    return Check(
        "credentials",
        "warn",
        f"given by hand: {', '.join(explicit)}; they travel to every worker",
        "use the environment or a named profile where workers have them",
    )


def _table(store: Store, branch: str) -> Check:
    from ..coordinator.timeline import Timeline

    timeline = Timeline(store, TablePaths(branch))
    if not timeline.schema_ids():
        return Check("table", "warn", "there is no table here yet", f"lakelatch create {store.url}")
    schema, ids = timeline.latest_schema(), timeline.snapshot_ids()
    span = f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshot yet"
    return Check("table", "ok", f"schema {schema.id}, {len(schema.fields)} columns; {span}")


def _atomic_create(store: Store, key: str) -> Check:
    """Must succeed where nothing is, and be refused where something is (G9, H1)."""
    name, data = "atomic create", b"one"
    outcome = store.put_if_absent(key, data)
    if not isinstance(outcome, Created):
        return Check(name, "fail", f"a fresh object could not be created: {outcome}", "try again; look at the network")
    if probe(store, key, data, allow_unsafe=None, probed=ProbedStores()):
        return Check(name, "ok", f"by {store.capabilities.atomic_create}: {store.capabilities.detail}")
    return Check(
        name,
        "warn",
        "UNSAFE, and allowed by allow_unsafe: two writers can overwrite each other",
        "have one writer only",
    )


def _write_and_clock(store: Store, key: str) -> list[Check]:
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
                detail = "an object that was replaced still reads as it was"
                return [Check("write", "fail", detail, "use a store with strong read-after-write consistency")]
        skew = _clock(store.head(key).modified_ms, wall_ms, put_ms[-1])
    except LakelatchError as error:
        return [Check("write", "fail", error.message, error.next_step)]
    put, get = statistics.median(put_ms), statistics.median(get_ms)
    detail = f"put {put:.1f} ms, get {get:.1f} ms (median of {ROUND_TRIPS}); a commit waits for about three puts"
    if put > SLOW_MS:
        return [Check("write", "warn", detail, "write from nearer to the store"), skew]
    return [Check("write", "ok", detail), skew]


def _clock(modified_ms: int, sent_ms: float, took_ms: float) -> Check:
    """The store's clock against ours, give or take the time that the request took."""
    if not modified_ms:
        return Check(
            "clock", "warn", "the store says no modification times", "maintenance cannot tell old files from new"
        )
    behind_ms = sent_ms - modified_ms
    skew_ms = max(0.0, behind_ms, -behind_ms - took_ms)
    if skew_ms <= SKEW_MS:
        return Check("clock", "ok", f"the store's and this machine's differ by {skew_ms / 1000:.1f} s at most")
    which = "behind" if behind_ms > 0 else "ahead of"
    detail = f"the store's clock is {skew_ms / 1000:.0f} s {which} this machine's"
    return Check("clock", "warn", detail, "set this machine's clock by NTP: snapshots carry its time")


def _history(store: Store, branch: str) -> Check:
    """Does the history stand, or has a writer without an atomic create replaced something (G1)?"""
    from ..coordinator.timeline import Timeline
    from ..table.finding import Findings
    from ..table.verify_history import check_hints, lineage_findings

    timeline = Timeline(store, TablePaths(branch))
    snapshots, found = lineage_findings(timeline)
    hints = Findings()
    check_hints(timeline, timeline.snapshot_ids(), hints)
    problems = [*found, *hints]
    if not problems:
        return Check("history", "ok", f"{len(snapshots)} snapshots, each stands on the one before")
    worst: Status = "fail" if any(finding.severity == "error" for finding in problems) else "warn"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Check(
        "history", worst, f"{problems[0].file} {problems[0].message}{more}", f"lakelatch verify {store.url} --all"
    )


def _race(store: Store, racers: int, rounds: int, prefix: str) -> Check:
    in_process = store.capabilities.atomic_create == "lock"  # memory: other processes cannot see it
    result = race(store, racers, rounds, prefix, threads=in_process)
    who = f"{racers} {'threads' if in_process else 'processes'}"
    detail = f"{who}: {result.right} of {rounds} rounds with one winner"
    if result.unknown:
        detail += f", {result.unknown} answers proved nothing"
    if result.is_safe:
        return Check("race", "ok", detail)
    detail += f"; {result.several_won} with several winners, {result.overwritten} whose winner was overwritten"
    return Check("race", "fail", detail, "do not let two writers commit to this store: rows would be lost")


def _clean_up(store: Store, keys: Sequence[str]) -> Check:
    store.delete_many(keys)
    return Check("clean up", "ok", "")
