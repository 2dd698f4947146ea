"""Gives tables of ORC files the option without which their times with local time zone depend on the reader's zone.

Owns: when `orc.timestamp-ltz.legacy.type` is set to false. Must not know: files, stores. Source: format/data-files §3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .. import options as opt
from ..errors import InvalidArgument
from ..rows.types import walk_types
from ..rows.values import root_of

if TYPE_CHECKING:
    from .schema import TableSchema

_KEY = opt.ORC_LTZ_BY_WALL_CLOCK.key


def with_zone_option(schema: TableSchema, before: TableSchema | None = None) -> TableSchema:
    """The schema with the option. Raises InvalidArgument if files of `before` may have been written without it."""
    if not _is_needed(schema) or (before is not None and _is_needed(before)):
        return schema
    if before is not None and (name := _local_column(before)):
        raise InvalidArgument(
            f"option 'file.format' = orc: times with local time zone, as in column '{name}', would depend on the reader's zone",
            next_step=f"set option '{_KEY}' to false too, if no file of the table is an ORC file; else keep another format",
        )
    return replace(schema, option_texts={**schema.option_texts, _KEY: "false"})


def _is_needed(schema: TableSchema) -> bool:
    options = schema.options
    is_orc = options.get(opt.FILE_FORMAT) == "orc"
    return is_orc and _KEY not in schema.option_texts and bool(_local_column(schema))


def _local_column(schema: TableSchema) -> str:
    for field in schema.fields:
        if any(root_of(part) == "TIMESTAMP_LTZ" for part in walk_types(field.type)):
            return field.name
    return ""
