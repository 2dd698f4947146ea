"""CREATE OR REPLACE TABLE for a table that exists: its rows become others, and its history stays.

Owns: `check_replaceable`, `replaced`. Must not know: statements.
Invariant: it is one commit, so that a reader sees the rows before or after it, and a failure changes nothing. Other columns or
options would be a change of their own before it, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.errors import Unsupported
from ...core.metadata.schema import TableSchema
from ...table.table import Table
from ..options.asked import Asked
from ..write_job import carry_out
from .columns import same_type

if TYPE_CHECKING:
    from .creating import NewTable

_KEYS = "primary-key"


def check_replaceable(name: str, schema: TableSchema, wanted: NewTable) -> None:
    """Refuse other keys, which a table cannot get."""
    keys = tuple(part.strip() for part in wanted.options.get(_KEYS, "").split(",") if part.strip())
    if wanted.partition_by != schema.partition_keys or keys != schema.primary_keys:
        raise Unsupported(
            f"CREATE OR REPLACE TABLE {name}: the table has the partitions {list(schema.partition_keys)} and the primary key"
            f" {list(schema.primary_keys)}, and they cannot become {list(wanted.partition_by)} and {list(keys)}",
            next_step="DROP TABLE, which deletes its history, and CREATE TABLE",
        )


def replaced(table: Table, wanted: NewTable, frame: Any, asked: Asked) -> None:
    """Give the table its new rows, with one commit. `asked` are the options of the write.

    Raises:
        Unsupported: columns, options or the comment would change, too, which is a commit of its own before that of the rows.
    """
    differences = list(_differences(table.schema, wanted))
    if differences:
        raise Unsupported(
            f"CREATE OR REPLACE TABLE: the table at {table.url} has others than the statement says: {', '.join(differences)}",
            next_step="ALTER TABLE, then CREATE OR REPLACE TABLE or INSERT OVERWRITE; or DROP TABLE and CREATE TABLE",
        )
    if frame is None:
        table.truncate(commit_user=asked.commit_user, identifier=asked.identifier)
        return
    carry_out(frame, replace(asked, mode="overwrite", partition={}))


def _differences(schema: TableSchema, wanted: NewTable) -> Iterator[str]:
    """What the table would have to change besides its rows."""
    fields = tuple(wanted.fields or ())
    if [f.name for f in fields] != list(schema.names):
        yield f"the columns {', '.join(schema.names)}"
    for one in fields:
        old = schema.by_name.get(one.name)
        if old is not None and not same_type(old.type, one.type):
            yield f"the type of {one.name!r}"
        elif old is not None and (old.description, old.default_value) != (one.description, one.default_value):
            yield f"the comment or default of {one.name!r}"
    options = {k: v for k, v in wanted.options.items() if k != _KEYS}
    kept = {k: v for k, v in schema.option_texts.items() if not k.startswith("lakelatch.")}
    if options != kept:
        yield f"the options {kept}"
    if wanted.comment != schema.comment:
        yield f"the comment {schema.comment!r}"
