"""The table of procedures: names, arguments, results.

Owns: `PROCEDURES`. Must not know: how arguments are checked. Source: Apache Paimon 2.0, `SparkProcedures`; decision 125.
Invariant: an argument has the name and the type that it has in Apache Paimon. `docs/reference/procedures.md` is made from here.
"""

from __future__ import annotations

from . import files, history, migrating, partitions
from .procedure import PARTITIONS, TABLE, WHERE, Parameter, Procedure

_MOVED = "previous_snapshot_id bigint, current_snapshot_id bigint"
_TAG = Parameter("tag", needed=True, about="the tag's name")
_BRANCH = Parameter("branch", needed=True, about="the branch's name")
_KEEP = Parameter("time_retained", default="until it is deleted", about="how long the tag is kept: `7 d`")
_SNAPSHOT = Parameter("snapshot", "bigint", default="the newest", about="the id of a snapshot")
_IDLE = Parameter("partition_idle_time", default="any", about="only partitions that got no file for this time: `2 h`")
_STEP = "pairs such as `a=1,b=2`; other options are refused, because they are those of the table"
_OLDER = "a time of the session's zone, with a zone, or in milliseconds since 1970"
_PARALLEL = Parameter("parallelism", "int", about="taken, and without effect: the session's tasks are used")


def _options(*names: str) -> Parameter:
    return Parameter("options", about=f"{', '.join(f'`{name}`' for name in names) or 'none'}, as {_STEP}")


