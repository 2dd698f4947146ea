"""The procedures of Apache Paimon that are refused, each with the way that works.

Owns: these names. Must not know: the others.
"""

from __future__ import annotations

_FUNCTIONS = "make it in Spark: CREATE TEMPORARY FUNCTION, or spark.udf.register"
_VIEWS = "make it in Spark: CREATE TEMPORARY VIEW, or CREATE VIEW in Spark's own catalog"
_INDEXES = (
    "use file indexes: ALTER TABLE … SET TBLPROPERTIES ('file-index.bloom-filter.columns' = '…'), then"
    " CALL sys.rewrite_file_index"
)
_MEND = "lakelatch.open_table(url).repair() says what can be mended, and mends it with dry_run=False"

REFUSED = {
    "alter_function": _FUNCTIONS,
    "create_function": _FUNCTIONS,
    "drop_function": _FUNCTIONS,
    "alter_view_dialect": _VIEWS,
    "create_global_index": _INDEXES,
    "drop_global_index": _INDEXES,
    "compact_chain_table": "chain tables are not supported; keep the snapshots and the changes in two tables",
    "materialize_deletion_vectors": "CALL sys.compact(table => …) writes files without their deleted rows",
    "merge_branch": "CALL sys.fast_forward(table => …, branch => …), or INSERT INTO t SELECT … FROM `t$branch_…`",
    "migrate_database": "CALL sys.migrate_table(…) for each table",
    "purge_files": "TRUNCATE TABLE t, which keeps the history, then CALL sys.expire_snapshots(table => 't', retain_max => 1)",
    "reassign_row_id": "row ids are given by each commit, and stay",
    "remove_unexisting_files": _MEND,
    "repair": "a warehouse has no metastore that could differ from its files. For a damaged table: " + _MEND,
    "repair_earliest_snapshot": _MEND,
}
