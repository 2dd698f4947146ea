"""A table that several writers change, and the rows that each of its snapshots must have.

Owns: changes as values, their meaning on a list of rows (the model), and how each writer carries them out. Must not know:
what is compared. Rows and partition values are in the encoding of `values.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from values import Row, decode_rows

import lakelatch as ll
from lakelatch.core.rows.types import AtomicType, DataType, Field

from . import pypaimon_env

Spec = dict[str, Any]
"""Partition column to encoded value; None is the null partition."""


@dataclass(frozen=True)
class Change:
    """One commit.

    Attributes:
        kind: `overwrite` replaces the partitions that agree with `spec` ({} = all), `dynamic` those that `rows` touch;
            `compact` rewrites data files, `compact_manifests` manifests: both change no row.
        rows: one list per append of a transaction; the other kinds use the first.
        specs: partitions, for `overwrite` (one) and `drop`.
        arguments: of lakelatch's commit: identity, properties, watermark.
    """

    kind: Literal["append", "overwrite", "dynamic", "drop", "truncate", "compact", "compact_manifests"]
    rows: tuple[Sequence[Row], ...] = ()
    specs: tuple[Spec, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def all_rows(self) -> list[Row]:
        return [row for part in self.rows for row in part]


def applied(rows: Sequence[Row], change: Change, names: Sequence[str], keys: Sequence[str]) -> list[Row]:
    """The rows of a table after a change: what everybody must agree about."""
    if change.kind in ("compact", "compact_manifests"):
        return list(rows)
    specs = change.specs
    places = [names.index(key) for key in keys]
    if change.kind == "dynamic":
        specs = tuple({names[p]: row[p] for p in places} for row in change.all_rows)
    replaced: list[Spec] = [] if change.kind == "append" else [{}] if change.kind == "truncate" else list(specs)
    kept = [row for row in rows if not any(_agrees(row, spec, names) for spec in replaced)]
    return kept + change.all_rows


def _agrees(row: Row, spec: Spec, names: Sequence[str]) -> bool:
    return all(repr(row[names.index(key)]) == repr(value) for key, value in spec.items())


# ------------------------------------------------------------------------------------------------------------ writers


class Writer(Protocol):
    """Who carries changes out."""

    def carry_out(self, path: Path, change: Change, fields: Sequence[Field]) -> None: ...


class Lakelatch:
    """Changes by lakelatch: by a table that is opened for each change, or one that is kept (a warm writer)."""

    def __init__(self, warm: bool = False) -> None:
        self._warm = warm
        self._tables: dict[Path, ll.Table] = {}

    def carry_out(self, path: Path, change: Change, fields: Sequence[Field]) -> None:
        table = self._tables.get(path) or ll.open_table(str(path))
        if self._warm:
            self._tables[path] = table
        data = [decode_rows(rows, fields) for rows in change.rows]
        arguments = change.arguments
        match change.kind:
            case "append":
                with table.transaction(**arguments) as transaction:
                    for part in data:
                        transaction.append(part)
            case "overwrite":
                table.overwrite(data[0], partition=change.specs[0], **arguments)
            case "dynamic":
                table.overwrite(data[0], dynamic=True, **arguments)
            case "drop":
                table.drop_partitions(change.specs, **arguments)
            case "truncate":
                table.truncate(**arguments)
            case "compact":
                table.compact(min_files=2)
            case other:
                raise NotImplementedError(f"lakelatch has no change {other} of its own yet")
        if not self._warm:
            table.committer.settle()  # its process has ended, and has written its hint before what others do next


class Java:
    """Changes by Apache Paimon."""

    def __init__(self, java: Any) -> None:
        self._java = java
        self._identifier = 0

    def carry_out(self, path: Path, change: Change, fields: Sequence[Field]) -> None:
        self._identifier += 1
        identity = {"commit_user": "java", "identifier": self._identifier}
        types = {f.name: f.type for f in fields}
        specs = [{name: java_text(value, types[name]) for name, value in spec.items()} for spec in change.specs]
        match change.kind:
            case "append":
                self._java.commit_rows(path, change.all_rows, **identity)
            case "overwrite" | "dynamic":
                options = {"dynamic-partition-overwrite": str(change.kind == "dynamic").lower()}
                spec = specs[0] if specs else {}
                self._java.commit_rows(path, change.all_rows, overwrite_partition=spec, options=options, **identity)
            case "drop":
                self._java.drop_partitions(path, specs)
            case "truncate":
                self._java.truncate(path)
            case "compact":
                self._java.compact_append_table(path, **identity)
            case "compact_manifests":
                self._java.compact_manifests(path)


class Pypaimon:
    """Changes by pypaimon, so far as it has them."""

    def carry_out(self, path: Path, change: Change, fields: Sequence[Field]) -> None:
        data = decode_rows(change.all_rows, fields)
        match change.kind:
            case "append":
                pypaimon_env.append(path, data)
            case "overwrite":
                pypaimon_env.overwrite(path, data, change.specs[0])
            case other:
                raise NotImplementedError(f"pypaimon is not asked for {other}")


def java_text(value: Any, data_type: DataType) -> str:
    """A partition value as Apache Paimon's API takes it."""
    root = data_type.root if isinstance(data_type, AtomicType) else ""
    if value is None:
        return "__DEFAULT_PARTITION__"
    if root.startswith("TIMESTAMP"):
        return str(value).replace("T", " ").removesuffix("Z")
    return str(value).lower() if root == "BOOLEAN" else str(value)


# ------------------------------------------------------------------------------------------------------------- ledger


class Ledger:
    """The table at `path`, and the rows of each of its snapshots.

    Args:
        rows: of the snapshots that are there already.
    """

    def __init__(self, path: Path, expected: dict[int, list[Row]] | None = None) -> None:
        self.path = path
        schema = ll.open_table(str(path)).schema
        self.fields, self.keys = schema.fields, schema.partition_keys
        self.expected: dict[int, list[Row]] = expected or {}

    @property
    def rows(self) -> list[Row]:
        """The rows of the latest snapshot."""
        return self.expected[max(self.expected)] if self.expected else []

    def change(self, writer: Writer, change: Change) -> None:
        """Carry out a change. If a compaction follows the commit, both snapshots have the new rows."""
        after = applied(self.rows, change, [f.name for f in self.fields], self.keys)
        writer.carry_out(self.path, change, self.fields)
        ids = [s.id for s in ll.open_table(str(self.path)).snapshots()]
        new = [i for i in ids if i not in self.expected]
        assert new or after == self.rows, f"{change.kind} made no snapshot"
        assert new == list(range(max(self.expected, default=0) + 1, max(ids, default=0) + 1)), new
        self.expected.update(dict.fromkeys(new, after))


def append(*rows: Sequence[Row], **arguments: Any) -> Change:
    """One append, or several of one transaction."""
    return Change("append", rows, arguments=arguments)


def overwrite(rows: Sequence[Row], spec: Spec, **arguments: Any) -> Change:
    return Change("overwrite", (rows,), (spec,), arguments)


def dynamic(rows: Sequence[Row], **arguments: Any) -> Change:
    return Change("dynamic", (rows,), arguments=arguments)


def drop(*specs: Spec, **arguments: Any) -> Change:
    return Change("drop", specs=specs, arguments=arguments)


TRUNCATE, COMPACT, COMPACT_MANIFESTS = Change("truncate"), Change("compact"), Change("compact_manifests")
