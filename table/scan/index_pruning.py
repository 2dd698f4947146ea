"""Prune data files and their rows by file indexes, whichever schemas the files were written with.

Owns: finding a data file's index, in its manifest entry or beside the file, and the columns in it. Must not know: plans, the
layout of an index (see `core.file_index`). Source: format/file-indexes §1, §5.

Invariants: Neither a matching row nor a file with one is ever dropped. Columns are matched by field id. The index of a column
whose type was changed is used only if every old value has its own, equal value in the new type. An index that is damaged, or is
missing though a manifest names it, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyroaring import BitMap

from ...backends.store import ObjectNotFound, Store
from ...core import options as opt
from ...core.casts.keeping import widens
from ...core.errors import TableCorrupt, missing
from ...core.expressions.tree import Predicate, columns_of
from ...core.file_index.asking import Asked, IndexedColumn, asked_of
from ...core.file_index.reading import FileIndex
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.paths import INDEX_SUFFIX, format_of, safe_name
from ...core.rows.types import AtomicType, Field
from ..formats.external import located

HEAD_BYTES = 64 << 10
"""The bytes of an index file that are fetched first. Most index files are not larger."""
_AHEAD_BYTES = 16 << 10
_KEPT_CHUNKS = 8
_MOST_ROWS = 2**31 - 1
_FLOATS = ("FLOAT", "DOUBLE")


class IndexPruner:
    """Tests one predicate, bound to the columns of `schema`, against the indexes of files. Can be pickled to another machine.

    Conditions on partition columns are ignored.
    """

    def __init__(self, predicate: Predicate, schema: TableSchema, schema_of: Callable[[int], TableSchema]) -> None:
        self._predicate, self._schema_of = predicate, schema_of
        looked_at = columns_of(predicate)
        self._fields = [f for f in schema.fields if f.name in looked_at and f.name not in schema.partition_keys]
        self._known: dict[tuple[int, bool], Asked | None] = {}

    @staticmethod
    def of(
        predicate: Predicate | None, schema: TableSchema, schema_of: Callable[[int], TableSchema]
    ) -> IndexPruner | None:
        """A pruner, or None if there is no predicate or the table's option disables indexes."""
        if predicate is None or not schema.options.get(opt.FILE_INDEX_READ):
            return None
        return IndexPruner(predicate, schema, schema_of)

    def may_match(self, file: DataFile) -> bool:
        """False only if the index in the file's manifest entry rules out every row. Raises the errors of `rows`."""
        rows = self._embedded(file)
        return rows is None or bool(rows)

    def rows(self, store: Store, key: str, file: DataFile) -> BitMap | None:
        """The positions in the file of the rows that may match; None for all rows. `key` is that of `Split.keys`."""
        if file.embedded_file_index is not None:
            return self._embedded(file)
        sidecar, asked = sidecar_of(file, key), self._asked(file)
        return None if sidecar is None or asked is None else beside(store, sidecar, file).rows(asked)

    def _embedded(self, file: DataFile) -> BitMap | None:
        asked = None if file.embedded_file_index is None else self._asked(file)
        return None if asked is None else embedded_index(file).rows(asked)

    def _asked(self, file: DataFile) -> Asked | None:
        """The predicate in terms of the file's columns; nothing if the file has more rows than positions can count."""
        if file.row_count > _MOST_ROWS:
            return None
        layout = file.schema_id, format_of(file.file_name) == "orc"
        if layout not in self._known:
            self._known[layout] = asked_of(self._predicate, self._columns_in(*layout))
        return self._known[layout]

    def _columns_in(self, schema_id: int, is_orc: bool) -> Mapping[str, IndexedColumn]:
        written = {f.id: f for f in self._schema_of(schema_id).fields}
        found = {}
        for field in self._fields:
            old = written.get(field.id)
            if old is not None and isinstance(old.type, AtomicType) and _is_comparable(old, field):
                found[field.name] = IndexedColumn(old.name, old.type, trimmed=is_orc and old.type.root == "CHAR")
        return found


def _is_comparable(old: Field, new: Field) -> bool:
    if not isinstance(old.type, AtomicType) or not isinstance(new.type, AtomicType):
        return False
    # A DOUBLE between two FLOATs has no equivalent among the keys of a FLOAT.
    same_keys = old.type.root == new.type.root or old.type.root not in _FLOATS
    return same_keys and widens(old.type, new.type)


def embedded_index(file: DataFile) -> FileIndex:
    """The index in a file's manifest entry. Raises TableCorrupt."""
    data = file.embedded_file_index or b""
    where = f"the file index of data file {file.file_name} (_EMBEDDED_FILE_INDEX)"
    return FileIndex(lambda start, end: data[start:end], len(data), file.row_count, where)


def beside(store: Store, sidecar: str, file: DataFile) -> FileIndex:
    """The index in an object beside a file (see `sidecar_of`). Raises TableCorrupt."""
    return FileIndex(SidecarBytes(store, sidecar, f"data file {file.file_name}"), None, file.row_count, sidecar)


def sidecar_of(file: DataFile, key: str) -> str | None:
    """The key of the object beside a file that holds its index, or None. A name that would leave the folder is refused (H16)."""
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if not names:
        return None
    if len(names) > 1:
        raise TableCorrupt(f"data file {file.file_name} has {len(names)} file indexes in field '_EXTRA_FILES'")
    return key[: len(key) - len(file.file_name)] + safe_name(names[0], "_EXTRA_FILES")


class SidecarBytes:
    """The bytes of an index file, fetched on demand and a little ahead."""

    def __init__(self, store: Store, key: str, named_by: str = "") -> None:
        self._store, self._key = located(store, key)
        self._named_by = named_by
        self._shown = key
        self._size: int | None = None
        self._chunks: list[tuple[int, bytes]] = []

    def __call__(self, start: int, end: int) -> bytes:
        for begin, data in reversed(self._chunks):
            if begin <= start and (end <= begin + len(data) or self._size == begin + len(data)):
                return data[start - begin : end - begin]
        try:
            return self._fetched(start, end)
        except ObjectNotFound:
            raise missing(self._shown, self._named_by, what="file index ") from None

    def _fetched(self, start: int, end: int) -> bytes:
        if not self._chunks:
            head = self._store.get_range(self._key, 0, HEAD_BYTES)
            self._chunks.append((0, head))
            if len(head) < HEAD_BYTES:
                self._size = len(head)
            return self(start, end)
        if self._size is None:
            # Numbers in the file are not trusted until the file's size is known.
            self._size = self._store.head(self._key).size
        stop = min(max(end, start + _AHEAD_BYTES), self._size)
        data = self._store.get_range(self._key, start, stop) if start < stop else b""
        self._chunks = [self._chunks[0], *self._chunks[1:][-_KEPT_CHUNKS:], (start, data)]
        return data[: end - start]
