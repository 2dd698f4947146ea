"""What the model of riding is asked: scenarios in which all must hold, and tempting variants that must break.

Owns: `SCENARIOS`, `VARIANTS`, and how they are told. Must not know: how a search is done. Source: decision 120.
"""

from __future__ import annotations

from typing import Any

from .riding import Model
from .riding_table import Job, Rules
from .search import explore


def rider(rows: str, *jumps: int, **more: Any) -> Job:
    return Job("write", rows, jumps or (0, 2), rides=True, first=True, **more)


def leader(rows: str, *jumps: int, **more: Any) -> Job:
    return Job("write", rows, jumps or (0, 2), leads=True, **more)


GIVES_UP = (rider("a+", gives_up=True), leader("b+"), leader("c+", 0))
OLD = (rider("a+", 0, gives_up=True), leader("b+", 0, old=True))
SCENARIOS: dict[str, tuple[Job, ...]] = {
    "two riders, one deletes, and a leader of several rows": (rider("a+ b+"), rider("a+ b-", 2, 4), leader("b+++")),
    "a rider in three buckets with others": (
        rider("a+ b+", 2),
        rider("b+ c+", 3),
        leader("c+ a+", 0, after=(3,)),
        Job("write", "c+", (4,)),
    ),
    "a rider, two leaders one after the other": (rider("a+ b+"), leader("b+"), leader("a+", after=(1,))),
    "a rider beside a compaction that drops deletes": (
        rider("a+ b+", 0),
        leader("a- b+", 2),
        leader("c+", 0),
        Job("compact"),
    ),
    "a rider beside an UPDATE": (rider("a+", 0), Job("write", "c+", (2,)), Job("update", "a+"), leader("b+", 0)),
    "a rider beside a rescale": (rider("a+"), Job("rescale"), leader("b+")),
    "a rider that gives up": GIVES_UP,
    "a rider that gives up beside an older version": OLD,
    "row ids": (rider("a+", 0, ids=2), leader("b+", 0, ids=1), leader("c+", 0, ids=2)),
    "watermarks": (rider("a+", mark=3, gives_up=True), leader("b+", mark=2), Job("write", "a+", (0, 2), mark=1)),
}
VARIANTS: dict[str, tuple[str, Rules]] = {
    "a leader does not compare its riders' numbers": (
        "two riders, one deletes, and a leader of several rows",
        Rules(apart=False),
    ),
    "it does not compare them with those of its base": (
        "a rider, two leaders one after the other",
        Rules(apart_from_base=False),
    ),
    "each bucket has numbers of its own": ("a rider in three buckets with others", Rules(one_number=False)),
    "a leader builds on a compaction": ("a rider beside a compaction that drops deletes", Rules(onto_appends=False)),
    "or on an UPDATE that has not seen the rider": ("a rider beside an UPDATE", Rules(after_reads=False)),
    "it does not compare buckets": ("a rider beside a rescale", Rules(same_buckets=False, onto_appends=False)),
    "it keeps its riders after a lost race": (
        "two riders, one deletes, and a leader of several rows",
        Rules(chosen_anew=False),
    ),
    "a rider takes its row ids by itself": ("row ids", Rules(ids_by_leader=False)),
    "a snapshot has the watermark of all who ask": ("watermarks", Rules(marks_of_carried=False)),
    "a rider that gives up deletes its intent": ("a rider that gives up", Rules(closing="withdraws")),
    "it closes one of its two ids": ("a rider that gives up", Rules(closing="one snapshot")),
    "it is named as closed, and an older version leads": (
        "a rider that gives up beside an older version",
        Rules(closing="named"),
    ),
    "it does not look for itself in what it lost to": (
        "a rider that gives up",
        Rules(closing="named", looks_before_closing=False),
    ),
}


def main() -> None:
    for title, jobs in SCENARIOS.items():
        found = explore(Model(jobs))
        print(f"{title}: {found.broken or 'holds'}, {found.states} states")
    for title, (scenario, rules) in VARIANTS.items():
        found = explore(Model(SCENARIOS[scenario], rules))
        print(f"\n{title}: {found.broken or 'NOTHING BREAKS'}, {len(found.story)} steps")
        for number, line in enumerate(found.story, 1):
            print(f"  {number}. {line}")
