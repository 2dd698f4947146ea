"""Reads the schemas of a table, and checks that it is still the table that was opened.

Owns: `Schemas`. Must not know: snapshots, beyond whether there are any. Source: format/snapshot §2; H21.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from ...backends.requests.refusals import raise_undone
from ...backends.store import ObjectNotFound, Store
from ...core.errors import TableCorrupt, TableNotFound, missing
from ...core.metadata.schema import TableSchema, parse_schema
from ...core.metadata.schemas.dropped import is_dropped
from ...core.paths import TablePaths
from ..surroundings import MACHINE
from .parallel import ParallelReads


class Schemas(ParallelReads):
    """The schemas of one branch of one table. Thread-safe; keeps those that it has read, which never change. `first_schema`: the
    bytes of schema 0 at opening, which tell this table from a later one at its place (H21). None accepts any.
    """

    def __init__(
        self,
        store: Store,
        paths: TablePaths,
        executor: Callable[[int, str], Executor] = MACHINE.executor,
        first_schema: bytes | None = None,
        schemas: dict[int, TableSchema] | None = None,
    ) -> None:
        super().__init__(store, paths, executor)
        self.first_schema = first_schema
        self._schemas: dict[int, TableSchema] = {} if schemas is None else schemas

    def schema_ids(self) -> list[int]:
        """The ids of all schema files, ascending. Where none is listed, schema 0 is looked for by its name: a listing may lag."""
        return self.ids_in(self.paths.schema_dir, "schema") or ([0] if self._schema_bytes(0) is not None else [])

    def schema(self, schema_id: int, needed_by: str = "") -> TableSchema:
        """Read a schema. Raises TableCorrupt where its file is missing or damaged; `needed_by` is the file that names it."""
        if schema_id not in self._schemas:
            data, key = self._schema_bytes(schema_id), self.paths.schema(schema_id)
            if data is None:
                raise missing(key, needed_by)
            self._schemas[schema_id] = parse_schema(data, key)
        return self._schemas[schema_id]

    def latest_schema(self) -> TableSchema:
        """Read the newest schema. Raises TableNotFound where there is none, TableCorrupt where it was lost."""
        newest = self._newest_schema_id()
        try:
            return self.schema(newest)
        except TableCorrupt as error:
            if error.missing and newest not in self.schema_ids():
                self._newest_schema_id()  # raises if the table was dropped since it was listed
            raise

    def opened(self) -> tuple[TableSchema, bytes | None]:
        """The newest schema, and the bytes of schema 0, which identify the table; None where they were lost. Raises
        TableNotFound where there is no schema, TableCorrupt where it was lost or is damaged.
        """
        newest = self._newest_schema_id()
        first, *rest = self.parallel(self._schema_bytes, (0,) if newest == 0 else (0, newest))
        data = rest[0] if rest else first
        if first is not None and is_dropped(first):
            raise self._being_dropped()
        if data is None:
            self._newest_schema_id()  # raises if the table was dropped since it was listed
            raise TableCorrupt(f"{self.paths.schema(newest)} is missing")
        self._schemas[newest] = parse_schema(data, self.paths.schema(newest))
        return self._schemas[newest], first

    def newest_schema(self, known: TableSchema) -> TableSchema:
        """The newest schema, found by one listing; `known` itself where none is newer. Raises TableNotFound where the known one
        is gone, because the table was dropped or made again since it was opened.
        """
        ids = self.schema_ids()
        if known.id not in ids:
            self.check_table()
        newest = max([known.id, *ids])
        return known if newest == known.id else self.schema(newest)

    def newest_schema_id(self, known: int) -> int:
        """The id of the newest schema, found by name from a known one, so that a listing that lags behind hides none."""
        while self._schema_bytes(known + 1) is not None:
            known += 1
        return known

    def _newest_schema_id(self) -> int:
        ids = self.schema_ids()
        if not ids:
            if snapshots := self._snapshot_ids():
                raise TableCorrupt(
                    f"{self.paths.schema(0)} is missing at {self.store.url}: there are snapshots, but no schema;"
                    f" {self.paths.snapshot(snapshots[-1])} needs one"
                )
            raise TableNotFound(f"there is no table at {self.store.url}")
        return ids[-1]

    def _snapshot_ids(self) -> list[int]:
        return self.ids_in(self.paths.snapshot_dir, "snapshot")

    def _schema_bytes(self, schema_id: int) -> bytes | None:
        try:
            return self.store.get(self.paths.schema(schema_id))
        except ObjectNotFound:
            return None

    def check_table(self) -> None:
        """Raise TableNotFound if the table was dropped or renamed, or dropped and made again, since it was opened (H21)."""
        if self.first_schema is None:
            return
        again = "open the table again"
        held = self._schema_bytes(0)
        if held is None:
            gone = f"the table at {self.store.url} was dropped or renamed since it was opened"
            raise TableNotFound(f"{gone}: {again}, where it is now", next_step="")
        if is_dropped(held):
            raise self._being_dropped()
        if held != self.first_schema:
            made_again = f"the table at {self.store.url} was dropped and made again since it was opened"
            raise TableNotFound(f"{made_again}: {again}", next_step="")

    def check_stands(self) -> None:
        """After a file was found missing: raise TableNotFound if the table was dropped or renamed, or is being dropped."""
        self.check_table()
        held = self._schema_bytes(0)
        if held is not None and is_dropped(held):
            raise self._being_dropped()
        if held is None and not self.schema_ids():
            raise TableNotFound(f"the table at {self.store.url} was dropped or renamed since it was opened")

    def take_back_schema(self, schema_id: int) -> None:
        """Delete a schema that was written after a drop, and raise TableNotFound (H21). Does nothing to a table that stands."""
        try:
            self.check_table()
            if {schema_id} != set(self.schema_ids()) or self._snapshot_ids():
                return
        except TableNotFound:
            pass
        gone = TableNotFound(f"the table at {self.store.url} was dropped or renamed since it was opened")
        raise_undone(gone, lambda: self.store.delete_many([self.paths.schema(schema_id)]))

    def _being_dropped(self) -> TableNotFound:
        return TableNotFound(
            f"the table at {self.store.url} is being dropped",
            next_step="if the drop was cut off, run it again; then a table can be made here",
        )
