"""The table options that Apache Paimon and lakelatch know, by name, and what to do about a name that neither knows.

Owns: the names, why those that no code looks for change nothing here, `check_option_name`. Must not know: what an option does,
tables that already have an option. Source: format/schema §6; the `ConfigOption`s of Apache Paimon's classes, which a test of the
Java interop compares with the names here: the test prints a missing one.

Invariants: every option of Apache Paimon 1.4.2 and 2.0 for tables, Spark and Flink is known, and in one place: in `options` if it
has a typed value here, in `side_effects` if it asks for something that is not done, else here. An unknown one is refused only
when it is set, never when a table that has it is opened or changed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from .arguments import text
from .errors import InvalidArgument
from .options import ALL_OPTIONS
from .side_effects import SIDE_EFFECTS

ELSEWHERE = frozenset(
    """
    add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
    blob-descriptor-field blob-external-storage-field blob-field blob-view-field blob.stored-descriptor-fields
    branch deduplicate.ignore-delete deletion-vectors.merge-on-read deletion-vectors.modifiable
    disable-explicit-type-casting fields.default-aggregate-function first-row.ignore-delete force-lookup
    global-index.column-update-action
    ignore-delete incremental-between incremental-between-scan-mode incremental-between-tag-to-snapshot
    incremental-between-timestamp incremental-to-auto-tag merge-engine partial-update.ignore-delete
    partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group partition path
    primary-key scan.bucket scan.creation-time-millis scan.file-creation-time-millis scan.snapshot-id
    scan.tag-name scan.timestamp scan.timestamp-millis scan.version scan.watermark sequence.field
    sequence.field.sort-order table-read.sequence-number.enabled vector.file.format
    """.split()
)
"""Names that the code looks for as texts, because they are not of one typed value: it follows them, or refuses them by name."""

_HARMLESS = {
    "buffers, caches and threads of Apache Paimon's own readers and writers": """
        async-file-write blob.copy-buffer-size cache-page-size cross-partition-upsert.bootstrap-parallelism
        delete-file.thread-num dynamic-bucket.assigner-parallelism file-operation.thread-num
        file-reader-async-threshold local-kv-db.block-size local-merge-buffer-size
        local-sort.max-num-file-handles lookup.cache-file-retention lookup.cache-max-disk-size
        lookup.cache-max-memory-size lookup.cache-rows lookup.cache-spill-compression
        lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio
        lookup.hash-load-factor lookup.merge-buffer-size lookup.merge-records-threshold
        lookup.remote-file.enabled lookup.remote-file.level-threshold page-size
        postpone.batch-write-fixed-bucket.max-parallelism read.batch-size rocksdb.block.blocksize
        rocksdb.block.cache-size rocksdb.block.metadata-blocksize rocksdb.bloom-filter.bits-per-key
        rocksdb.bloom-filter.block-based-mode rocksdb.compaction.level.max-size-level-base
        rocksdb.compaction.level.target-file-size-base rocksdb.compaction.level.use-dynamic-size
        rocksdb.compaction.style rocksdb.compression.type rocksdb.files.open rocksdb.log.dir
        rocksdb.log.file-num rocksdb.log.level rocksdb.log.max-file-size rocksdb.thread.num
        rocksdb.use-bloom-filter rocksdb.writebuffer.count rocksdb.writebuffer.number-to-merge
        rocksdb.writebuffer.size scan.manifest.parallelism sort-compaction.local-sample.magnification
        sort-compaction.range-strategy sort-engine sort-spill-buffer-size sort-spill-threshold spill-compression
        spill-compression.zstd-level write-buffer-for-append write-buffer-spill.max-disk-size
        write-buffer-spillable write-max-writers-to-spill write.batch-memory write.batch-size
    """,
    "of Flink's jobs: sources, sinks, look-ups, the views that they keep": """
        auto-create changelog-producer.compaction-interval changelog.precommit-compact
        changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num
        continuous.discovery-interval end-input.watermark filesystem.job-level-settings.enabled log.scan
        log.scan.timestamp-millis log.system log.system.auto-register log.system.partitions
        log.system.replication lookup.async lookup.async-thread-number lookup.blob-as-descriptor
        lookup.bootstrap-parallelism lookup.cache lookup.continuous.discovery-interval
        lookup.dynamic-partition.refresh-interval lookup.refresh.async
        lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
        lookup.refresh.time-periods-blacklist materialized-table.definition-query
        materialized-table.interval-freshness materialized-table.interval-freshness.time-unit
        materialized-table.logical-refresh-mode materialized-table.refresh-handler-bytes
        materialized-table.refresh-handler-description materialized-table.refresh-mode
        materialized-table.refresh-status partition.end-input-to-done partition.mark-done.recover-from-state
        precommit-compact read.shuffle-bucket-with-partition scan.bounded scan.bounded.watermark
        scan.dedicated-split-generation scan.infer-parallelism scan.infer-parallelism.max
        scan.max-splits-per-task scan.parallelism scan.partitions scan.remove-normalize
        scan.split-enumerator.batch-size scan.split-enumerator.mode scan.watermark.alignment.group
        scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval scan.watermark.emit.strategy
        scan.watermark.idle-timeout sink.clustering.by-columns sink.clustering.sample-factor
        sink.clustering.sort-in-cluster sink.clustering.strategy sink.committer-cpu sink.committer-memory
        sink.committer-operator-chaining sink.cross-partition.managed-memory sink.managed.writer-buffer-memory
        sink.operator-uid.suffix sink.parallelism sink.partition-shuffle sink.savepoint.auto-tag
        sink.use-managed-memory-allocator sink.writer-coordinator.cache-memory sink.writer-coordinator.enabled
        sink.writer-coordinator.page-size sink.writer-cpu sink.writer-memory sink.writer-refresh-detectors
        snapshot.watermark-idle-timeout source.checkpoint-align.enabled source.checkpoint-align.timeout
        source.operator-uid.suffix streaming-read-atomic streaming-read.shuffle-bucket-with-partition
        unaware-bucket.compaction.parallelism upsert-key
    """,
    "of Apache Paimon's connector for Spark: its streams, checks and retries": """
        legacy-timestamp-mapping.enabled read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger
        read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger
        requiredSparkConfsCheck.enabled write.data-evolution.update-conflict-retry.max-attempts
        write.data-evolution.update-conflict-retry.wait-ms write.use-v2-write
    """,
    (
        "a read, stream or write of lakelatch is asked for these by its own arguments, such as `evolve` and the mode of "
        "an overwrite"
    ): """
        batch-scan-mode dynamic-partition-overwrite read.changelog scan.plan-auto-tag-for-read.time-retained
        stream-scan-mode streaming-read-append-overwrite streaming-read-overwrite streaming.read.snapshot.delay
        write.merge-schema write.merge-schema.explicit-cast write.merge-schema.type-widening
    """,
    "said to lakelatch by whoever calls a reader or an expiry, and not by the table": """
        consumer-id consumer.ignore-progress consumer.mode snapshot.expire.execution-mode
    """,
    "a lost or damaged file is an error for lakelatch, whatever the table says": """
        scan.fallback-branch.read-fail-fast scan.ignore-corrupt-files scan.ignore-lost-files
    """,
    "of text files: refused where a table's files are CSV or JSON, and of no use elsewhere": """
        csv.escape-character csv.field-delimiter csv.include-header csv.line-delimiter csv.mode csv.null-literal
        csv.quote-character escape field-delimiter header json.ignore-parse-errors json.line-delimiter
        json.map-null-key-literal json.map-null-key-mode lineSep mode nullvalue quote seq text.line-delimiter
    """,
    "of tables of another type, which are refused by `type`": """
        format-table.commit-hive-sync-url format-table.file.compression format-table.implementation
        format-table.partition-path-only-value format-table.scan.list-parallelism
    """,
    "of Iceberg metadata, which only `metadata.iceberg.storage` asks for": """
        metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num
        metadata.iceberg.database metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version
        metadata.iceberg.glue.skip-archive metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class
        metadata.iceberg.hive-conf-dir metadata.iceberg.hive-skip-update-stats
        metadata.iceberg.manifest-compression metadata.iceberg.manifest-legacy-version
        metadata.iceberg.previous-versions-max metadata.iceberg.storage-location metadata.iceberg.table
        metadata.iceberg.uri
    """,
    "of chain tables, which only `chain-table.enabled` asks for": """
        chain-table.chain-partition-keys chain-table.split.key-range-enabled
        chain-table.streaming.merge-snapshot
    """,
    (
        "of another option, which is told or refused by itself: `visibility-callback.enabled`, `metastore."
        "tag-to-partition`, `partition.mark-done-action`, `clustering.columns`, `data-evolution.row-sidecar.enabled`"
    ): """
        clustering.history-partition.limit data-evolution.row-sidecar.max-selected-rows
        data-evolution.row-sidecar.max-selection-ratio metastore.tag-to-partition.preview
        partition.mark-done-action.custom.class visibility-callback.check-interval visibility-callback.timeout
    """,
    "how Apache Paimon builds and searches global indexes, which no option alone gives a table": """
        bitmap-index.compression bitmap-index.compression-level bitmap-index.dictionary-block-size
        bitmap-index.fallback-scan-max-size btree-index.block-size btree-index.build.max-parallelism
        btree-index.cache-size btree-index.compression btree-index.compression-level
        btree-index.fallback-scan-max-size btree-index.high-priority-pool-ratio btree-index.records-per-range
        full-text-index.search-mode global-index.build.max-parallelism global-index.build.max-shard
        global-index.enabled global-index.external-path
        global-index.row-count-per-shard global-index.search-mode global-index.thread-num
        scalar-index.search-mode sorted-index.build.max-parallelism sorted-index.records-per-range vector-field
        vector-index.search-mode vector-search.distribute.enabled vector-search.lateral-join.batch-size
        vector-search.lateral-join.parallelism vector.target-file-size
    """,
    "how VARIANT columns are shredded: lakelatch writes them whole, which every reader takes": """
        variant.inferShreddingSchema variant.shredding.adaptive.maxInferBufferRow
        variant.shredding.adaptive.retentionRatio variant.shredding.inferenceMode
        variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth
        variant.shredding.minFieldCardinalityRatio variant.shreddingSchema
    """,
    "of BLOBs that are stored elsewhere, which are refused by `blob-descriptor-field` and its like": """
        blob-descriptor.source-table blob-external-storage-path blob-view.resolve.enabled
        blob-write-null-on-fetch-failure blob-write-null-on-missing-file
    """,
    "how Apache Paimon's own compaction and MERGE go about data evolution and row ids": """
        data-evolution.compaction.rewrite-row-ids data-evolution.merge-into.file-pruning
        data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
        data-evolution.row-id-conflict-rewrite.max-size row-tracking.partition-group-on-commit
    """,
    "the size and order of what a file, a manifest or a split holds, on which no reader depends": """
        blob.split-by-file-size compaction.file-num-limit deletion-vector.index-file.target-size
        manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field
        manifest.delete-file-drop-stats scan.plan-sort-partition source.split.target-size-with-column-pruning
        zorder.var-length-contribution
    """,
    (
        "lakelatch cannot go wrong in that way: a commit never names a file twice, and a key's place is looked up in the "
        "table itself"
    ): """
        commit.discard-duplicate-files cross-partition-upsert.index-ttl
    """,
}
HARMLESS: Mapping[str, tuple[str, ...]] = {why: tuple(names.split()) for why, names in _HARMLESS.items()}
"""Names that change nothing here, by the reason."""

KNOWN = frozenset(
    (
        *(key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)),
        *ELSEWHERE,
        *(name for names in HARMLESS.values() for name in names),
        *(effect.option for effect in SIDE_EFFECTS if not effect.is_pattern),
    )
)

OF_A_COLUMN = (
    "aggregate-function",
    "count-limit",
    "default-value",
    "distinct",
    "ignore-retract",
    "list-agg-delimiter",
    "nested-key",
    "nested-key-null-strategy",
    "nested-sequence-field",
    "sequence-group",
    "stats-mode",
    "ts-field",
)

_FAMILIES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"fields\..+\.({'|'.join(OF_A_COLUMN)})",
        r"file-index\.(bloom-filter|bitmap|bsi|range-bitmap)\.(columns|.+\.[^.]+)",
        r"(commit|tag)\.callback\..+\.param",
        r"metadata\.iceberg\.rest\..+",
        r"blob-descriptor\..+",
        r"(parquet|orc|avro)\..+",  # handed to the format's own writer
    )
)


_AS_SIMILAR = 0.08
"""Names that are less similar than the best one by this much are not suggested."""


def check_option_name(key: str, allow_unknown: bool = False) -> None:
    """Refuse an option that nobody reads, which is most often a misspelt one. Raises InvalidArgument, which suggests
    similar names.

    `allow_unknown` accepts any name, for options that only the caller's own programs read.

    >>> check_option_name("snapshot.time-retained"), check_option_name("fields.a,b.sequence-group")
    (None, None)
    >>> _similar("snapshot.time-retaned")
    ['snapshot.time-retained']
    """
    text(key, "option")
    if allow_unknown or key in KNOWN or any(family.fullmatch(key) for family in _FAMILIES):
        return
    close = _similar(key)
    meant = f"did you mean {' or '.join(repr(name) for name in close)}? An" if close else "an"
    raise InvalidArgument(
        f"there is no table option {key!r}",
        next_step=f"{meant} option that only your own programs read needs allow_unknown=True, in the shell --allow-unknown",
    )


def _similar(key: str) -> list[str]:
    parts = key.split(".")
    if parts[0] == "fields" and len(parts) > 2:
        found = difflib.get_close_matches(parts[-1], OF_A_COLUMN, n=3)
        return [".".join([*parts[:-1], name]) for name in found]
    folded = key.strip().lower().replace("_", "-")
    found = difflib.get_close_matches(folded, sorted(KNOWN), n=3, cutoff=0.7)
    ratios = [difflib.SequenceMatcher(None, name, folded).ratio() for name in found]
    return [name for name, ratio in zip(found, ratios, strict=True) if ratio > ratios[0] - _AS_SIMILAR]
