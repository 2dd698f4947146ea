"""What lies in a folder of plain files: the data files, their partitions, and the columns of all of them.

Owns: `SourceFile`, `list_source`, `columns_of`, the types of partition columns. Must not know: tables, commits.
Invariants: hidden files (a part of the path begins with `_` or `.`) and empty files are left out, as Spark leaves them out. All
files have the same partition columns. A partition column counts as a number or date only if its texts are written back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...core.errors import InvalidArgument, LakelatchError, Unsupported
from ...core.rows.arrow import from_arrow_schema
from ...core.rows.partition import DEFAULT_NAME, unescape_path_name
from ...core.rows.types import AtomicType, Field, sql, string, with_nullable
from ..formats.orc_reader import tail_of

FORMATS = ("parquet", "orc", "avro")
_NULLS = (DEFAULT_NAME, "__HIVE_DEFAULT_PARTITION__")
"""The names of folders whose partition value is null: Apache Paimon's, and that of Hive and Spark."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """`key` is relative to the folder; `partition` has the columns of the path in order, with unescaped texts; None for null."""

    key: str
    size: int
    partition: tuple[tuple[str, str | None], ...]


def list_source(store: Store) -> list[SourceFile]:
    """The data files of a folder, by key. `InvalidArgument`: there is none, or files differ in their partition columns."""
    found = [
        SourceFile(info.key, info.size, _partition(info.key))
        for info in store.list("")
        if info.size > 0 and not any(part[:1] in ("_", ".") for part in info.key.split("/"))
    ]
    found.sort(key=lambda file: file.key)
    if not found:
        raise InvalidArgument(f"{store.url} holds no files", next_step="check the URL of the folder")
    names = _names(found[0])
    for file in found:
        if _names(file) != names:
            raise InvalidArgument(
                f"{store.url}: {found[0].key} has the partition columns {list(names)}, but {file.key} has {list(_names(file))}",
                next_step="move one of them into another folder",
            )
    return found


def _partition(key: str) -> tuple[tuple[str, str | None], ...]:
    parts = (part.partition("=") for part in key.split("/")[:-1] if "=" in part)
    return tuple(
        (unescape_path_name(name), None if value in _NULLS else unescape_path_name(value)) for name, _, value in parts
    )


def _names(file: SourceFile) -> tuple[str, ...]:
    return tuple(name for name, _ in file.partition)


def partition_fields(files: Sequence[SourceFile]) -> tuple[tuple[str, AtomicType], ...]:
    """The names and types of the partition columns: INT, BIGINT or DATE if every text has that form, else STRING.

    >>> partition_fields([SourceFile("", 1, (("m", "7"), ("d", "01")))])[0][1].root, _type_of(["01"]).root
    ('INT', 'VARCHAR')
    """
    return tuple((name, _type_of([file.partition[i][1] for file in files])) for i, name in enumerate(_names(files[0])))


def _type_of(texts: Sequence[str | None]) -> AtomicType:
    values = [text for text in texts if text is not None]
    if values and all(_is_number(text) for text in values):
        return AtomicType("INT" if all(abs(int(text)) < 1 << 31 for text in values) else "BIGINT")
    return AtomicType("DATE") if values and all(map(_is_date, values)) else string()


def _is_number(text: str) -> bool:
    return text.lstrip("-").isascii() and text.lstrip("-").isdigit() and str(int(text)) == text and len(text) < 19


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def arrow_columns(store: Store, file: SourceFile, file_format: str) -> pa.Schema:
    """The columns in a file's footer. `InvalidArgument`: the file is not of this format, or damaged."""
    source = store.open_input(file.key, file.size)
    try:
        if file_format == "parquet":
            import pyarrow.parquet as pq

            opened = pq.ParquetFile(source)
            found = opened.schema.to_arrow_schema()
            _refuse_types(f"{store.url}/{file.key}", found, lambda name: opened.read([name]).column(name))
            return found
        if file_format == "orc":
            import pyarrow.orc as orc

            tail_of(source)  # checked first: a damaged tail can end the process
            found = orc.ORCFile(source).schema
            _refuse_types(f"{store.url}/{file.key}", found, None)
            return found
        raise Unsupported(f"the columns of {file_format} files must be given", next_step="pass schema=")
    except LakelatchError:
        raise
    except Exception as error:
        what = " ".join(str(error).split())
        raise InvalidArgument(f"{store.url}/{file.key} is no {file_format} file, or damaged: {what}") from error
    finally:
        source.close()


def _refuse_types(where: str, schema: pa.Schema, column: Callable[[str], Any] | None) -> None:
    """Refuse columns that no reader could read where the file stays as it is.

    `column` reads one, to see whether its times have digits below the millisecond.
    """
    for field in schema:
        for kind in _parts(field.type):
            if pa.types.is_uint64(kind):
                raise InvalidArgument(
                    f"{where}: column '{field.name}' has whole numbers without a sign of 64 bits, which no reader of the table"
                    " takes",
                    next_step="write the file again with BIGINT or DECIMAL(20, 0)",
                )
        if pa.types.is_time64(field.type) and column is not None:
            number = column(field.name).cast(pa.int64())
            unit = 1_000 if field.type.unit == "us" else 1_000_000
            whole = pc.multiply(pc.divide(number, unit), unit)
            if pc.any(pc.not_equal(number, whole)).as_py():
                raise InvalidArgument(
                    f"{where}: column '{field.name}' has times with digits below the millisecond, which TIME has not",
                    next_step="write the file again with time32('ms'), or with BIGINT",
                )


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for index in range(kind.num_fields):
        yield from _parts(kind.field(index).type)


def columns_of(found: Mapping[str, pa.Schema], where: str) -> tuple[Field, ...]:
    """The columns of all files together, in the order in which they first appear; each can be null.

    `InvalidArgument`: a column has different types in two files; names both.
    """
    columns: dict[str, tuple[Any, str]] = {}
    for key, schema in found.items():
        for field in from_arrow_schema(schema):
            mine = with_nullable(field.type, True)
            known, first = columns.setdefault(field.name, (mine, key))
            if sql(known) != sql(mine):
                raise InvalidArgument(
                    f"{where}: column {field.name!r} is {sql(known)} in {first}, but {sql(mine)} in {key}",
                    next_step="rewrite one of the files, or migrate them into two tables",
                )
    merged = pa.schema(
        [next(s.field(name) for s in found.values() if name in s.names).with_nullable(True) for name in columns]
    )
    return from_arrow_schema(merged)
