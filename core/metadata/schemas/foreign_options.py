"""Options that a schema should not have, because Apache Paimon takes them in another way than who sets them may think.

Owns: `check_foreign`, `reading_options`. Must not know: what lakelatch does with an option. Source: format/schema §1.
"""

from __future__ import annotations

import re
from typing import Any

from ... import options as opt
from ...errors import InvalidArgument
from ...side_effects import check_new
from ..schema import TableSchema

_NO_PREFIX = re.compile(r"[:/\\]")
_READING = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.version",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
    "scan.bucket",
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-between-tag-to-snapshot",
    "incremental-to-auto-tag",
)
"""Options of one read. Apache Paimon takes those of a schema for options of every read."""
_AVRO: tuple[tuple[opt.Option[Any], opt.Option[Any]], ...] = (
    (opt.MANIFEST_FORMAT, opt.MANIFEST_COMPRESSION),
    (opt.FILE_FORMAT, opt.FILE_COMPRESSION),
    (opt.CHANGELOG_FILE_FORMAT, opt.CHANGELOG_FILE_COMPRESSION),
)
_AVRO_CODECS = ("zstd", "zstandard", "snappy", "deflate", "bzip2", "xz", "null")


def reading_options(schema: TableSchema) -> list[str]:
    return [option for option in _READING if schema.options.texts.get(option)]


def check_foreign(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Refuse new options with which Apache Paimon, or lakelatch, would read other rows or could not write.

    Raises InvalidArgument, Unsupported.
    """
    texts, known = schema.option_texts, {} if before is None else before.option_texts
    check_new(texts, known)
    for option in (*reading_options(schema), *(["branch"] if texts.get("branch") else [])):
        if texts[option] != known.get(option):
            raise InvalidArgument(
                f"option '{option}' is one of a single read: in a table's options Apache Paimon takes it for every read",
                next_step="give it to the read: at(snapshot=…, tag=…, timestamp=…), changes(…), branch(…)",
            )
    for named in (opt.DATA_FILE_PREFIX, opt.CHANGELOG_FILE_PREFIX):
        prefix = texts.get(named.key, "")
        if prefix != known.get(named.key, "") and _NO_PREFIX.search(prefix):
            raise InvalidArgument(
                f"option '{named.key}' = {prefix!r}: names of files have no slash, and no colon, because Hadoop takes what"
                " is before it for a scheme",
                next_step="use letters, digits, '.', '-' and '_'",
            )
    for formatted, compressed in _AVRO:
        codec = schema.options.get(compressed)
        changed = any(texts.get(o.key) != known.get(o.key) for o in (formatted, compressed))
        if changed and codec is not None and schema.options.get(formatted) == "avro" and codec not in _AVRO_CODECS:
            raise InvalidArgument(
                f"option '{compressed.key}' = {codec!r}: Apache Paimon cannot write Avro with it",
                next_step=f"use {', '.join(_AVRO_CODECS)} (null is none)",
            )
