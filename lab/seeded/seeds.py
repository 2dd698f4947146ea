"""Seeded runs: many writers, real manifests, random faults, skewed clocks, and the checks of the final state.

Owns: `run_seed`, the record of published snapshots, the comparison with reported outcomes. Must not know: how time passes.
Source: architecture §8 (seeds). Invariants: the expected state is folded from the snapshots at their publication, never read
from the table that is judged. A seed replays to the same trace, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...coordinator.history.timeline import base_of
from ...core.metadata.data_file import ADD
from ...core.metadata.snapshot import parse_snapshot
from ..actors.jobs import Actor, writer
from ..actors.maintainers import expirer
from ..judging.invariants import Violation
from ..world.reading import look
from ..world.simulated_store import Objects
from ..world.stage import lab_schema, read_only
from .schedule import Simulation, Weather

ROUGH = Weather(
    latency_s=0.05,
    skew_s=2.0,
    faults={
        "crash before": 0.004,
        "crash after": 0.004,
        "answer lost": 0.03,
        "cut": 0.02,
        "lands late": 0.02,
        "409": 0.03,
        "409, and lands late": 0.01,
        "503": 0.03,
        "503 though applied": 0.02,
        "403": 0.002,
        "misses the newest": 0.03,
        "misses the newest two": 0.01,
        "garbage": 0.1,
        "stale low": 0.1,
        "stale high": 0.1,
        "gone": 0.1,
    },
)


@dataclass(frozen=True)
class Published:
    base: str
    added: tuple[str, ...]
    deleted: tuple[str, ...]


@dataclass
class SeedRun:
    """The result of one seed: every request in the order of arrival, and how often each outcome was reported."""

    seed: int
    trace: tuple[str, ...]
    told: dict[str, int]
    snapshots: int
    faults: int
    virtual_s: float
    violations: list[Violation] = field(default_factory=list)

    @property
    def digest(self) -> str:
        return hashlib.blake2b("\n".join(self.trace).encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        told = ", ".join(f"{n} {outcome}" for outcome, n in sorted(self.told.items()))
        counts = f"{self.snapshots} snapshots, {self.faults} faults in {len(self.trace)} requests"
        broken = "".join(f"; BROKEN {v}" for v in self.violations)
        return (
            f"seed {self.seed}: {told}; {counts}, {self.virtual_s:.0f} s of virtual time, trace {self.digest}{broken}"
        )


def run_seed(
    seed: int, *, writers: int = 5, commits: int = 3, weather: Weather = ROUGH, groups: bool = False
) -> SeedRun:
    """Run appends, overwrites, manifest compactions, restarts under the same identity, and an expiry. `groups`: appends
    that lose a race ride with the next winner.

    >>> run_seed(1, writers=2, commits=1, weather=Weather()).violations
    []
    """
    schema = lab_schema(
        **{"manifest.compression": "zstd", "manifest.merge-min-count": "4", "snapshot.time-retained": "60 s"},
        **({"commit.group": "auto"} if groups else {}),
    )
    made: dict[str, Published] = {}
    simulation = Simulation(seed, weather, schema, lambda key, objects: _note(made, key, objects))
    twins: list[frozenset[str]] = []
    for number in range(writers):
        name = chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")
        replaces = number % 4 == 3
        identity = None if replaces else (f"job-{name}", 1)
        rides = groups and not replaces
        role = writer(commits, identity=identity, resolves=number % 2 == 0, overwrites=replaces, rides=rides)
        simulation.add(Actor(name, role), at_s=0.01 * number)
        if identity is not None:  # the job runs again later, whatever its outcome was: a replay if it landed
            simulation.add(Actor(name.lower(), writer(commits, identity=identity, rides=rides)), at_s=40.0 + number)
            twins += [frozenset({f"{name}{n}", f"{name.lower()}{n}"}) for n in range(1, commits + 1)]
    simulation.add(Actor("X", expirer(3, times=4, every_s=30.0), "expirer"))
    simulation.run()
    told = [line for stage in simulation.stages for line in stage.told]
    counts: dict[str, int] = {}
    for line in told:
        label = line.outcome if line.outcome != "not committed" else f"{line.outcome} ({line.detail})"
        counts[label] = counts.get(label, 0) + 1
    run = SeedRun(seed, tuple(simulation.trace), counts, len(made), simulation.faults, simulation.now_s)
    run.violations = list(_judge(simulation, made, twins))
    return run


def _note(made: dict[str, Published], key: str, objects: Objects) -> None:
    snapshot = parse_snapshot(objects[key], key)
    base = base_of(snapshot)
    with read_only(objects) as timeline:
        entries = timeline.entries(timeline.delta_manifests(snapshot))
    added = tuple(e.file.file_name for e in entries if e.kind == ADD)
    deleted = tuple(e.file.file_name for e in entries if e.kind != ADD)
    made[snapshot.identity] = Published(base.identity if base else "", added, deleted)


def _judge(simulation: Simulation, made: dict[str, Published], twins: list[frozenset[str]]) -> Iterator[Violation]:
    reading = look(simulation.objects)
    if reading.failure or reading.top is None:
        yield Violation("G4", reading.failure or "nothing landed")
        return
    chain: list[str] = []
    identity = reading.top.snapshot.identity
    while identity:
        chain.append(identity)
        identity = made[identity].base
    expected: dict[str, None] = {}
    for identity in reversed(chain):
        for name in made[identity].deleted:
            expected.pop(name, None)
        expected.update(dict.fromkeys(made[identity].added))
    if sorted(expected) != sorted(reading.top.files):
        yield Violation("G6", f"{len(reading.top.files)} files are live, but the history adds up to {len(expected)}")
    if reading.top.snapshot.total_record_count != reading.top.rows:
        yield Violation(
            "counts", f"{reading.top.snapshot.total_record_count} rows are recorded, but {reading.top.rows} exist"
        )
    missing = sorted(key for key in reading.top.needs if key not in simulation.objects)
    if missing:
        yield Violation("G5", f"{missing[0]} is missing")
    landed = [name for identity in chain for name in made[identity].added]
    yield from _judge_told(simulation, set(chain), landed, twins)


def _has_landed(commit: str, landed: list[str], twins: list[frozenset[str]]) -> bool:
    """Whether a commit, or its twin, is in the history: a replay of one that has expired may know only its snapshot's id."""
    names = next((group for group in twins if commit in group), frozenset({commit}))
    return any(f"data-{name}.parquet" in landed for name in names)


def _judge_told(
    simulation: Simulation, chain: set[str], landed: list[str], twins: list[frozenset[str]]
) -> Iterator[Violation]:
    for stage in simulation.stages:
        for line in stage.told:
            file = f"data-{line.commit}.parquet"
            if (
                line.outcome == "committed"
                and line.snapshot is not None
                and not (
                    line.snapshot.identity in chain
                    if line.snapshot.identity
                    else _has_landed(line.commit, landed, twins)
                )
            ):
                yield Violation("G1", f"{line.commit} was reported as committed, but is not part of the history")
            if line.outcome == "not committed" and file in landed:
                yield Violation("G2", f"{line.commit} was reported as not committed ({line.detail}), but landed")
            if line.outcome == "unknown" and simulation.faults == 0:
                yield Violation("honesty", f"{line.commit} was reported as unknown, although nothing had failed")
    for group in twins:
        times = sum(landed.count(f"data-{label}.parquet") for label in group)
        if times > 1:
            yield Violation("G3", f"one identity landed {times} times: {', '.join(sorted(group))}")
