"""Which partitions are too old, and which are done: plans, and the marks beside the rows.

Owns: `plan_partition_expiry`, `PartitionExpiry`, `mark_partitions`, `idle_partitions`, `MarkedPartitions`. Must not know: how
partitions are dropped, the command line. Source: format/commit §9; decision 67.
Invariants: a partition whose values stand for no time never expires by them. Marks are files in a partition's folder that no
reader takes for data; a mark that exists keeps the time at which it was made first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone, tzinfo
from typing import Any

from ..backends.store import ObjectNotFound, Store
from ..coordinator.commit.receipt import Receipt
from ..core import options as opt
from ..core.arguments import listed
from ..core.errors import InvalidArgument, TableCorrupt, Unsupported
from ..core.html_text import ShownAsText
from ..core.json_text import parse_json
from ..core.metadata.schema import TableSchema
from ..core.places import codec_of
from ..core.rows.partition_times import PartitionTimes, value_text
from .partition_reports import report_partition, service_of
from .system.listings import PartitionTotal

SUCCESS_FILE = "_SUCCESS"
BY_FILE, BY_HTTP = "success-file", "http-report"
STRATEGIES = ("values-time", "update-time")
_NEEDS = {
    "done-partition": "a metastore",
    "mark-event": "a metastore",
    "custom": "a Java class",
}
"""Actions that are not carried out here, and what they need."""


@dataclass(frozen=True)
class ExpiredPartition:
    """`time` is that of its values, or at which its newest file was made: ISO text without a zone; `size` is in bytes."""

    partition: str
    time: str
    rows: int
    size: int
    files: int


@dataclass(frozen=True)
class PartitionExpiry(ShownAsText):
    """The partitions that an expiry drops, in order. Prints as one line.

    Attributes:
        before: those whose time is before this one expire: ISO text without a zone.
        left: how many more are too old, but beyond option `partition.expiration-max-num`.
        timeless: how many have values that stand for no time; these never expire by `values-time`.
        receipts: one for each commit; empty for a plan.
    """

    partitions: tuple[ExpiredPartition, ...]
    before: str
    strategy: str
    left: int = 0
    timeless: int = 0
    receipts: tuple[Receipt, ...] = ()
    batches: tuple[tuple[dict[str, Any], ...], ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        rows, size = sum(one.rows for one in self.partitions), sum(one.size for one in self.partitions)
        which = "no partition expires" if not self.partitions else f"{len(self.partitions)} partitions expire"
        held = f": {rows} rows in {size} bytes, before {self.before}" if self.partitions else f" before {self.before}"
        left = f"; {self.left} more are too old" if self.left else ""
        return f"{which}{held}{left}" + (f"; {self.timeless} stand for no time" if self.timeless else "")

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "partitions": [asdict(one) for one in self.partitions],
            "before": self.before,
            "strategy": self.strategy,
            "left": self.left,
            "timeless": self.timeless,
            "snapshots": [receipt.snapshot_id for receipt in self.receipts],
        }


def plan_partition_expiry(
    schema: TableSchema,
    totals: Sequence[PartitionTotal],
    now_ms: int,
    zone: tzinfo | None,
    older_than_ms: int | None = None,
    strategy: str | None = None,
    max_partitions: int | None = None,
) -> PartitionExpiry:
    """The partitions that are too old. Pure.

    Arguments replace the options; without a zone, the times of partitions and files are those of this machine's.

    Raises:
        InvalidArgument: the table has no partitions, or neither the argument nor the option says how old they may become.
        Unsupported: the options have a date pattern or a strategy that is not supported; names it.
    """
    options = schema.options
    kept_ms = options.get(opt.PARTITION_EXPIRATION_TIME) if older_than_ms is None else older_than_ms
    if not schema.partition_keys:
        raise InvalidArgument("the table has no partitions")
    if kept_ms is None:
        raise InvalidArgument(
            "nothing says how old partitions may become",
            next_step=f"pass older_than, or set option '{opt.PARTITION_EXPIRATION_TIME.key}'",
        )
    strategy = strategy or options.get(opt.PARTITION_EXPIRATION_STRATEGY)
    if strategy not in STRATEGIES:
        raise Unsupported(
            f"option '{opt.PARTITION_EXPIRATION_STRATEGY.key}' is {strategy!r}",
            next_step=f"use {' or '.join(STRATEGIES)}",
        )
    before_ms = wall_ms(now_ms, zone) - kept_ms
    times = times_of(schema) if strategy == "values-time" else None
    codec = codec_of(schema)
    timed = [(total, codec.decode(total.partition)) for total in totals]
    found = [(t, v, t.last_creation_ms if times is None else times.of(v)) for t, v in timed]
    old = [(t, v, ms) for t, v, ms in found if ms is not None and ms < before_ms]
    old.sort(key=lambda one: ",".join(_sorted_by(v, f) for v, f in zip(one[1], codec.fields, strict=True)))
    limit = options.get(opt.PARTITION_EXPIRATION_MAX) if max_partitions is None else max_partitions
    doomed = old[: max(limit, 0)]
    size = options.get(opt.PARTITION_EXPIRATION_BATCH) or max(len(doomed), 1)
    specs = [{f.name: value for f, value in zip(codec.fields, v, strict=True)} for _, v, _ in doomed]
    return PartitionExpiry(
        tuple(ExpiredPartition(t.path, wall_text(ms), t.rows, t.size, t.files) for t, _, ms in doomed),
        wall_text(before_ms),
        strategy,
        len(old) - len(doomed),
        sum(ms is None for _, _, ms in found),
        batches=tuple(tuple(specs[i : i + size]) for i in range(0, len(specs), size)),
    )


def _sorted_by(value: Any, column: Any) -> str:
    return opt.PARTITION_DEFAULT_NAME.default if value is None else value_text(value, column)


def times_of(schema: TableSchema) -> PartitionTimes:
    options = schema.options
    pattern, formatter = options.get(opt.PARTITION_TIMESTAMP_PATTERN), options.get(opt.PARTITION_TIMESTAMP_FORMATTER)
    return PartitionTimes(schema.partition_fields, pattern, formatter)


def wall_ms(now_ms: int, zone: tzinfo | None) -> int:
    """What a clock on the wall shows, in milliseconds since 1970 as if it were UTC. `zone` None: this machine's.

    >>> wall_ms(0, timezone.utc)
    0
    """
    shown = datetime.fromtimestamp(now_ms / 1000, timezone.utc).astimezone(zone)
    offset = shown.utcoffset()
    assert offset is not None
    return now_ms + round(offset.total_seconds() * 1000)


def wall_text(ms: int | None) -> str:
    """`2026-01-01T10:00:00`; for times that Python cannot hold, the number of milliseconds since 1970."""
    if ms is None:
        return ""
    try:
        return datetime.fromtimestamp(ms / 1000, timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


# --------------------------------------------------------------------------------------------------------------- marks


@dataclass(frozen=True)
class MarkedPartitions(ShownAsText):
    partitions: tuple[str, ...]
    actions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.partitions)} partitions marked as done: {', '.join(self.partitions) or 'none'}"

    def to_dict(self) -> dict[str, Any]:
        """With stable keys, ready for JSON."""
        return {"partitions": list(self.partitions), "actions": list(self.actions)}


def actions_of(schema: TableSchema) -> tuple[str, ...]:
    """The actions of the option. `Unsupported`: one needs what lakelatch lacks; `InvalidArgument`: it lacks its service."""
    key = opt.PARTITION_MARK_DONE_ACTION.key
    actions = tuple(
        filter(None, (part.strip() for part in schema.options.get(opt.PARTITION_MARK_DONE_ACTION).split(",")))
    )
    for action in actions:
        if action == BY_HTTP:
            service_of(schema)
        elif action != BY_FILE:
            needs = _NEEDS.get(action)
            told = f"which needs {needs}" if needs else "which is not known"
            raise Unsupported(f"option '{key}' names {action!r}, {told}", next_step=f"set '{key}' to success-file")
    return actions


def named_partitions(
    schema: TableSchema, totals: Sequence[PartitionTotal], partitions: Sequence[Mapping[str, Any] | str]
) -> list[str]:
    """The paths of partitions: of a full name that one, of a partial name all that exist; if none does, `InvalidArgument`."""
    codec = codec_of(schema)
    found: dict[str, None] = {}
    for spec in map(codec.parse_spec, listed(partitions, "partitions", "a list of partitions")):
        if not spec:
            raise InvalidArgument(
                "a partition is named by at least one of its columns", next_step='such as {"dt": "…"}'
            )
        if len(spec) == len(codec.fields):
            paths = [codec.path([spec[f.name] for f in codec.fields])]
        else:
            paths = [t.path for t in totals if codec.matches(codec.decode(t.partition), spec)]
        if not paths:
            raise InvalidArgument(f"no partition fits {spec}", next_step="see partitions()")
        found |= dict.fromkeys(paths)
    return list(found)


def idle_partitions(
    schema: TableSchema, store: Store, totals: Sequence[PartitionTotal], now_ms: int, idle_ms: int, zone: tzinfo | None
) -> list[str]:
    """The paths of partitions that got no file for some time and are not marked since.

    With option `partition.time-interval` a partition is not idle before the interval that it stands for is over.
    """
    now, interval = wall_ms(now_ms, zone), schema.options.get(opt.PARTITION_TIME_INTERVAL)
    times, codec, found = times_of(schema), codec_of(schema), []
    for total in totals:
        last = total.last_creation_ms or 0
        if interval is not None:
            begun = times.of(codec.decode(total.partition))
            last = last if begun is None else max(last, begun + interval)
        if now - last <= idle_ms:
            continue
        marked = read_mark(store, total.path)
        if marked is None or wall_ms(marked.modification_ms, zone) < (total.last_creation_ms or 0):
            found.append(total.path)
    return found


@dataclass(frozen=True)
class Mark:
    """When a partition was marked first, and last, in milliseconds since 1970."""

    creation_ms: int
    modification_ms: int

    def to_json(self) -> bytes:
        """As Apache Paimon writes it.

        >>> Mark(1, 2).to_json()
        b'{\\n  "creationTime" : 1,\\n  "modificationTime" : 2\\n}'
        """
        fields = {"creationTime": self.creation_ms, "modificationTime": self.modification_ms}
        return json.dumps(fields, indent=2, separators=(",", " : ")).encode()


def read_mark(store: Store, path: str) -> Mark | None:
    """The mark of a partition; None if it has none. Raises TableCorrupt where it cannot be read."""
    key = f"{path}/{SUCCESS_FILE}"
    try:
        raw = parse_json(store.get(key))
        return Mark(int(raw["creationTime"]), int(raw["modificationTime"]))
    except ObjectNotFound:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise TableCorrupt(f"{key} is not a mark of a partition: {error!r}", next_step="delete the file") from error


def mark_partition(store: Store, schema: TableSchema, path: str, actions: Sequence[str], now_ms: int) -> None:
    """Mark a partition by one action after the other. `StoreUnavailable`: one failed; those after it were not begun."""
    for action in actions:
        if action == BY_HTTP:
            report_partition(store, schema, path)
        else:
            _write_mark(store, path, now_ms)


def _write_mark(store: Store, path: str, now_ms: int) -> None:
    """A mark that exists is kept, and its modification time is set."""
    found = read_mark(store, path)
    mark = Mark(now_ms, now_ms) if found is None else replace(found, modification_ms=now_ms)
    store.put(f"{path}/{SUCCESS_FILE}", mark.to_json())
