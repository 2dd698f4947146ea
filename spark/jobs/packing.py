"""Splits, and steps of a table's changes, packed into the tasks of a job.

Owns: how much a task reads, and the frame whose rows are the tasks. Must not know: how splits are read. Source: format/spark §3.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ...table.changelog.steps import ChangeStep
from ...table.scan.split import Split

SPLIT_SCHEMA = "task int, splits binary"
TASK_BYTES = 128 << 20
OPEN_BYTES = 1 << 20
"""The cost of opening a file, in bytes read."""
LEAST_BYTES = 4 * OPEN_BYTES
"""Less than this is not worth a task of its own."""
_Part = TypeVar("_Part")


def frame_of(spark: Any, groups: Sequence[Any]) -> Any:
    """A frame with a row for each task, which holds its splits or steps."""
    rows = [(i, pickle.dumps(group)) for i, group in enumerate(groups)]
    frame = spark.createDataFrame(rows, SPLIT_SCHEMA)
    return frame.repartitionById(len(groups), F.col("task")) if len(groups) > 1 else frame.coalesce(1)


def packed(splits: Sequence[Split], tasks: int, most_bytes: int) -> list[list[Split]]:
    """Group splits into a few large tasks, because starting a task costs more than opening a file.

    Args:
        tasks: how many tasks run at once; there are this many groups if there are enough splits.
        most_bytes: the size of a group, which only its last split may exceed.
    """
    if not splits:
        return []
    weights = [split.size + OPEN_BYTES * len(split.files) for split in splits]
    total = sum(weights)
    return _levelled(splits, weights, max(min(tasks, -(-total // LEAST_BYTES)), -(-total // most_bytes)))


def packed_steps(steps: Sequence[ChangeStep], tasks: int) -> list[list[ChangeStep]]:
    """Group steps into at most so many tasks of about the same size, and few where there is little to read."""
    weights = _weights(steps)
    return _levelled(steps, weights, min(tasks, -(-sum(weights) // LEAST_BYTES)))


def in_order(steps: Sequence[ChangeStep], tasks: int) -> list[list[ChangeStep]]:
    """Group steps into about so many tasks of about the same size, each of which goes on where the one before it ends.

    So the rows of a batch are in the order of the snapshots, from task to task. Writers of tables with a primary key rely on it.
    """
    weights = _weights(steps)
    most = max(LEAST_BYTES, -(-sum(weights) // tasks))
    groups: list[list[ChangeStep]] = []
    held = 0
    for step, weight in zip(steps, weights, strict=True):
        if not groups or held + weight > most:
            groups.append([])
            held = 0
        groups[-1].append(step)
        held += weight
    return groups


def _weights(steps: Sequence[ChangeStep]) -> list[int]:
    return [step.size + OPEN_BYTES * sum(len(split.files) for split in step.splits) for step in steps]


def _levelled(parts: Sequence[_Part], weights: Sequence[int], count: int) -> list[list[_Part]]:
    """At most so many groups of about the same weight."""
    groups: list[list[_Part]] = [[] for _ in range(min(count, len(parts)))]
    loads = [0] * len(groups)
    for weight, part in sorted(zip(weights, parts, strict=True), key=lambda pair: -pair[0]):
        lightest = loads.index(min(loads))
        groups[lightest].append(part)
        loads[lightest] += weight
    return groups
