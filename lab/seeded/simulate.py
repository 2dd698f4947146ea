"""Predicts commits per minute, retries and requests for a number of writers and a store's latency.

Owns: `simulate` and its report. Must not know: how time passes (`schedule`), how a report is printed.
Invariant: the numbers come from the shipped committer in virtual time. The same arguments give the same report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

from ...coordinator.commit.committer import Committer
from ...coordinator.commit.receipt import Receipt
from ...core.errors import CommitConflict, LakelatchError, OutcomeUnknown
from ..actors.jobs import Actor, Role
from ..actors.row_changers import MOST_PLANS
from ..world.stage import Stage
from .schedule import Simulation, Weather
from .seeds import ROUGH
from .workloads import Workload, workload

PLAIN = workload("append")


@dataclass(frozen=True)
class Forecast:
    """The result of a simulation. Times are virtual.

    Attributes:
        p50_ms, p99_ms, slowest_ms: how long a caller waits for a commit that lands, with retries and with the turns
            that it gave to other writers.
        store_requests: all requests that reached the store, with those of lost attempts and hints.
        trace: every request in the order of arrival. Reports contain `trace_digest` instead.
    """

    writers: int
    committed: int
    failed: int
    unknown: int
    dead_writers: int
    faults: int
    virtual_s: float
    commits_per_minute: float
    retries_per_commit: float
    requests_per_commit: float
    p50_ms: float
    p99_ms: float
    slowest_ms: float
    store_requests: int
    trace: tuple[str, ...] = field(repr=False)

    @property
    def trace_digest(self) -> str:
        return hashlib.blake2b("\n".join(self.trace).encode(), digest_size=8).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {**{k: v for k, v in asdict(self).items() if k != "trace"}, "trace_digest": self.trace_digest}


@dataclass
class _Ledger:
    ended: Callable[[int], None]
    receipts: list[Receipt] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)
    failed: int = 0
    unknown: int = 0

    def note(self) -> None:
        self.ended(len(self.receipts) + self.failed + self.unknown)


def simulate(
    writers: int = 8,
    *,
    commits: int = 10,
    latency_ms: float = 50.0,
    faults: float = 0.0,
    seed: int = 0,
    work: Workload = PLAIN,
    ended: Callable[[int], None] = lambda commits: None,
) -> Forecast:
    """Let writers commit to one table, each as fast as it can.

    Args:
        commits: of each writer.
        faults: 0 for no faults; 1 loses, cuts, throttles or refuses about every fifth create.
        work: the table, and what each job does to it; by default appends to a table with default options.
        ended: called after each commit with the number of commits that have ended so far.

    >>> forecast = simulate(2, commits=2)
    >>> forecast.committed, forecast.unknown
    (4, 0)
    """
    rough = {name: min(1.0, share * faults) for name, share in ROUGH.faults.items()}
    simulation = Simulation(seed, Weather(latency_ms / 1000, rough, 0.0), work.schema)
    simulation.objects = {"schema/schema-0": work.schema.to_json()} if work.schema.primary_keys else {}
    ledger = _Ledger(ended)
    for number in range(writers):
        simulation.add(Actor(f"w{number}-", _busy(commits, work, ledger)))
    simulation.run()
    return _forecast(writers, simulation, ledger)


def _busy(commits: int, work: Workload, ledger: _Ledger) -> Role:
    def role(stage: Stage) -> None:
        committer = stage.committer()
        for number in range(commits):
            began_s = stage.clock.now_s
            try:
                ledger.receipts.append(_landed(stage, committer, work, number))
                ledger.waits_ms.append((stage.clock.now_s - began_s) * 1000)
            except OutcomeUnknown:
                ledger.unknown += 1
            except LakelatchError:
                ledger.failed += 1
            ledger.note()
            committer.settle()

    return role


def _landed(stage: Stage, committer: Committer, work: Workload, number: int) -> Receipt:
    """One commit, which is planned again after each conflict, as jobs run again."""
    for _ in range(MOST_PLANS - 1):
        try:
            return committer.commit(work.request(stage, committer, number))
        except CommitConflict:
            continue
    return committer.commit(work.request(stage, committer, number))


def _forecast(writers: int, simulation: Simulation, ledger: _Ledger) -> Forecast:
    receipts = ledger.receipts
    landed = max(len(receipts), 1)
    waits_ms = sorted(ledger.waits_ms) or [0.0]
    return Forecast(
        writers=writers,
        committed=len(receipts),
        failed=ledger.failed,
        unknown=ledger.unknown,
        dead_writers=len(simulation.dead),
        faults=simulation.faults,
        virtual_s=round(simulation.now_s, 3),
        commits_per_minute=round(60 * len(receipts) / simulation.now_s, 1) if simulation.now_s else 0.0,
        retries_per_commit=round(sum(r.retries for r in receipts) / landed, 2),
        requests_per_commit=round(sum(r.requests for r in receipts) / landed, 1),
        p50_ms=round(_quantile(waits_ms, 0.50), 1),
        p99_ms=round(_quantile(waits_ms, 0.99), 1),
        slowest_ms=round(waits_ms[-1], 1),
        store_requests=simulation.requests,
        trace=tuple(simulation.trace),
    )


def _quantile(ascending: list[float], share: float) -> float:
    """The smallest value that is not exceeded by this share of the values.

    >>> _quantile([1.0, 2.0, 3.0, 4.0], 0.5), _quantile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ascending[max(0, ceil(share * len(ascending)) - 1)]
