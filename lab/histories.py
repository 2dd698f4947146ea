"""Seeded histories of jobs that read and write a few keys at once: is there a serial order that respects the time?

Owns: `run_history`, `HistoryRun`. Must not know: how time passes, how orders are searched. Source: architecture §8 (seeds);
decision 82; H14.
Invariants: what a commit did, and what it found, is taken from its snapshot at the publication, never from the table that is
judged. A seed replays to the same history.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from .actors import Actor, Role
from .published import Chronicle, History, Published, chain
from .reading import look
from .row_changers import Changer, Replacer
from .schedule import Simulation, Weather
from .seeds import ROUGH
from .serial import Op, Undecided, closest_before, contradiction, values_of, writer_of
from .simulated_store import Objects
from .stage import Stage, keyed_schema
from .upserters import Upserter, key_compactor

STORMY = replace(ROUGH, faults={name: share for name, share in ROUGH.faults.items() if not name.startswith("misses")})
"""Where a listing lags, a job may begin on an older snapshot than the newest: that is serial, without regard to the time."""
KEYS = ("1", "2", "3")
BETWEEN_S = 0.4
"""The average time between the beginnings of two jobs; a commit takes about as long."""


@dataclass(frozen=True)
class HistoryRun:
    """The result of one seed.

    Attributes:
        commits: how many commits of rows are in the history.
        wrong: what no serial order explains, or whose outcome was told wrongly; empty if nothing is.
        undecided: whether there were too many orders to judge it.
    """

    seed: int
    commits: int
    wrong: str = ""
    undecided: bool = False


def run_history(seed: int, *, jobs: int = 14, weather: Weather = STORMY) -> HistoryRun:
    """Run jobs that upsert, delete, change and remove rows, and compactors, and judge what is left.

    >>> run_history(1, jobs=4, weather=Weather()).wrong
    ''
    """
    dice, chronicle, history = random.Random(f"history {seed}"), Chronicle(), dict[str, Published]()
    times: dict[str, tuple[float, float]] = {}

    def noted(key: str, objects: Objects) -> None:
        history.update(chronicle.noted(history, objects, key))

    schema, at_s = keyed_schema(), 0.0
    simulation = Simulation(seed, weather, schema, noted)
    simulation.objects = {"schema/schema-0": schema.to_json()}

    def timed(role: Role) -> Role:
        def run(stage: Stage) -> None:
            label, began = f"{stage.name}1", simulation.now_s
            times[label] = began, inf
            role(stage)
            times[label] = began, simulation.now_s

        return run

    for number in range(jobs):
        role = _job(dice) if number else Upserter(KEYS)
        simulation.add(Actor(f"J{number}", timed(role)), at_s)
        at_s += 3 * BETWEEN_S if not number else dice.expovariate(1 / BETWEEN_S)
    simulation.run()
    return _judged(seed, simulation, history, times)


def _job(dice: random.Random) -> Role:
    """One job. Its numbers are those of a clock that may be ahead."""
    ahead = dice.choice((1, 10, 20, 30, 40))
    some = tuple(sorted(dice.sample(KEYS, dice.choice((1, 1, 2)))))
    kinds: tuple[Callable[[], Role], ...] = (
        lambda: Upserter(tuple(dice.choice(("", "", "-")) + key for key in some), ahead),
        lambda: Upserter(some, ahead),
        lambda: Changer(some, ahead),
        lambda: Changer(KEYS, ahead),
        lambda: Replacer(dice.choice(((), some)), ahead),
        key_compactor,
    )
    return dice.choice(kinds)()


def _judged(seed: int, simulation: Simulation, history: History, times: dict[str, tuple[float, float]]) -> HistoryRun:
    top = look(simulation.objects).top
    if top is None:
        return HistoryRun(seed, 0, "the table cannot be read, or is empty")
    past = list(reversed(list(chain(history, top.snapshot.identity))))
    landed = {made.commit for made in past}
    for line in (line for stage in simulation.stages for line in stage.told):
        if line.outcome == "committed" and line.commit not in landed:
            return HistoryRun(seed, len(past), f"{line.commit} was told as committed, and is not in the table")
        if line.outcome == "not committed" and line.commit in landed:
            return HistoryRun(seed, len(past), f"{line.commit} was told as not committed, and is in the table")
    writes = [made for made in past if made.puts]
    after = closest_before({made.commit: times[made.commit] for made in writes})
    ops = [Op(made.commit, made.puts, after[made.commit], _found(made)) for made in writes]
    try:
        return HistoryRun(seed, len(ops), contradiction(ops, values_of(top.visible)))
    except Undecided:
        return HistoryRun(seed, len(ops), undecided=True)


def _found(made: Published) -> dict[str, str]:
    """The commits whose values a change of rows has read, by key."""
    values = values_of(made.rows or ())
    keys = [put[1:] for put in made.puts if put[0] == "+"]
    ours = {key: values[key] for key in keys if writer_of(values.get(key, "")) == made.commit}
    return {key: ours[key].partition("_")[2] if key in ours else "" for key in keys}
