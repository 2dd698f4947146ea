"""What cannot be read yet, said before anything is read: the feature, and the option that switches it on.

Owns: the refusals. Must not know: how what is supported is read. Source: format/data-files §1, §7, §8;
format/deletion-vectors §1. Invariant: a table is read right or refused; a refusal names the table's feature, never a place in
the code.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core import options as opt
from ...core.errors import Unsupported
from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.paths import format_of
from ..formats.reading import READABLE_FORMATS
from .row_runs import is_blob

_BLOB_REFERENCES = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")


def check_schema_readable(schema: TableSchema) -> None:
    """Refuse tables whose rows need more than the rows of their files.

    Raises:
        Unsupported: a primary key, or BLOBs that lie elsewhere.
    """
    if schema.primary_keys:
        keys = ", ".join(schema.primary_keys)
        engine = schema.options.texts.get("merge-engine", "deduplicate")
        raise Unsupported(
            f"reading a table with a primary key ({keys}; option 'merge-engine' = {engine}) is not supported yet: the rows of"
            " several files would have to be merged",
            next_step="read it with Apache Paimon",
        )
    for option in _BLOB_REFERENCES:
        if schema.options.texts.get(option):
            raise Unsupported(
                f"column '{schema.options.texts[option]}' holds references to BLOBs elsewhere (option '{option}'): not supported",
                next_step="read the other columns with Apache Paimon, or the values without the option",
            )


def check_files_readable(schema: TableSchema, entries: Sequence[ManifestEntry]) -> None:
    """Refuse data files of another format.

    Raises:
        Unsupported: names the file and its format.
    """
    evolves = schema.options.get(opt.DATA_EVOLUTION)
    for entry in entries:
        file_format = format_of(entry.file.file_name)
        if file_format not in READABLE_FORMATS and not (evolves and is_blob(entry.file)):
            raise Unsupported(
                f"data file {entry.file.file_name} is of format '{file_format}': {', '.join(READABLE_FORMATS)} are read",
                next_step=f"option '{opt.FILE_FORMAT.key}' says in which format new files are written",
            )
