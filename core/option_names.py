"""The table options that Apache Paimon and lakelatch know, by name, and what to do about a name that neither knows.

Owns: the names, `check_option_name`. Must not know: what an option does, tables that already have an option.
Source: format/schema §6; the `ConfigOption`s of Apache Paimon's classes, which a test of the Java interop compares with
the names here: the test prints a missing one. Invariants: every option of Apache Paimon 1.4.2 for tables is known,
whoever uses it. An unknown one is refused only when it is set, never when a table that has it is opened or changed.
"""

from __future__ import annotations

import difflib
import re

from .arguments import text
from .errors import InvalidArgument
from .options import ALL_OPTIONS

APACHE_PAIMON = frozenset(
    """
    add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
    async-file-write auto-create batch-scan-mode blob-as-descriptor blob-descriptor-field
    blob-external-storage-field blob-external-storage-path blob-field blob.split-by-file-size
    blob.stored-descriptor-fields blob.target-file-size branch btree-index.block-size
    btree-index.build.max-parallelism btree-index.cache-size btree-index.compression
    btree-index.compression-level btree-index.high-priority-pool-ratio btree-index.records-per-range bucket
    bucket-append-ordered bucket-function.type bucket-key cache-page-size chain-table.chain-partition-keys
    chain-table.enabled changelog-file.compression changelog-file.format changelog-file.prefix
    changelog-file.stats-mode changelog-producer changelog-producer.lookup-wait
    changelog-producer.row-deduplicate changelog-producer.row-deduplicate-ignore-fields
    changelog.num-retained.max changelog.num-retained.min changelog.time-retained clustering.columns
    clustering.history-partition.idle-to-full-sort clustering.history-partition.limit clustering.incremental
    clustering.incremental.mode clustering.incremental.optimize-write clustering.strategy commit.callbacks
    commit.discard-duplicate-files commit.force-compact commit.force-create-snapshot commit.max-retries
    commit.max-retry-wait commit.min-retry-wait commit.strict-mode.last-safe-snapshot commit.timeout
    commit.user-prefix compaction.delete-ratio-threshold compaction.file-num-limit
    compaction.force-rewrite-all-files compaction.force-up-level-0 compaction.incremental-size-threshold
    compaction.max-size-amplification-percent compaction.min.file-num compaction.offpeak-ratio
    compaction.offpeak.end.hour compaction.offpeak.start.hour compaction.optimization-interval
    compaction.size-ratio compaction.total-size-threshold consumer-id consumer.changelog-only
    consumer.expiration-time consumer.ignore-progress consumer.mode continuous.discovery-interval
    cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl csv.escape-character
    csv.field-delimiter csv.include-header csv.line-delimiter csv.mode csv.null-literal csv.quote-character
    data-evolution.enabled data-file.external-paths data-file.external-paths.specific-fs
    data-file.external-paths.strategy data-file.external-paths.weights data-file.path-directory data-file.prefix
    data-file.thin-mode deduplicate.ignore-delete delete-file.thread-num delete.force-produce-changelog
    deletion-vector.index-file.target-size deletion-vectors.bitmap64 deletion-vectors.enabled
    deletion-vectors.modifiable disable-explicit-type-casting dynamic-bucket.assigner-parallelism
    dynamic-bucket.initial-buckets dynamic-bucket.max-buckets dynamic-bucket.target-row-num
    dynamic-partition-overwrite end-input.check-partition-expire escape field-delimiter
    fields.default-aggregate-function file-index.in-manifest-threshold file-index.read.enabled
    file-operation.thread-num file-reader-async-threshold file.block-size file.compression
    file.compression.per.level file.compression.zstd-level file.format file.format.per.level
    file.suffix.include.compression first-row.ignore-delete force-lookup format-table.commit-hive-sync-url
    format-table.file.compression format-table.implementation format-table.partition-path-only-value
    full-compaction.delta-commits global-index.build.max-parallelism global-index.build.max-shard
    global-index.column-update-action global-index.enabled global-index.external-path
    global-index.row-count-per-shard global-index.thread-num header ignore-delete ignore-update-before
    incremental-between incremental-between-scan-mode incremental-between-tag-to-snapshot
    incremental-between-timestamp incremental-to-auto-tag index-file-in-data-file-dir json.ignore-parse-errors
    json.line-delimiter json.map-null-key-literal json.map-null-key-mode key-value.sequence_number.enabled
    lineSep local-merge-buffer-size local-sort.max-num-file-handles log.scan log.scan.timestamp-millis
    lookup-compact lookup-compact.max-interval lookup-wait lookup.cache-file-retention
    lookup.cache-max-disk-size lookup.cache-max-memory-size lookup.cache-rows lookup.cache-spill-compression
    lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio
    lookup.continuous.discovery-interval lookup.hash-load-factor lookup.merge-buffer-size
    lookup.merge-records-threshold lookup.remote-file.enabled lookup.remote-file.level-threshold
    manifest.compression manifest.delete-file-drop-stats manifest.format manifest.full-compaction-threshold-size
    manifest.merge-min-count manifest.target-file-size materialized-table.definition-query
    materialized-table.interval-freshness materialized-table.interval-freshness.time-unit
    materialized-table.logical-refresh-mode materialized-table.refresh-handler-bytes
    materialized-table.refresh-handler-description materialized-table.refresh-mode
    materialized-table.refresh-status merge-engine metadata.iceberg.compaction.max.file-num
    metadata.iceberg.compaction.min.file-num metadata.iceberg.database
    metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version
    metadata.iceberg.glue.skip-archive metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class
    metadata.iceberg.hive-conf-dir metadata.iceberg.hive-skip-update-stats metadata.iceberg.manifest-compression
    metadata.iceberg.manifest-legacy-version metadata.iceberg.previous-versions-max metadata.iceberg.storage
    metadata.iceberg.storage-location metadata.iceberg.table metadata.iceberg.uri metadata.stats-dense-store
    metadata.stats-keep-first-n-columns metadata.stats-mode metadata.stats-mode.per.level
    metastore.partitioned-table metastore.tag-to-partition metastore.tag-to-partition.preview mode nullvalue
    num-levels num-sorted-run.compaction-trigger num-sorted-run.stop-trigger orc.column.encoding.direct
    orc.dictionary.key.threshold orc.timestamp-ltz.legacy.type orc.write.batch-size overwrite-upgrade page-size
    parquet.enable.dictionary parquet.variant.shreddingSchema partial-update.ignore-delete
    partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group partition
    partition.default-name partition.end-input-to-done partition.expiration-batch-size
    partition.expiration-check-interval partition.expiration-max-num partition.expiration-strategy
    partition.expiration-time partition.idle-time-to-report-statistic partition.legacy-name
    partition.mark-done-action partition.mark-done-action.custom.class partition.mark-done-action.http.params
    partition.mark-done-action.http.url partition.sink-strategy partition.timestamp-format.strict
    partition.timestamp-formatter partition.timestamp-pattern path pk-clustering-override
    postpone.batch-write-fixed-bucket postpone.batch-write-fixed-bucket.max-parallelism
    postpone.default-bucket-num primary-key query-auth.enabled quote read.batch-size record-level.expire-time
    record-level.time-field rocksdb.block.blocksize rocksdb.block.cache-size rocksdb.block.metadata-blocksize
    rocksdb.bloom-filter.bits-per-key rocksdb.bloom-filter.block-based-mode
    rocksdb.compaction.level.max-size-level-base rocksdb.compaction.level.target-file-size-base
    rocksdb.compaction.level.use-dynamic-size rocksdb.compaction.style rocksdb.compression.type
    rocksdb.files.open rocksdb.log.dir rocksdb.log.file-num rocksdb.log.level rocksdb.log.max-file-size
    rocksdb.thread.num rocksdb.use-bloom-filter rocksdb.writebuffer.count rocksdb.writebuffer.number-to-merge
    rocksdb.writebuffer.size row-tracking.enabled rowkind.field scan.bounded.watermark scan.creation-time-millis
    scan.fallback-branch scan.fallback-delta-branch scan.fallback-snapshot-branch scan.file-creation-time-millis
    scan.ignore-corrupt-files scan.ignore-lost-files scan.manifest.parallelism scan.max-splits-per-task
    scan.mode scan.plan-sort-partition scan.primary-branch scan.snapshot-id scan.tag-name scan.timestamp
    scan.timestamp-millis scan.version scan.watermark seq sequence.field sequence.field.sort-order
    sink.clustering.by-columns sink.clustering.strategy sink.process-time-zone sink.watermark-time-zone
    snapshot.clean-empty-directories snapshot.expire.clean-empty-directories snapshot.expire.execution-mode
    snapshot.expire.limit snapshot.ignore-empty-commit snapshot.num-retained.max snapshot.num-retained.min
    snapshot.time-retained snapshot.watermark-idle-timeout sort-compaction.local-sample.magnification
    sort-compaction.range-strategy sort-engine sort-spill-buffer-size sort-spill-threshold
    source.split.open-file-cost source.split.target-size spill-compression spill-compression.zstd-level
    stream-scan-mode streaming-read-append-overwrite streaming-read-overwrite streaming.read.snapshot.delay
    table-read.sequence-number.enabled tag.automatic-completion tag.automatic-creation tag.batch.customized-name
    tag.callbacks tag.create-success-file tag.creation-delay tag.creation-period tag.creation-period-duration
    tag.default-time-retained tag.num-retained-max tag.period-formatter tag.time-expire-enabled target-file-size
    text.line-delimiter type upsert-key variant.inferShreddingSchema variant.shredding.maxInferBufferRow
    variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio
    variant.shreddingSchema vector-field vector.file.format vector.target-file-size
    visibility-callback.check-interval visibility-callback.enabled visibility-callback.timeout
    write-buffer-for-append write-buffer-size write-buffer-spill.max-disk-size write-buffer-spillable
    write-max-writers-to-spill write-only write.batch-memory write.batch-size write.compaction-skip
    zorder.var-length-contribution
    """.split()
)
"""The names in version 1.4.2 for tables, with the older names that it still accepts."""

