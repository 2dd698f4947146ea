"""The names that people type are promises: one that goes away, or comes by accident, is seen here."""

from __future__ import annotations

import lakelatch
import lakelatch.spark
from lakelatch.core.errors import ERRORS, LakelatchError

NAMES = """
    CommitConflict Fenced InvalidArgument LakelatchError OutcomeUnknown ProtocolViolation Receipt RecoveredCommit Recovery
    RetriesExhausted Schema StoreUnavailable Table TableCorrupt TableExists TableNotFound UnsafeBackend Unsupported
    add_column col create_table drop_column is_table move_column open_table recover remove_option rename_column
    set_comment set_option update_comment update_default update_nullability update_type
"""
SPARK_NAMES = "compact read register write"
TABLE_NAMES = """
    alter append arrow_schema at branch clean committer compact count drop_partitions entries expire explain files history
    options orphans overwrite partitions plan plan_rollback refresh rollback scan schema schemas snapshot snapshots to_arrow
    to_batches to_dataset to_duckdb to_pandas to_polars to_reader transaction truncate url verify
