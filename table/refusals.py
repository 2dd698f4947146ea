"""What cannot be read yet, said before anything is read: the feature, and the option that switches it on.

Owns: the refusals. Must not know: how what is supported is read. Source: data-layer §1, §3, §6, §9.
Invariant: a table is read right or refused; a refusal names the table's feature, never a place in the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core import options as opt
from ..core.data_file import ManifestEntry
from ..core.errors import Unsupported
from ..core.paths import DEFAULT_BRANCH, format_of
from ..core.schema import TableSchema
from ..core.types import AtomicType, walk_fields
from .file_formats import READABLE_FORMATS

FALLBACK_BRANCH = "scan.fallback-branch"


def check_schema_readable(schema: TableSchema, branch: str = DEFAULT_BRANCH) -> None:
    """Refuse tables whose rows need more than the rows of their files.

    Args:
        branch: the branch that is read.

    Raises:
        Unsupported: a primary key, a BLOB column, or partitions that are read from another branch.
    """
    if schema.primary_keys:
        keys = ", ".join(schema.primary_keys)
        engine = schema.options.texts.get("merge-engine", "deduplicate")
        raise Unsupported(
            f"reading a table with a primary key ({keys}; option 'merge-engine' = {engine}) is not supported yet: the rows of"
            " several files would have to be merged",
            next_step="read it with Apache Paimon",
        )
    fallback = schema.options.texts.get(FALLBACK_BRANCH)
    if fallback and branch == DEFAULT_BRANCH:
        raise Unsupported(
            f"partitions that the table lacks are to be read from branch '{fallback}' (option '{FALLBACK_BRANCH}'):"
            " not supported yet",
            next_step="read the branches one by one, or remove the option",
        )
    for field in walk_fields(schema.fields):
        if isinstance(field.type, AtomicType) and field.type.root == "BLOB":
            raise Unsupported(
                f"column '{field.name}' is of type BLOB, whose values lie in files of their own: not supported yet"
            )


def check_files_readable(schema: TableSchema, entries: Sequence[ManifestEntry]) -> None:
    """Refuse data files of another format, and files that hold some columns of other files' rows.

    Raises:
        Unsupported: names the file and its format, or option `data-evolution.enabled`.
    """
    for entry in entries:
        file_format = format_of(entry.file.file_name)
        if file_format not in READABLE_FORMATS:
            raise Unsupported(
                f"data file {entry.file.file_name} is of format '{file_format}': {', '.join(READABLE_FORMATS)} are read",
                next_step=f"option '{opt.FILE_FORMAT.key}' says in which format new files are written",
            )
    if schema.options.get(opt.DATA_EVOLUTION):
        _check_no_slices(entries)


def _check_no_slices(entries: Iterable[ManifestEntry]) -> None:
    """Two files over the same row ids are columns of the same rows (data-layer §9)."""
    files = sorted((e.file for e in entries if e.file.first_row_id is not None), key=lambda f: f.first_row_id or 0)
    end = -1
    for file in files:
        start = file.first_row_id or 0
        if start < end:
            raise Unsupported(
                f"data file {file.file_name} holds some columns of rows that another file holds too"
                f" (option '{opt.DATA_EVOLUTION.key}'): not supported yet"
            )
        end = max(end, start + file.row_count)
