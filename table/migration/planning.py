"""Plans a migration: the columns, the options, and what the manifest will say of each file.

Owns: `table_of`, `planned`, the files' names in the table. Must not know: commits, how files are copied.
Invariants: a file's name in the table depends on its location alone. Nothing is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ...backends.elsewhere import absolute, location_of
from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage
from ...coordinator.history.parallel import READ_THREADS
from ...coordinator.surroundings import MACHINE
from ...core.errors import InvalidArgument, TableCorrupt, Unsupported
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.option_names import check_option_name
from ...core.paths import format_of
from ...core.places import codec_of
from ...core.rows.arrow import from_arrow_schema
from ...core.rows.types import Field, sql, walk_fields, with_nullable
from ...core.side_effects import check_new
from ..create import Schema
from ..formats.reading import open_data_file
from ..projection.plan import plan_projection
from ..writing.files.data_writer import FileSettings
from .footers import described
from .source import SourceFile, arrow_columns, columns_of, partition_fields

if TYPE_CHECKING:
    import pyarrow as pa

Files = Literal["copy", "move", "reference"]


def table_columns(
    source: Store, found: Sequence[SourceFile], file_format: str, schema: pa.Schema | Schema | None
) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    parts = partition_fields(found)
    names = tuple(name for name, _ in parts)
    given: tuple[Field, ...] | None = None
    if schema is not None:
        given = schema.fields if isinstance(schema, Schema) else from_arrow_schema(schema)
        missing = [name for name in names if name not in {field.name for field in given}]
        if missing:
            raise InvalidArgument(f"schema= lacks the partition column {missing[0]!r}")
    if given is not None and file_format == "avro":  # their columns are checked by reading the first rows
        return given, names
    with MACHINE.executor(READ_THREADS, "lakelatch-migrate") as pool:
        schemas = list(pool.map(lambda file: arrow_columns(source, file, file_format), found))
    columns = columns_of(dict(zip((file.key for file in found), schemas, strict=True)), source.url)
    if given is not None:
        _check_given(source, given, {field.name: field for field in columns})
        return given, names
    inside = {field.name for field in columns}
    highest = max(field.id for field in walk_fields(columns))
    # A file may hold its partition columns too; then their type is that in the file.
    added = [(name, kind) for name, kind in parts if name not in inside]
    return (*columns, *(Field(highest + n, name, kind) for n, (name, kind) in enumerate(added, start=1))), names


def _check_given(source: Store, given: Sequence[Field], inside: Mapping[str, Field]) -> None:
    """A column that files hold must have the type that it has there: no row is rewritten."""
    for field in given:
        if field.name in inside and sql(with_nullable(field.type, True)) != sql(inside[field.name].type):
            raise InvalidArgument(
                f"column {field.name!r} is {sql(inside[field.name].type)} in the files of {source.url}, and {sql(field.type)} in"
                " schema=",
                next_step="give it the type of the files; update_type() changes it afterwards",
            )


def table_options(source: Store, options: Mapping[str, Any] | None, file_format: str, files: Files) -> dict[str, str]:
    given = {str(key): str(value) for key, value in (options or {}).items()}
    for key in given:
        check_option_name(key, False)
    check_new(given, {})
    if given.get("bucket", "-1") != "-1":
        raise Unsupported("option 'bucket': files of others are in no buckets", next_step="leave the option out")
    given = {"file.format": file_format, **given}
    if files == "reference":
        given = {"data-file.external-paths": location_of(source), "data-file.external-paths.strategy": "none", **given}
    return given


def within(inner: str, outer: str) -> bool:
    return f"{absolute(inner).rstrip('/')}/".startswith(f"{absolute(outer).rstrip('/')}/")


def name_in_table(source: Store, file: SourceFile, file_format: str, files: Files) -> str:
    """The file's name in the table: always the same, so that a run that is repeated finds what it has copied."""
    name = file.key.rpartition("/")[2]
    if files != "reference":
        return f"data-{uuid.uuid5(uuid.NAMESPACE_URL, f'{location_of(source)}/{file.key}')}-0.{file_format}"
    if format_of(name) != file_format:
        raise InvalidArgument(
            f"{source.url}/{file.key} does not end in .{file_format}, so that no reader would know its format",
            next_step="copy or move the files instead of referencing them",
        )
    return name


def planned(
    source: Store, found: Sequence[SourceFile], file_format: str, files: Files, schema: TableSchema
) -> tuple[CommitMessage, ...]:
    codec, modes = codec_of(schema), FileSettings.of(schema).modes
    where = location_of(source) if files == "reference" else None

    def one(file: SourceFile) -> tuple[bytes, DataFile]:
        values = codec.parse_spec(dict(file.partition))
        external = f"{where}/{file.key}" if where is not None else None
        name = name_in_table(source, file, file_format, files)
        return codec.encode(list(values.values())), described(
            source, file, name, file_format, schema.fields, values, modes, external
        )

    with MACHINE.executor(READ_THREADS, "lakelatch-migrate") as pool:
        all_of_them = list(pool.map(one, found))
    grouped: dict[bytes, list[DataFile]] = {}
    for file, (partition, made) in zip(found, all_of_them, strict=True):
        taken = grouped.setdefault(partition, [])
        if any(other.file_name == made.file_name for other in taken):
            raise InvalidArgument(
                f"{source.url}: two files of one partition are named {made.file_name}, the second at {file.key}",
                next_step="copy or move the files instead of referencing them",
            )
        taken.append(made)
    _tried(source, found[0], all_of_them[0][1], schema)
    return tuple(CommitMessage(partition, 0, -1, new_files=tuple(made)) for partition, made in grouped.items())


def _tried(source: Store, file: SourceFile, made: DataFile, schema: TableSchema) -> None:
    """Read the first rows of a file as the table will read them."""
    inside = [field for field in schema.fields if field.name not in schema.partition_keys]
    try:
        projection = plan_projection(schema.fields, inside, source.url)
        named = made._replace(file_name=file.key.rpartition("/")[2] if made.external_path else made.file_name)
        for _ in open_data_file(source, file.key, named, projection, schema.options).batches():
            break
    except (TableCorrupt, Unsupported) as error:
        raise InvalidArgument(
            f"{source.url}/{file.key} cannot be read as the table's columns: {error.message}"
        ) from error
