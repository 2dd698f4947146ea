"""Seeded histories of jobs that read and write a few keys at once: is there a serial order that respects the time?

Owns: `run_history`, `HistoryRun`. Must not know: how time passes, how orders are searched. Source: architecture §8
(seeds); decisions 82 and 84; H13, H14. Invariants: what a commit did, and what it found, is taken from its snapshot at
the publication, never from the table that is judged. A seed replays to the same history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from ...core.errors import LakelatchError
from ..actors.cloning import broken_copies, cloner
from ..actors.jobs import Actor, Role, writer
from ..actors.maintainers import restorer
from ..actors.rewriters import compactor
from ..actors.row_changers import Changer, Replacer
from ..actors.undoing import undoer
from ..actors.upserters import Upserter, key_compactor
from ..judging.contradictions import contradiction
from ..judging.serial import Op, Undecided, closest_before, kept_by, values_of, writer_of
from ..world.published import Chronicle, History, Published, chain
from ..world.reading import look
from ..world.simulated_store import Objects
from ..world.stage import Stage, keyed_schema, lab_schema
from .schedule import Simulation, Weather
from .seeds import ROUGH

STORMY = replace(ROUGH, faults={name: share for name, share in ROUGH.faults.items() if not name.startswith("misses")})
"""Where a listing lags, a job may begin on an older snapshot than the newest: that is serial, without regard to the time."""
KEYS = ("1", "2", "3")
BETWEEN_S = 0.4
"""The average time between the beginnings of two jobs; a commit takes about as long."""


@dataclass(frozen=True)
class HistoryRun:
    """The result of one seed."""

    seed: int
    commits: int
    wrong: str = ""
    undecided: bool = False


def run_history(seed: int, *, jobs: int = 14, weather: Weather = STORMY) -> HistoryRun:
    """Run jobs that write, change and remove rows, take commits back, and compact, and judge what is left.

    Of three seeds, one has a table without a primary key, whose jobs ride with each other, one a table with a key, and one a
    table with a key whose upserts ride.

    >>> run_history(1, jobs=4, weather=Weather()).wrong
    ''
    """
    dice, chronicle, history = random.Random(f"history {seed}"), Chronicle(), dict[str, Published]()
    times: dict[str, tuple[float, float]] = {}
    has_keys, choose = bool(seed % 3), (_rider, _job, _riding_job)[seed % 3]

    def noted(key: str, objects: Objects) -> None:
        history.update(chronicle.noted(history, objects, key))

    options = {} if choose is _job else {"commit.group": "auto"}
    schema, at_s = keyed_schema(**options) if has_keys else lab_schema(**options), 0.0
    simulation = Simulation(seed, weather, schema, noted)
    simulation.objects = {"schema/schema-0": schema.to_json()}

    def timed(role: Role) -> Role:
        def run(stage: Stage) -> None:
            label, began = f"{stage.name}1", simulation.now_s
            times[label] = began, inf
            role(stage)
            if all(line.outcome != "unknown" for line in stage.told):
                times[label] = began, simulation.now_s

        return run

    writers: list[str] = []
    clones = 0 if has_keys else dice.randrange(2, 2 * jobs)
    for number in range(jobs):
        name = f"J{number}"
        if number and number == clones:
            writes, role = False, _copies(recovers=dice.random() < 0.5)
        else:
            writes, role = choose(dice, writers)
        writers += [name] if writes else []
        simulation.add(Actor(name, timed(role)), at_s)
        at_s += 3 * BETWEEN_S if not number else dice.expovariate((1 if choose is _job else 3) / BETWEEN_S)
    simulation.run()
    return _judged(seed, simulation, history, times)


Chosen = tuple[bool, Role]


def _job(dice: random.Random, writers: list[str]) -> Chosen:
    """One job of a table with a primary key. Its numbers are those of a clock that may be ahead. The first writes all keys."""
    if not writers:
        return True, Upserter(KEYS)
    ahead = dice.choice((1, 10, 20, 30, 40))
    some = tuple(sorted(dice.sample(KEYS, dice.choice((1, 1, 2)))))
    kinds: tuple[Callable[[], Chosen], ...] = (
        lambda: (True, Upserter(tuple(dice.choice(("", "", "-")) + key for key in some), ahead)),
        lambda: (True, Upserter(some, ahead)),
        lambda: (True, Changer(some, ahead)),
        lambda: (True, Changer(KEYS, ahead)),
        lambda: (True, Replacer(dice.choice(((), some)), ahead)),
        lambda: (False, key_compactor()),
        lambda: (False, undoer(dice.choice(writers[-4:]))),
        lambda: (
            False,
            undoer(dice.choice(writers[-4:])) if dice.random() < 0.5 else restorer(back=dice.choice((1, 2, 3))),
        ),
    )
    return dice.choice(kinds)()


def _riding_job(dice: random.Random, writers: list[str]) -> Chosen:
    """One job of a table with a primary key whose upserts ride. Two with the same clock give the same numbers."""
    if not writers or dice.random() < 0.5:
        return _job(dice, writers)
    some = tuple(sorted(dice.sample(KEYS, dice.choice((1, 1, 2)))))
    puts = tuple(dice.choice(("", "", "-")) + key for key in some)
    return True, Upserter(puts, dice.choice((10, 20, 21, 30)), rides=True, meets=dice.random() < 0.7)


def _rider(dice: random.Random, writers: list[str]) -> Chosen:
    """One job of a table whose appends ride with each other. The first appends alone."""
    if not writers:
        return True, writer(rides=True)
    kinds: tuple[tuple[int, Callable[[], Chosen]], ...] = (
        (4, lambda: (True, writer(rides=True, meets=True))),
        (3, lambda: (True, writer(rides=True, behind=True, resolves=True))),
        (1, lambda: (True, writer(rides=True, behind=True, journaled=True, opens=True))),
        (1, lambda: (True, writer(overwrites=True))),
        (3, lambda: (False, undoer(dice.choice(writers[-6:])))),
        (1, lambda: (False, restorer(back=dice.choice((1, 2, 3))))),
        (1, lambda: (False, compactor())),
    )
    return dice.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]()


def _copies(*, recovers: bool) -> Role:
    def role(stage: Stage) -> None:
        with suppress(LakelatchError):
            if stage.timeline().latest() is not None:
                cloner(recovers=recovers)(stage)

    return role


def _judged(seed: int, simulation: Simulation, history: History, times: dict[str, tuple[float, float]]) -> HistoryRun:
    top = look(simulation.objects).top
    if top is None:
        return HistoryRun(seed, 0, "the table cannot be read, or is empty")
    past = list(reversed(list(chain(history, top.snapshot.identity))))
    made = [(number, commit, one) for number, one in enumerate(past) for commit in _commits(one)]
    landed = {commit for _, commit, _ in made}
    for wrong in _told_wrongly(simulation, landed, history):
        return HistoryRun(seed, len(past), wrong)
    last = {number: place for place, (number, _, _) in enumerate(made)}
    backs = [last[one.restores - 1] if one.restores else -1 for _, _, one in made]
    kept = kept_by([(commit, one.undoes, back) for (_, commit, one), back in zip(made, backs, strict=True)])
    after = closest_before({commit: times[commit] for _, commit, _ in made})
    seen = {key for one in past for key in _values(one.rows or ())}
    ops = [
        Op(
            commit,
            _puts(commit, one),
            after[commit],
            _found(one),
            one.undoes,
            kept[place] if one.restores else None,
            {key: _values(one.rows or ()).get(key, "") for key in seen} if last[number] == place else {},
        )
        for place, (number, commit, one) in enumerate(made)
    ]
    try:
        return HistoryRun(seed, len(ops), contradiction(ops, _values(top.visible)))
    except Undecided:
        return HistoryRun(seed, len(ops), undecided=True)


def _told_wrongly(simulation: Simulation, landed: set[str], history: History) -> Iterator[str]:
    for stage in simulation.stages:
        copied = (line for line in stage.told if not line.detail)
        yield from broken_copies(copied, simulation.objects, history.keys())
        for line in stage.told:
            if line.outcome == "committed" and line.commit not in landed:
                yield f"{line.commit} was told as committed, and is not in the table"
            if line.outcome == "not committed" and line.commit in landed:
                yield f"{line.commit} was told as not committed, and is in the table"


def _commits(made: Published) -> tuple[str, ...]:
    """The commits in a snapshot. One that says nothing of its own has appended rows, which name their commits."""
    return made.commits or tuple(sorted(made.added))


def _puts(commit: str, made: Published) -> tuple[str, ...]:
    if made.riders:
        return dict(made.riders)[commit]
    if commit not in made.added:
        return made.puts
    return ("*", commit) if made.commit else (commit,)


def _values(rows: Iterable[str]) -> dict[str, str]:
    """The values by key. A row without a primary key has a key of its own: its commit."""
    return values_of(row if "~" in row else f"{row}~{row}" for row in rows)


def _found(made: Published) -> dict[str, str]:
    """The commits whose values a change of rows has read, by key."""
    values = _values(made.rows or ())
    keys = [put[1:] for put in made.puts if put[0] == "+"]
    ours = {key: values[key] for key in keys if writer_of(values.get(key, "")) == made.commit}
    return {key: ours[key].partition("_")[2] if key in ours else "" for key in keys}
