"""What tests ask of Apache Paimon (Java): read, write and change tables on the local disk.

Owns: the calls to its public API. Must not know: lakelatch. Rows go in and come out in the encoding of `values.py`.
Tables of an object store are copied to the local disk first: a table holds no absolute path.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jpype import JArray, JClass, JInt, JLong
from values import Row, sort_rows

from . import jvm
from .java_values import build, build_row, reader

Filter = Sequence[Any]
"""[op, column, literal ...] or ["and" | "or", filter, ...] with the operators of the golden tables."""

OPERATORS = {
    "=": "equal",
    "<>": "notEqual",
    "<": "lessThan",
    "<=": "lessOrEqual",
    ">": "greaterThan",
    ">=": "greaterOrEqual",
    "between": "between",
    "is_null": "isNull",
    "is_not_null": "isNotNull",
    "starts_with": "startsWith",
}


class PaimonJava:
    """Apache Paimon in this process's JVM, which the first instance starts."""

    version = jvm.VERSION

    def __init__(self) -> None:
        jvm.start()
        self._io = JClass("org.apache.paimon.fs.local.LocalFileIO").create()
        self._scratch = tempfile.mkdtemp(prefix="lakelatch-java-")
        self._manifests: Any = None

    def open(self, path: str | os.PathLike[str], *, branch: str | None = None, **options: str) -> Any:
        """The Java `FileStoreTable`, for what this class does not say.

        Args:
            path: the table's folder.
            options: dynamic options with `_` for `-` and `__` for `.`: `scan__snapshot_id="3"`, `write_only="true"`.
        """
        table = JClass("org.apache.paimon.table.FileStoreTableFactory").create(self._io, self._path(path))
        if branch is not None:
            table = table.switchToBranch(branch)
        if self._manifests is not None:
            table.setManifestCache(self._manifests)
        named = {key.replace("__", ".").replace("_", "-"): str(value) for key, value in options.items()}
        return table.copy(self._map(named)) if named else table

    @contextmanager
    def reading_manifests_once(self) -> Iterator[None]:
        """Meanwhile a manifest that was read is not read again, which Java does byte by byte. Not where files are damaged."""
        size = JClass("org.apache.paimon.options.MemorySize").ofMebiBytes(32)
        self._manifests = JClass("org.apache.paimon.utils.SegmentsCache").create(size, JLong(2**40))
        try:
            yield
        finally:
            self._manifests = None

    # -------------------------------------------------------------------------------------------------------- reading

    def rows(
        self,
        path: str | os.PathLike[str],
        snapshot: int | None = None,
        tag: str | None = None,
        columns: Sequence[str] | None = None,
        predicate: Filter | None = None,
        *,
        branch: str | None = None,
        options: Mapping[str, str] | None = None,
        with_kind: bool = False,
    ) -> list[Row]:
        """The rows that Java reads, sorted.

        Args:
            snapshot, tag: what to read; by default the latest, with the latest schema.
            columns: which, in order; by default all.
            predicate: pushed down and applied to every row.
            options: dynamic options by their own names, such as {"incremental-between": "1,3"}.
            with_kind: each row begins with its row kind.
        """
        table = self._at(path, snapshot, tag, branch, options)
        return self._rows(table, columns, predicate, with_kind)

    def tracked_rows(self, path: str | os.PathLike[str]) -> list[Row]:
        """The latest rows, each followed by its `_ROW_ID` and `_SEQUENCE_NUMBER`, sorted."""
        return self._rows(JClass("org.apache.paimon.table.system.RowTrackingTable")(self.open(path)))

    def audit_rows(self, path: str | os.PathLike[str], options: Mapping[str, str]) -> list[Row]:
        """The rows of `$audit_log`, each with its kind in front, sorted. `options` say which, such as "incremental-between"."""
        return self._rows(
            JClass("org.apache.paimon.table.system.AuditLogTable")(self._at(path, None, None, None, options))
        )

    def _rows(
        self, table: Any, columns: Sequence[str] | None = None, predicate: Filter | None = None, with_kind: bool = False
    ) -> list[Row]:
        builder = table.newReadBuilder()
        if columns is not None:
            names = [str(n) for n in table.rowType().getFieldNames()]
            builder = builder.withProjection(JArray(JInt)([names.index(c) for c in columns]))
        if predicate is not None:
            builder = builder.withFilter(self.predicate(table, predicate))
        readers = [reader(t) for t in builder.readType().getFieldTypes()]
        read = builder.newRead().withIOManager(self._io_manager())
        if predicate is not None:
            read = read.executeFilter()
        out: list[Row] = []
        source = read.createReader(builder.newScan().plan().splits())
        found = JClass("org.apache.paimon.reader.RecordReaderIterator")(source)
        try:
            while found.hasNext():
                row = found.next()
                values = [get(row, i) for i, get in enumerate(readers)]
                out.append([str(row.getRowKind().shortString()), *values] if with_kind else values)
        finally:
            found.close()
        return sort_rows(out)

    def plan(
        self, path: str | os.PathLike[str], snapshot: int | None = None, predicate: Filter | None = None
    ) -> list[dict[str, Any]]:
        """The splits of Java's scan: partition values, bucket, files by name, raw_convertible, deletion files."""
        table = self._at(path, snapshot, None, None, None)
        builder = table.newReadBuilder()
        if predicate is not None:
            builder = builder.withFilter(self.predicate(table, predicate))
        return [
            {
                "bucket_path": str(split.bucketPath()),
                "bucket": int(split.bucket()),
                "files": [str(f.fileName()) for f in split.dataFiles()],
                "raw_convertible": bool(split.rawConvertible()),
                "rows": int(split.rowCount()),
            }
            for split in builder.newScan().plan().splits()
        ]

    def predicate(self, table: Any, wanted: Filter) -> Any:
        """The Java predicate of a filter."""
        builder = JClass("org.apache.paimon.predicate.PredicateBuilder")(table.rowType())
        op, *rest = wanted
        if op in ("and", "or"):
            parts = JArray(JClass("org.apache.paimon.predicate.Predicate"))([self.predicate(table, p) for p in rest])
            static = JClass("org.apache.paimon.predicate.PredicateBuilder")  # JPype crashes on an instance's varargs
            return static.and_(parts) if op == "and" else static.or_(parts)
        index = builder.indexOf(rest[0])
        field_type = table.rowType().getTypeAt(index)
        if op in ("in", "not_in"):
            values = JClass("java.util.ArrayList")([build(v, field_type) for v in rest[1]])
            return builder.in_(index, values) if op == "in" else builder.notIn(index, values)
        return getattr(builder, OPERATORS[op])(index, *(build(v, field_type) for v in rest[1:]))

    def schema(self, path: str | os.PathLike[str], *, branch: str | None = None) -> dict[str, Any]:
        """The latest schema, as Java writes it."""
        return json.loads(str(self.open(path, branch=branch).schema().toString()))  # type: ignore[no-any-return]

    def snapshots(self, path: str | os.PathLike[str], *, branch: str | None = None) -> list[dict[str, Any]]:
        """Every snapshot, oldest first, as Java writes it."""
        found = self.open(path, branch=branch).snapshotManager().safelyGetAllSnapshots()
        return sorted((json.loads(str(s.toJson())) for s in found), key=lambda s: s["id"])

    def tags(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Tag names and the snapshot of each."""
        return {str(e.getValue()[0]): int(e.getKey().id()) for e in self.open(path).tagManager().tags().entrySet()}

    # -------------------------------------------------------------------------------------------------------- writing

    def create_table(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[tuple[str, Any]],
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A new table. A column is (name, type): SQL text as in "DECIMAL(10, 2) NOT NULL", or the JSON of a nested type."""
        builder = JClass("org.apache.paimon.schema.Schema").newBuilder()
        for name, data_type in columns:
            builder.column(name, self.data_type(data_type))
        builder.partitionKeys(JClass("java.util.ArrayList")(list(partition_keys)))
        builder.primaryKey(JClass("java.util.ArrayList")(list(primary_keys)))
        builder.options(self._map(options or {}))
        self._schemas(path).createTable(builder.build())

    def data_type(self, data_type: Any) -> Any:
        """The Java type of SQL text or of the JSON form that schema files use."""
        json_util = JClass("org.apache.paimon.utils.JsonSerdeUtil")
        return json_util.fromJson(json.dumps(data_type), JClass("org.apache.paimon.types.DataType").class_)

    def alter(self, path: str | os.PathLike[str], change: str, *arguments: Any) -> None:
        """One schema change by the name of its Java factory: `alter(p, "addColumn", "x", java.data_type("INT"))`."""
        changes = JClass("java.util.ArrayList")()
        changes.add(getattr(JClass("org.apache.paimon.schema.SchemaChange"), change)(*arguments))
        self._schemas(path).commitChanges(changes)

    def commit_rows(
        self,
        path: str | os.PathLike[str],
        rows: Iterable[Sequence[Any]],
        commit_user: str = "java",
        identifier: int = 1,
        overwrite_partition: Mapping[str, str] | None = None,
        *,
        kinds: Sequence[str] | None = None,
        bucket: int | Callable[[Any], int] | None = None,
        options: Mapping[str, str] | None = None,
        branch: str | None = None,
    ) -> None:
        """One commit of rows.

        Args:
            rows: encoded values in the order of the schema's columns.
            overwrite_partition: replaces this partition ({} = the whole table), values as text; None appends.
            kinds: the row kind of each row; by default all +I.
            bucket: where the rows go, for tables that leave it to the engine (dynamic buckets); or a function of Java's row.
            options: dynamic options, such as {"write-only": "true"}.
        """
        table = self.open(path, branch=branch)
        if options:
            table = table.copy(self._map(options))
        types = list(table.rowType().getFieldTypes())
        write = table.newWrite(commit_user).withIOManager(self._io_manager())
        commit = table.newCommit(commit_user)
        if overwrite_partition is not None:
            write = write.withIgnorePreviousFiles(True)
            commit = commit.withOverwrite(self._map(overwrite_partition))
        try:
            for number, values in enumerate(rows):
                row = build_row(list(values), types, kinds[number] if kinds else "+I")
                number = bucket(row) if callable(bucket) else bucket
                write.write(row) if number is None else write.write(row, JInt(number))
            commit.commit(JLong(identifier), write.prepareCommit(True, JLong(identifier)))
        finally:
            write.close()
            commit.close()

    def dynamic_bucket(self, path: str | os.PathLike[str], *, overwrites: bool = False) -> Callable[[Any], int]:
        """The function that gives a row its dynamic bucket, as a job of one task has it: `commit_rows(bucket=...)` takes it."""
        table = self.open(path)
        options, store = table.coreOptions(), table.store()
        target, most = options.dynamicBucketTargetRowNum(), options.dynamicBucketMaxBuckets()
        index = JClass("org.apache.paimon.index.SimpleHashBucketAssigner")
        if overwrites:
            assigner = index(JInt(1), JInt(0), JLong(target), JInt(most))
        else:
            handler, user = store.newIndexFileHandler(), "java"
            assigner = JClass("org.apache.paimon.index.HashBucketAssigner")(
                table.snapshotManager(), user, handler, JInt(1), JInt(1), JInt(0), JLong(target), JInt(most)
            )
        extractor = JClass("org.apache.paimon.table.sink.RowPartitionKeyExtractor")(table.schema())
        return lambda row: int(assigner.assign(extractor.partition(row), extractor.trimmedPrimaryKey(row).hashCode()))

    def write_columns(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        first_row_id: int,
        identifier: int,
    ) -> None:
        """Write new values for some columns of existing rows (data evolution). `rows` begin at that row id."""
        table, types = self.open(path), JClass("java.util.ArrayList")(list(columns))
        row_type = table.rowType().project(types)
        write = table.newWrite("java").withIOManager(self._io_manager()).withWriteType(row_type)
        commit = table.newCommit("java")
        try:
            for values in rows:
                write.write(build_row(list(values), list(row_type.getFieldTypes())))
            messages = write.prepareCommit(True, JLong(identifier))
            for message in messages:
                files = message.newFilesIncrement().newFiles()
                placed = [file.assignFirstRowId(JLong(first_row_id)) for file in files]
                files.clear()
                files.addAll(placed)
            commit.commit(JLong(identifier), messages)
        finally:
            write.close()
            commit.close()

    def compact(
        self,
        path: str | os.PathLike[str],
        commit_user: str = "java-compact",
        identifier: int = 1,
        *,
        full: bool = True,
    ) -> None:
        """Compaction of every bucket that holds files, into the last level or only what is due, and one COMPACT commit."""
        table = self.open(path).copy(self._map({"write-only": "false"}))
        write = table.newWrite(commit_user).withIOManager(self._io_manager())
        commit = table.newCommit(commit_user)
        try:
            for entry in table.newSnapshotReader().bucketEntries():
                if entry.bucket() >= 0:
                    write.compact(entry.partition(), JInt(entry.bucket()), full)
            commit.commit(JLong(identifier), write.prepareCommit(True, JLong(identifier)))
        finally:
            write.close()
            commit.close()

    def compact_append_table(
        self,
        path: str | os.PathLike[str],
        commit_user: str,
        identifier: int,
        before_commit: Callable[[], object] = lambda: None,
    ) -> bool:
        """Compaction of a table with bucket -1, two files at least; False where there was nothing to do.

        Args:
            before_commit: called between the rewriting and the commit.
        """
        table = self.open(path).copy(self._map({"compaction.min.file-num": "2"}))
        try:
            tasks = JClass("org.apache.paimon.append.AppendCompactCoordinator")(table, False).run()
        except JClass("org.apache.paimon.table.source.EndOfScanException"):
            return False
        write, commit = table.store().newWrite(commit_user), table.newCommit(commit_user)
        if table.coreOptions().rowTrackingEnabled():
            write.withWriteType(JClass("org.apache.paimon.table.SpecialFields").rowTypeWithRowTracking(table.rowType()))
        try:
            messages = JClass("java.util.ArrayList")([task.doCompact(table, write) for task in tasks])
            before_commit()
            if not messages.isEmpty():
                commit.commit(JLong(identifier), messages)
            return not messages.isEmpty()
        finally:
            write.close()
            commit.close()

    def cluster(self, path: str | os.PathLike[str], identifier: int) -> int:
        """Full incremental clustering (option `clustering.incremental`) of a table with bucket -1; the number of new files."""
        table = self.open(path)
        manager = JClass("org.apache.paimon.append.cluster.IncrementalClusterManager")
        increment = JClass("org.apache.paimon.io.CompactIncrement")
        nothing = JClass("org.apache.paimon.io.DataIncrement").emptyIncrement()
        message, files = JClass("org.apache.paimon.table.sink.CommitMessageImpl"), JClass("java.util.ArrayList")
        write, commit = table.store().newWrite("java"), table.newCommit("java")
        write.withIOManager(self._io_manager())
        messages, count = files(), 0
        try:
            for entry in manager(table).createCompactUnits(True).entrySet():
                unit = entry.getValue()
                made = manager.upgrade(
                    write.clusterRewrite(entry.getKey(), JInt(0), unit.files()), JInt(unit.outputLevel())
                )
                count += made.size()
                change = increment(files(unit.files()), made, files())
                messages.add(message(entry.getKey(), JInt(0), JInt(-1), nothing, change))
            commit.commit(JLong(identifier), messages)
            return count
        finally:
            write.close()
            commit.close()

    def filter_and_commit(
        self, path: str | os.PathLike[str], rows: Iterable[Sequence[Any]], commit_user: str, identifier: int
    ) -> int:
        """As a streaming job that was restarted: commits unless the identity has landed; how many commits were made."""
        table = self.open(path)
        types = list(table.rowType().getFieldTypes())
        write, commit = table.newWrite(commit_user).withIOManager(self._io_manager()), table.newCommit(commit_user)
        try:
            for values in rows:
                write.write(build_row(list(values), types))
            pending = JClass("java.util.HashMap")()
            pending.put(JClass("java.lang.Long")(identifier), write.prepareCommit(True, JLong(identifier)))
            return int(commit.filterAndCommit(pending))
        finally:
            write.close()
            commit.close()

    def drop_partitions(self, path: str | os.PathLike[str], specs: Sequence[Mapping[str, str]]) -> None:
        """One commit that deletes partitions, values as text."""
        commit = self.open(path).newBatchWriteBuilder().newCommit()
        try:
            commit.truncatePartitions(JClass("java.util.ArrayList")([self._map(spec) for spec in specs]))
        finally:
            commit.close()

    def truncate(self, path: str | os.PathLike[str]) -> None:
        """One commit that deletes every row."""
        commit = self.open(path).newBatchWriteBuilder().newCommit()
        try:
            commit.truncateTable()
        finally:
            commit.close()

    def compact_manifests(self, path: str | os.PathLike[str]) -> None:
        """A manifest compaction of its own."""
        commit = self.open(path).newBatchWriteBuilder().newCommit()
        try:
            commit.compactManifests()
        finally:
            commit.close()

    # ---------------------------------------------------------------------------------------------------- maintenance

    def create_tag(self, path: str | os.PathLike[str], name: str, snapshot: int) -> None:
        self.open(path).createTag(name, JLong(snapshot))

    def expire(
        self, path: str | os.PathLike[str], keep: int, changelogs: int | None = None, branch: str | None = None
    ) -> None:
        """Expires all but the newest snapshots, and all but the newest changelogs where these are kept longer.

        Java 1.4.2 fails if more changelogs are to be kept than there are ids.
        """
        config = JClass("org.apache.paimon.options.ExpireConfig").builder()
        ended = config.snapshotRetainMax(JInt(keep)).snapshotRetainMin(JInt(keep))
        ended = ended.snapshotTimeRetain(JClass("java.time.Duration").ZERO).snapshotMaxDeletes(JInt(1000))
        if changelogs is not None:
            number = JClass("java.lang.Integer").valueOf(JInt(changelogs))
            ended = ended.changelogRetainMax(number).changelogRetainMin(number)
        table = self.open(path, branch=branch)
        table.newExpireSnapshots().config(ended.build()).expire()
        if changelogs is not None:
            table.newExpireChangelog().config(ended.build()).expire()

    def roll_back(self, path: str | os.PathLike[str], snapshot: int) -> None:
        self.open(path).rollbackTo(JLong(snapshot))

    def remove_orphans(self, path: str | os.PathLike[str]) -> int:
        """Deletes the files that nothing names, however young; how many."""
        later = JLong(2**62)
        cleaning = JClass("org.apache.paimon.operation.LocalOrphanFilesClean")(self.open(path), later, False)
        return int(cleaning.clean().getDeletedFileCount())

    # --------------------------------------------------------------------------------------------------------- inside

    def _at(
        self,
        path: str | os.PathLike[str],
        snapshot: int | None,
        tag: str | None,
        branch: str | None,
        options: Mapping[str, str] | None,
    ) -> Any:
        dynamic = dict(options or {})
        if snapshot is not None:
            dynamic["scan.snapshot-id"] = str(snapshot)
        if tag is not None:
            dynamic["scan.tag-name"] = tag
        table = self.open(path, branch=branch)
        return table.copy(self._map(dynamic)) if dynamic else table

    def _path(self, path: str | os.PathLike[str]) -> Any:
        return JClass("org.apache.paimon.fs.Path")(os.path.abspath(path))

    def _schemas(self, path: str | os.PathLike[str]) -> Any:
        return JClass("org.apache.paimon.schema.SchemaManager")(self._io, self._path(path))

    def _io_manager(self) -> Any:
        return JClass("org.apache.paimon.disk.IOManager").create(self._scratch)

    @staticmethod
    def _map(values: Mapping[str, str]) -> Any:
        out = JClass("java.util.HashMap")()
        for key, value in values.items():
            out.put(key, value)
        return out
