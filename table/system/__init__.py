"""System tables: what Apache Paimon shows of a table beside its rows, as Arrow.

Owns: the system tables by name, their columns and values; the short listings of `files()`, `partitions()` and `history()`.
Must not know: how a commit is made, how tables are printed. Begin with `read`; each other module has a group of tables.
"""

from __future__ import annotations

from .listings import PartitionTotal, files_table, history_row, partition_totals, partitions_table

__all__ = ["PartitionTotal", "files_table", "history_row", "partition_totals", "partitions_table"]
