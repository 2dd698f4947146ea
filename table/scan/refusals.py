"""Refuse, before anything is read, tables with a feature that lakelatch cannot read yet.

Owns: these checks. Must not know: how supported features are read. Source: format/data-files §1, §7, §8;
format/deletion-vectors §1. Invariant: A table is read correctly or refused. The error names the feature and the option that
enables it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core import options as opt
from ...core.errors import Unsupported
from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.foreign_options import reading_options
from ...core.metadata.schemas.merge_rules import merge_rules
from ...core.paths import format_of
from ...core.side_effects import check_readable
from ..formats.reading import READABLE_FORMATS
from ..merging.merge import engine_of
from .row_runs import is_blob

_BLOB_REFERENCES = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")


def check_schema_readable(schema: TableSchema) -> None:
    """Refuse tables whose rows cannot be made of their files yet: unknown merge engines, BLOBs that are stored elsewhere."""
    rules = merge_rules(schema)
    if rules is not None:
        engine_of(rules)
    check_readable(schema.option_texts)
    for option in reading_options(schema):
        raise Unsupported(
            f"the table's options have '{option}' = {schema.option_texts[option]}, which Apache Paimon takes for every read",
            next_step=f"remove it with alter(remove_option('{option}')), and give it to the read that means it",
        )
    for option in _BLOB_REFERENCES:
        if schema.options.texts.get(option):
            raise Unsupported(
                f"column '{schema.options.texts[option]}' refers to BLOBs elsewhere (option '{option}'), which is not supported",
                next_step="read the other columns with Apache Paimon, or the values without the option",
            )


def check_files_readable(schema: TableSchema, entries: Sequence[ManifestEntry]) -> None:
    """Refuse data files of an unknown format."""
    evolves = schema.options.get(opt.DATA_EVOLUTION)
    for entry in entries:
        file_format = format_of(entry.file.file_name)
        if file_format not in READABLE_FORMATS and not (evolves and is_blob(entry.file)):
            raise Unsupported(
                f"data file {entry.file.file_name} has format '{file_format}'; lakelatch reads {', '.join(READABLE_FORMATS)}",
                next_step=f"option '{opt.FILE_FORMAT.key}' sets the format of new files",
            )
