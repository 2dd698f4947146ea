"""The methods of `Table` that copy it, or show it to readers of another format: clone, export, to_iceberg.

Owns: these methods. Must not know: how files are copied or written. Sources: decisions 66, 127.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from ...core import arguments
from ...core.errors import InvalidArgument
from ...core.paths import DEFAULT_BRANCH, TablePaths
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...backends.store import Store
    from ...coordinator.history.timeline import Timeline
    from ...coordinator.maintenance.clone import ClonePlan
    from ...coordinator.maintenance.deletion import Progress
    from ...coordinator.maintenance.reference import ReferencePlan
    from ...core.expressions.tree import Predicate
    from ...core.metadata.schema import TableSchema
    from ..export.folder import Export

ROWS_PER_FILE = 4_000_000


class Copies(OpenTable):
    """The methods of `Table` that copy it."""

    @overload
    def clone(
        self,
        url: str,
        *,
        reference: Literal[False] = False,
        dry_run: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> ClonePlan: ...

    @overload
    def clone(
        self,
        url: str,
        *,
        reference: Literal[True],
        dry_run: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> ReferencePlan: ...

    def clone(
        self,
        url: str,
        *,
        reference: bool = False,
        dry_run: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> ClonePlan | ReferencePlan:
        """Copy the table to another URL: its files, all snapshots, tags, branches and schemas.

        Within one store the files are copied by the store itself, where it can. Jobs may write meanwhile: the copy has the
        snapshots that existed when it began. Run it again to continue a run that was cut off; until it is finished there is no
        table at the new URL.

        With `reference` only metadata is written: the clone has the newest snapshot of the branch main, as a table of its own
        that reads this table's data files where they are. Changes of either table are not seen by the other one, and nothing
        that lakelatch does with the clone deletes a file of this table. This table gets a tag, `referenced-by-…`, which keeps
        the files from its expiry. Delete the tag when the clone is gone. You may read these files through the clone; others allow
        it for themselves (`ll.allow`).

        Args:
            url: where the copy will be.
            reference: leave data files where they are.
            dry_run: change nothing.
            storage_options: options of the store of the copy; by default those of this table's store.
            progress: called with the number of files copied so far and their total.

        Returns:
            What was, or with `dry_run` would be, copied. Prints as one line.

        Raises:
            TableExists: there is a table at the URL.
            InvalidArgument: other files are there; or, with `reference`, the table has no snapshot or is a branch.
            Unsupported: the table has files outside of its folder (option `data-file.external-paths`), or refers to another one.
            CommitConflict: with `reference`, the tag was deleted, or the snapshot expired, meanwhile: run it again.
            RetriesExhausted: expiries kept deleting files of the table.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://clone-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(2)]
        >>> table.clone("memory://clone-doctest/copy").snapshots
        2
        >>> ll.open_table("memory://clone-doctest/copy").at(snapshot=1).to_arrow()["v"].to_pylist()
        [0]
        """
        from ...backends.elsewhere import location_of
        from ...coordinator.history.timeline import Timeline
        from ...coordinator.maintenance.clone import apply_clone, check_target, plan_clone

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        target = self._beside(url, storage_options)
        here, there = location_of(self.store) + "/", location_of(target) + "/"
        if here.startswith(there) or there.startswith(here):
            raise InvalidArgument(f"{url} and {self.url} lie within each other", next_step="choose another URL")
        main = Timeline(self.store, TablePaths())
        schema = main.latest_schema()
        if reference:
            return self._referenced(main, schema, target, dry_run, progress)
        check_target(self.store, schema, target)
        if dry_run:
            return plan_clone(main, schema, target)
        return apply_clone(main, schema, target, progress)

    def _referenced(
        self, main: Timeline, schema: TableSchema, target: Store, dry_run: bool, progress: Progress | None
    ) -> ReferencePlan:
        from ...backends.elsewhere import location_of
        from ...backends.trust import allow_here
        from ...coordinator.maintenance.clone import check_target
        from ...coordinator.maintenance.reference import apply_reference, beside_expiries, plan_reference, referring
        from ...coordinator.tags.creation import create_tag
        from ...core.metadata.tag import Tag

        if self._branch != DEFAULT_BRANCH:
            raise InvalidArgument(
                f"a clone by reference has the newest snapshot of main, not of branch '{self._branch}'",
                next_step="open the table without branch=, or clone it without reference=True",
            )
        check_target(self.store, schema, target, partial(referring, location=location_of(self.store)))
        newest = main.latest()
        if newest is None:
            raise InvalidArgument(
                f"{self.url} has no snapshot that a clone could refer to", next_step="commit rows first"
            )
        with beside_expiries(main, newest):
            plan = plan_reference(main, schema, newest, target)
            if dry_run:
                return plan
            create_tag(main, Tag(plan.tag, newest))
        made = apply_reference(main, schema, plan, target, progress)
        allow_here(location_of(target), [location_of(self.store)])
        return made

    def export(
        self,
        folder: str,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        where: Predicate | str | None = None,
        format: str = "parquet",  # noqa: A002 - the name that users of file formats expect
        rows_per_file: int = ROWS_PER_FILE,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Export:
        """Write the rows of a snapshot as plain files, in Hive's layout (`month=1/part-00000.parquet`).

        `_SUCCESS` is written last. Run it again if it was cut off. `ll.migrate` makes a table of such a folder.

        With the format `iceberg` no row is copied: the folder gets metadata about the table's own files, and readers of Iceberg
        take it for a table. A tag keeps these files from expiry. What such readers would read wrong is refused, as by
        `to_iceberg`.

        Args:
            folder: an empty one.
            snapshot, tag: the state; by default the newest, or the one that this table shows.
            where: only these rows: a predicate, or its text.
            format: `parquet`, `orc`, `csv` or `iceberg`.
            rows_per_file: a file is closed after about so many rows; memory holds the rows of one file.
            storage_options: options of the folder's store; by default those of this table's store.
            progress: called with the number of partitions written so far and their total.

        Returns:
            What was written. Prints as one line.

        Raises:
            InvalidArgument: the folder holds files, or a column has a type that the format lacks.
            Unsupported: for `iceberg`, as for `to_iceberg`.

        >>> import pyarrow as pa, lakelatch as ll
        >>> rows = pa.table({"v": [1, 2], "p": [1, 2]})
        >>> table = ll.create_table("memory://export-doctest/t", rows.schema, partition_by=["p"])
        >>> receipt = table.append(rows)
        >>> print(table.export("memory://export-doctest/plain"))
        snapshot 1 in memory://export-doctest/plain: 2 files, 2 rows
        """
        from ..export.iceberg import export_iceberg
        from ..export.plain_files import export_rows
        from ..scan.plan import plan_scan
        from ..travel import schema_at, snapshot_at

        arguments.callback(progress, "progress")
        arguments.whole_number(rows_per_file, "rows_per_file", 1)
        timeline, found, schema = self._seen()
        if snapshot is not None or tag is not None:
            found = snapshot_at(self.timeline, snapshot=snapshot, tag=tag)
            schema = schema_at(self.timeline, found, schema)
        plan = plan_scan(timeline, found, schema, where)
        store = self._beside(folder, storage_options)
        if format == "iceberg":
            if where is not None:
                raise InvalidArgument("where= chooses rows, and Iceberg's metadata is about whole files")
            return export_iceberg(store, timeline, plan, schema, self._uuid)
        return export_rows(store, timeline, plan, schema, format, rows_per_file, progress)

    def to_iceberg(self, *, read_optimized: bool = False, properties: Mapping[str, str] | None = None) -> Any:
        """The rows of this moment as a PyIceberg `StaticTable`, which reads the table's own data files.

        For that, Iceberg's metadata of one snapshot is written into a temporary folder of this machine, which lives as long as
        the table and its scans. Its URL, `metadata_location`, may be given to other readers of Iceberg while the table is held,
        such as DuckDB's `iceberg_scan`. The table shows the same rows as `to_arrow`, or is refused; of one difference, null lists
        of ROWs, it warns.

        Args:
            read_optimized: of a table with a primary key, only the rows of its last full compaction, as the system table `ro` has
                them. Without it, files that must be merged are refused.
            properties: settings of PyIceberg's `FileIO`, such as `s3.endpoint`.

        Raises:
            Unsupported: PyIceberg is not installed; or the table has a type, a file or rows that Iceberg's readers do not read
                right: TIME, nanoseconds with a zone, VARIANT, BLOB and VECTOR, files in ORC or Avro, rows that must be merged, a
                changed type such as INT to STRING. The message names it, and what to do.

        Example:
            ``table.at(tag="2024").to_iceberg().scan(row_filter="month = 1").to_arrow()``
        """
        from ..export.static_table import static_table
        from ..scan.plan import plan_scan
        from ..system.definition import View
        from ..system.rows import read_optimized_plan

        timeline, snapshot, schema = self._seen()
        if read_optimized:
            plan = read_optimized_plan(View(timeline, snapshot, schema, self.pinned is not None), None, None)
        else:
            plan = plan_scan(timeline, snapshot, schema, None)
        return static_table(timeline, plan, schema, self._uuid, properties or {})

    @property
    def _uuid(self) -> str:
        """What names the table to readers of Iceberg: the same for each of its branches and earlier states."""
        from ...backends.store import ObjectNotFound
        from ...core.metadata.table_identity import identity_of

        try:
            first = self.store.get(TablePaths().schema(0))
        except ObjectNotFound:
            first = self.url.encode()
        return identity_of(first)

    def _beside(self, url: str, storage_options: Mapping[str, Any] | None) -> Store:
        from ...backends.registry import open_beside, open_store

        return open_beside(self.store, url) if storage_options is None else open_store(url, storage_options)
