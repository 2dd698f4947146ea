"""Checks that a column's stored values survive a change of its type, by the statistics of the files.

Owns: `StoredValues`. Must not know: which casts keep what (`core.casts.keeping`), how a schema is changed.
Source: format/statistics §1; format/schema §5. Invariant: a change is let through only if every live file shows that it keeps all
values. Rows that other writers commit at the same time are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ..core.casts.keeping import always_kept, can_fail, judged
from ..core.errors import InvalidArgument, TableCorrupt
from ..core.metadata.data_file import DataFile
from ..core.metadata.folding import live
from ..core.metadata.snapshot import Snapshot
from ..core.rows.types import INTEGER_ROOTS, DataType, Field, sql, with_nullable
from ..core.statistics.collect import UNKNOWN, ColumnStats, decode_column_stats, file_stats_fields
from .history.timeline import Timeline


class StoredValues:
    """The values of a table's columns, as its newest snapshot's metadata tells; without one, every change keeps all."""

    def __init__(self, timeline: Timeline, snapshot: Snapshot | None) -> None:
        self._timeline = timeline
        self._snapshot = snapshot

    def check(self, name: str, column: Field | None, source: DataType, target: DataType) -> None:
        """Check the change of one column, or of a part of a nested one, of which there are no statistics (`column` None). Raises
        InvalidArgument if a value would be lost or could not be read, or nothing shows that none would.
        """
        if always_kept(source, target):
            return
        untold = ""
        change = f"column '{name}' from {sql(source)} to {sql(target)}"
        for file in self._files:
            stats = UNKNOWN if column is None else self._stats(file, column, source)
            if stats.null_count == file.row_count:
                continue
            verdict, value = judged(source, target, stats.min, stats.max)
            if verdict in ("lost", "fails"):
                what = "is no" if verdict == "fails" else "does not fit"
                ends = "every read of it would fail" if verdict == "fails" else "it would be read as another value"
                raise InvalidArgument(
                    f"changing {change} would not keep its values: {file.file_name} has {value!r}, which {what} "
                    f"{sql(target)}, so {ends}",
                    next_step=_FORCE,
                )
            if verdict == "unknown":
                untold = untold or file.file_name
        if untold:
            ends = "a text that is none makes every later read fail" if can_fail(source, target) else _SILENTLY
            raise InvalidArgument(
                f"changing {change} may not keep its values, and the statistics (of {untold}, for example) cannot tell: {ends}",
                next_step=_FORCE,
            )

    @cached_property
    def _files(self) -> list[DataFile]:
        return list(self._read())

    def _read(self) -> Iterator[DataFile]:
        if self._snapshot is not None:
            manifests = self._timeline.manifests(self._snapshot)
            yield from (entry.file for entry in live(self._timeline.entries(manifests)))

    def _stats(self, file: DataFile, column: Field, source: DataType) -> ColumnStats:
        """The statistics of a column, whatever its name was; unknown ones if the column had another type by then."""
        written = self._timeline.schema(file.schema_id)
        held = next((field for field in written.fields if field.id == column.id), None)
        if held is None or (file.write_cols is not None and held.name not in file.write_cols):
            return ColumnStats(null_count=file.row_count)
        fields = file_stats_fields(written.fields, file.write_cols, file.value_stats_cols) or []
        position = next((i for i, field in enumerate(fields) if field.id == column.id), None)
        if position is None:
            return UNKNOWN
        try:
            stats = decode_column_stats(file.value_stats, position, fields, file.file_name)
        except TableCorrupt:
            return UNKNOWN
        return stats if _same_values(held.type, source) else ColumnStats(null_count=stats.null_count)


def _same_values(one: DataType, other: DataType) -> bool:
    """Whether bounds in one type are bounds in the other too."""
    roots = {getattr(one, "root", ""), getattr(other, "root", "")}
    return with_nullable(one, True) == with_nullable(other, True) or roots <= set(INTEGER_ROOTS)


_FORCE = "look at the values, change those that do not fit, then use force=True of update_type (--force in the shell)"
_SILENTLY = "a value that does not fit is read as another one or as null"