LATER = frozenset(
    """
    blob-compaction.enabled blob-descriptor.source-table blob-view-field blob-view.resolve.enabled
    blob-write-null-on-fetch-failure blob-write-null-on-missing-file blob.copy-buffer-size
    btree-index.fallback-scan-max-size chain-table.split.key-range-enabled chain-table.streaming.merge-snapshot
    compaction.skip-expired-partitions compaction.small-file-ratio data-evolution.compaction.rewrite-row-ids
    data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
    data-evolution.reassign.skip-contiguous-row-count data-evolution.row-id-conflict-rewrite.max-size
    data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
    data-evolution.row-sidecar.max-selection-ratio deletion-vectors.merge-on-read
    format-table.scan.list-parallelism full-text-index.search-mode global-index.search-mode
    local-kv-db.block-size lookup.blob-as-descriptor manifest-sort.enabled manifest-sort.max-rewrite-size
    manifest-sort.partition-field pk-bitmap.index.columns pk-btree.index.columns pk-full-text.index.columns
    pk-vector.index.columns postpone.merge-on-read postpone.target-row-num-per-bucket
    postpone.target-size-per-bucket row-tracking.partition-group-on-commit scalar-index.search-mode scan.bucket
    scan.fallback-branch.read-fail-fast scan.plan-auto-tag-for-read.time-retained sequence.snapshot-ordering
    target-file-row-num variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
    variant.shredding.inferenceMode vector-index.search-mode vector-search.distribute.enabled
    vector-search.lateral-join.batch-size write.sequence-number-init-mode
    """.split()
)
"""The names that version 2.0 added."""

