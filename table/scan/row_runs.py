"""Data evolution: group the files that hold columns of the same rows, and choose the file that gives each column.

Owns: runs of files over the same row ids (option `data-evolution.enabled`). Must not know: stores, how files are read.
Source: format/data-files §7.

Invariants: Every file is in exactly one run. A column is taken from the newest file that holds it. Each file of a BLOB column may
hold only some of the run's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.paths import BLOB_FORMAT, format_of
from ...core.rows.types import Field

SchemaOf = Callable[[int], TableSchema]


def row_runs(files: Iterable[DataFile]) -> list[tuple[DataFile, ...]]:
    """Group files into runs over the same rows, in the order of row ids. A file without row ids is a run of its own.

    >>> files = [DataFile("a", 1, 5, first_row_id=0), DataFile("b", 1, 5, first_row_id=0), DataFile("c", 1, 2, first_row_id=5)]
    >>> [len(run) for run in row_runs(files)]
    [2, 1]
    """
    runs: list[list[DataFile]] = []
    end = -1
    for file in sorted(files, key=lambda f: -1 if f.first_row_id is None else f.first_row_id):
        if file.first_row_id is None or file.first_row_id >= end:
            runs.append([])
        runs[-1].append(file)
        if file.first_row_id is not None:
            end = max(end, file.first_row_id + file.row_count)
    return [_ordered(run) for run in runs]


def _ordered(run: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The files of a run with the newest first, and files of BLOBs after the others."""
    ordered = sorted(run, key=lambda f: (is_blob(f), -f.max_sequence_number))
    whole = {(f.first_row_id, f.row_count) for f in ordered if not is_blob(f)}
    if len(whole) != 1:
        names = ", ".join(f.file_name for f in ordered)
        raise TableCorrupt(f"the row ids of data files {names} overlap, but are not the same")
    return tuple(ordered)


def is_blob(file: DataFile) -> bool:
    """Does the file hold only the values of one BLOB column?"""
    return format_of(file.file_name) == BLOB_FORMAT


def first_row(run: Sequence[DataFile]) -> int:
    return min(f.first_row_id or 0 for f in run)


def row_count(run: Sequence[DataFile]) -> int:
    if len(run) == 1:
        return run[0].row_count
    return max((f.first_row_id or 0) + f.row_count for f in run) - first_row(run)


def holds(file: DataFile, field: Field, schema_of: SchemaOf) -> bool:
    """Does the file have this column, by its field id?"""
    for written in schema_of(file.schema_id).fields:
        if written.id == field.id:
            return file.write_cols is None or written.name in file.write_cols
    return field.id in (ROW_ID.id, ROW_SEQUENCE.id)


def givers(run: Sequence[DataFile], fields: Sequence[Field], schema_of: SchemaOf) -> dict[DataFile, list[Field]]:
    """The columns that are taken from each file of a run. A column of BLOBs is taken from all files that hold it.

    The result always has the first file, for the number of rows and for the columns that no file has.
    """
    held = [_held(file, schema_of) for file in run]
    given: list[list[Field]] = [[] for _ in run]
    for field in fields:
        found = [i for i, ids in enumerate(held) if field.id in ids] or [0]
        for i in [i for i in found if is_blob(run[i])] if is_blob(run[found[0]]) else found[:1]:
            given[i].append(field)
    return {file: columns for i, (file, columns) in enumerate(zip(run, given, strict=True)) if columns or not i}


def _held(file: DataFile, schema_of: SchemaOf) -> set[int]:
    names = None if file.write_cols is None else set(file.write_cols)
    written = (f.id for f in schema_of(file.schema_id).fields if names is None or f.name in names)
    return {*written, ROW_ID.id, ROW_SEQUENCE.id}