_TAGS = (
    Procedure(
        "create_tag",
        "Gives a snapshot a name, which keeps its files. A name of digits is refused, because `VERSION AS OF 3` is the snapshot.",
        (TABLE, _TAG, _SNAPSHOT, _KEEP),
        history.create_tag,
        example="CALL lake.sys.create_tag(table => 'air.flights', tag => 'eod', snapshot => 1, time_retained => '7 d')",
    ),
    Procedure(
        "create_tag_from_timestamp",
        "Gives the first snapshot that was committed at a time or later a name.",
        (
            TABLE,
            _TAG,
            Parameter("timestamp", "bigint", needed=True, about="milliseconds since 1970, or a TIMESTAMP"),
            _KEEP,
        ),
        history.create_tag_from_timestamp,
        "tagName string, snapshot bigint, commit_time bigint, watermark string",
        "CALL lake.sys.create_tag_from_timestamp(table => 'air.flights', tag => 'first', timestamp => 0)",
    ),
    Procedure(
        "replace_tag",
        "Gives a tag to another snapshot, or another retention. Files that only the old one needed are deleted.",
        (TABLE, _TAG, _SNAPSHOT, _KEEP),
        history.replace_tag,
        example="CALL lake.sys.replace_tag(table => 'air.flights', tag => 'eod', snapshot => 2)",
    ),
    Procedure(
        "rename_tag",
        "Gives a tag another name.",
        (TABLE, _TAG, Parameter("target_tag", needed=True, about="the new name")),
        history.rename_tag,
        example="CALL lake.sys.rename_tag(table => 'air.flights', tag => 'eod', target_tag => 'monday')",
    ),
    Procedure(
        "delete_tag",
        "Deletes a tag, or several with commas between them, and the files that nothing else needs.",
        (TABLE, _TAG),
        history.delete_tag,
        example="CALL lake.sys.delete_tag(table => 'air.flights', tag => 'monday,first')",
    ),
    Procedure(
        "expire_tags",
        "Deletes the tags whose retention is over.",
        (TABLE, Parameter("older_than", default="none", about=f"also tags older than this: {_OLDER}, or `30 d`")),
        history.expire_tags,
        "expired_tags string",
        "CALL lake.sys.expire_tags(table => 'air.flights')",
    ),
    Procedure(
        "trigger_tag_automatic_creation",
        "Makes the automatic tags that are due.",
        (TABLE,),
        history.trigger_tag_automatic_creation,
        example="CALL lake.sys.trigger_tag_automatic_creation(table => 'air.flights')",
    ),
)
_BRANCHES = (
    Procedure(
        "create_branch",
        "Makes a branch with the rows of a tag, or with the table's columns and no rows.",
        (
            TABLE,
            _BRANCH,
            Parameter("tag", default="no rows", about="the tag that it begins with"),
            Parameter("ignoreIfExists", default="'false'", about="`true`: a branch that exists is no error"),
        ),
        history.create_branch,
        example="CALL lake.sys.create_branch(table => 'air.flights', branch => 'dev', tag => 'eod')",
    ),
    Procedure(
        "rename_branch",
        "Gives a branch another name.",
        (
            TABLE,
            Parameter("from_branch", needed=True, about="the branch"),
            Parameter("to_branch", needed=True, about="its new name"),
        ),
        history.rename_branch,
        example="CALL lake.sys.rename_branch(table => 'air.flights', from_branch => 'dev', to_branch => 'trial')",
    ),
    Procedure(
        "delete_branch",
        "Deletes a branch, or several with commas between them. Data files go with `remove_orphan_files`.",
        (TABLE, _BRANCH),
        history.delete_branch,
        example="CALL lake.sys.delete_branch(table => 'air.flights', branch => 'trial')",
    ),
    Procedure(
        "fast_forward",
        "Brings the snapshots of a branch into `main`, which must not have commits that the branch lacks.",
        (TABLE, _BRANCH),
        history.fast_forward,
        example="CALL lake.sys.fast_forward(table => 'air.flights', branch => 'trial')",
    ),
)
_HISTORY = (
    Procedure(
        "rollback",
        "Makes an earlier state the newest, with one commit on top of the history. Apache Paimon deletes the snapshots after"
        " that state; here they stay, and `current_snapshot_id` is the id of the new one.",
        (
            TABLE,
            Parameter("version", about="a snapshot's id, or a tag; one of `version`, `snapshot` and `tag`"),
            Parameter("snapshot", "bigint", about="a snapshot's id"),
            Parameter("tag", about="a tag's name"),
        ),
        history.rollback,
        _MOVED,
        "CALL lake.sys.rollback(table => 'air.flights', version => '1')",
        alone=True,
    ),
    Procedure(
        "rollback_to_timestamp",
        "The same, to the newest snapshot that is not later than a time.",
        (TABLE, Parameter("timestamp", "bigint", needed=True, about="milliseconds since 1970, or a TIMESTAMP")),
        history.rollback_to_timestamp,
        _MOVED,
        "CALL lake.sys.rollback_to_timestamp(table => 'air.flights', timestamp => unix_millis(current_timestamp()))",
        alone=True,
    ),
    Procedure(
        "rollback_to_watermark",
        "The same, to the newest snapshot whose watermark is not later.",
        (TABLE, Parameter("watermark", "bigint", needed=True, about="milliseconds since 1970, or a TIMESTAMP")),
        history.rollback_to_watermark,
        _MOVED,
        alone=True,
    ),
    Procedure(
        "expire_snapshots",
        "Deletes the oldest snapshots, and the files that nothing needs any more, as the table's options or the arguments say.",
        (
            TABLE,
            Parameter("retain_max", "int", default="option `snapshot.num-retained.max`", about="keep at most so many"),
            Parameter("retain_min", "int", default="option `snapshot.num-retained.min`", about="keep at least so many"),
            Parameter("older_than", default="option `snapshot.time-retained`", about=f"{_OLDER}, or `7 d`"),
            Parameter("max_deletes", "int", default="option `snapshot.expire.limit`", about="delete at most so many"),
            _options(
                "snapshot.num-retained.max",
                "snapshot.num-retained.min",
                "snapshot.time-retained",
                "snapshot.expire.limit",
            ),
        ),
        history.expire_snapshots,
        "deleted_snapshots_count int",
        "CALL lake.sys.expire_snapshots(table => 'air.flights', retain_max => 10)",
    ),
    Procedure(
        "reset_consumer",
        "Lets a consumer go on from a snapshot; without one, deletes the consumer.",
        (
            TABLE,
            Parameter("consumerId", needed=True, about="the consumer's name"),
            Parameter(
                "nextSnapshotId", "bigint", default="the consumer is deleted", about="the snapshot that it reads next"
            ),
        ),
        history.reset_consumer,
        example="CALL lake.sys.reset_consumer(table => 'air.flights', consumerId => 'etl', nextSnapshotId => 1)",
    ),
    Procedure(
        "clear_consumers",
        "Deletes consumers.",
        (
            TABLE,
            Parameter("includingConsumers", default="all", about="a regular expression that their names fit"),
            Parameter("excludingConsumers", default="none", about="one that the names of others fit"),
        ),
        history.clear_consumers,
        example="CALL lake.sys.clear_consumers(table => 'air.flights', includingConsumers => 'etl.*')",
    ),
)
_FILES = (
    Procedure(
        "compact",
        "Rewrites small files, as a job of the session; `result` is false where other jobs changed some of them first."
        " With `order_strategy`, sorts the rows of a table without a primary key.",
        (
            TABLE,
            PARTITIONS,
            Parameter("compact_strategy", default="'full'", about="`full`, or `minor`: only where it is due"),
            Parameter("order_strategy", default="'none'", about="`order`, `zorder` or `hilbert`"),
            Parameter("order_by", about="the columns to sort by: `a,b`"),
            WHERE,
            _options("target-file-size", "compaction.min.file-num"),
            _IDLE,
            Parameter("buckets", about="refused"),
        ),
        files.compact,
        example="CALL lake.sys.compact(table => 'air.flights', where => 'month = 1')",
    ),
    Procedure(
        "compact_database",
        "Compacts the tables of the catalog, whose full names fit. The result counts those that failed, and names them.",
        (
            Parameter("including_databases", default="all", about="a regular expression"),
            Parameter("including_tables", default="all", about="a regular expression of `database.table`"),
            Parameter("excluding_tables", default="none", about="a regular expression of `database.table`"),
            _options("target-file-size", "compaction.min.file-num"),
        ),
        files.compact_database,
        "result string",
        "CALL lake.sys.compact_database(including_databases => 'air')",
    ),
    Procedure(
        "rescale",
        "Rewrites partitions into another number of buckets, which also becomes option `bucket`.",
        (
            TABLE,
            Parameter("bucket_num", "int", default="option `bucket`", about="the number of buckets"),
            PARTITIONS,
            WHERE,
        ),
        files.rescale,
        example="CALL lake.sys.rescale(table => 'air.board', bucket_num => 4)",
    ),
    Procedure(
        "rewrite_file_index",
        "Gives existing files the indexes that the options `file-index.*` name now.",
        (TABLE, WHERE),
        files.rewrite_file_index,
        "written_partitions int, written_indexes int",
        "CALL lake.sys.rewrite_file_index(table => 'air.flights')",
    ),
    Procedure(
        "compact_manifest",
        "Merges small manifests.",
        (
            TABLE,
            _options(),
            Parameter("dry_run", "boolean", default="false", about="change nothing"),
            Parameter("manifest_sort_enabled", "boolean", about="refused"),
            Parameter("manifest_sort_partition_field", about="refused"),
            Parameter("manifest_sort_max_rewrite_size", about="refused"),
        ),
        files.compact_manifest,
        example="CALL lake.sys.compact_manifest(table => 'air.flights')",
        alone=True,
    ),
    Procedure(
        "remove_orphan_files",
        "Deletes files that no snapshot, tag or branch names; `table => 'air.*'` means all tables of a database.",
        (
            TABLE,
            Parameter("older_than", default="a day ago", about=f"only older files: {_OLDER}"),
            Parameter("dry_run", "boolean", default="false", about="delete nothing"),
            _PARALLEL,
            Parameter("mode", default="'distributed'", about="`local`: without a job"),
        ),
        files.remove_orphan_files,
        "deletedFileCount bigint, deletedFileTotalLenInBytes bigint",
        "CALL lake.sys.remove_orphan_files(table => 'air.flights', dry_run => true)",
    ),
    Procedure(
        "copy",
        "Copies a table, with its snapshots, tags and branches, to a new name of the catalog.",
        (
            Parameter("source_table", needed=True, about="the table"),
            Parameter("target_table", needed=True, about="the new name, as `air.copy`"),
            Parameter("where", about="refused"),
        ),
        files.copy,
        example="CALL lake.sys.copy(source_table => 'air.flights', target_table => 'air.copied')",
    ),
    Procedure(
        "migrate_table",
        "Makes a table of the files of a table in Spark's own catalog (Parquet, ORC, Avro). No row is rewritten. Unlike in Apache"
        " Paimon, the original stays by default, and `target_table` must be named.",
        (
            Parameter("source_type", needed=True, about="`hive`"),
            Parameter("table", needed=True, about="the table in Spark's catalog"),
            Parameter("options", about="options of the new table: `a=1,b=2`"),
            Parameter(
                "delete_origin", "boolean", default="false", about="`true` deletes the original files afterwards"
            ),
            Parameter("target_table", about="the new name, as `air.flights`"),
            Parameter("options_map", "map<string,string>", about="options of the new table: `map('a', '1')`"),
            _PARALLEL,
        ),
        migrating.migrate_table,
        example="CALL lake.sys.migrate_table(source_type => 'hive', table => 'plain', target_table => 'air.migrated')",
    ),
)
_PARTITIONS = (
    Procedure(
        "expire_partitions",
        "Drops the partitions that are too old.",
        (
            TABLE,
            Parameter("expiration_time", default="option `partition.expiration-time`", about="how old: `90 d`"),
            Parameter("timestamp_formatter", about="refused, unless it is the table's own option"),
            Parameter("timestamp_pattern", about="refused, unless it is the table's own option"),
            Parameter(
                "expire_strategy",
                default="option `partition.expiration-strategy`",
                about="`values-time` or `update-time`",
            ),
            Parameter(
                "max_expires", "int", default="option `partition.expiration-max-num`", about="drop at most so many"
            ),
            _options("partition.expiration-time", "partition.expiration-strategy", "partition.expiration-max-num"),
        ),
        partitions.expire_partitions,
        "expired_partitions string",
        "CALL lake.sys.expire_partitions(table => 'air.days', expiration_time => '90 d')",
    ),
    Procedure(
        "mark_partition_done",
        "Marks partitions as done, as option `partition.mark-done-action` says.",
        (TABLE, Parameter("partitions", needed=True, about="such as `month=1;month=2`")),
        partitions.mark_partition_done,
        example="CALL lake.sys.mark_partition_done(table => 'air.flights', partitions => 'month=1')",
    ),
)

PROCEDURES = {p.name: p for p in (*_FILES, *_HISTORY, *_TAGS, *_BRANCHES, *_PARTITIONS)}
"""By name, in the order of the reference."""