ENGINES = frozenset(
    """
    changelog-producer.compaction-interval changelog.precommit-compact changelog.precommit-compact.buffer-size
    changelog.precommit-compact.thread-num commit.custom-listeners end-input.watermark
    filesystem.job-level-settings.enabled legacy-timestamp-mapping.enabled log.system log.system.auto-register
    log.system.partitions log.system.replication lookup.async lookup.async-thread-number
    lookup.bootstrap-parallelism lookup.cache lookup.dynamic-partition.refresh-interval lookup.refresh.async
    lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
    lookup.refresh.time-periods-blacklist partition.idle-time-to-done partition.mark-done.recover-from-state
    partition.time-interval precommit-compact read.allow.fullScan read.changelog
    read.shuffle-bucket-with-partition read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger
    read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger
    requiredSparkConfsCheck.enabled scan.bounded scan.dedicated-split-generation scan.infer-parallelism
    scan.infer-parallelism.max scan.parallelism scan.partitions scan.remove-normalize
    scan.split-enumerator.batch-size scan.split-enumerator.mode scan.watermark.alignment.group
    scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval scan.watermark.emit.strategy
    scan.watermark.idle-timeout sink.clustering.sample-factor sink.clustering.sort-in-cluster sink.committer-cpu
    sink.committer-memory sink.committer-operator-chaining sink.cross-partition.managed-memory
    sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism sink.partition-shuffle
    sink.savepoint.auto-tag sink.use-managed-memory-allocator sink.writer-coordinator.cache-memory
    sink.writer-coordinator.enabled sink.writer-coordinator.page-size sink.writer-cpu sink.writer-memory
    sink.writer-refresh-detectors source.checkpoint-align.enabled source.checkpoint-align.timeout
    source.operator-uid.suffix source.split.target-size-with-column-pruning streaming-read-atomic
    streaming-read.shuffle-bucket-with-partition unaware-bucket.compaction.parallelism
    vector-search.lateral-join.parallelism write.data-evolution.update-conflict-retry.max-attempts
    write.data-evolution.update-conflict-retry.wait-ms write.merge-schema write.merge-schema.explicit-cast
    write.merge-schema.type-widening write.use-v2-write
    """.split()
)
"""The names of its connectors for Spark and Flink, which read them from the table's options too."""

KNOWN = APACHE_PAIMON | LATER | ENGINES | {key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)}

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
