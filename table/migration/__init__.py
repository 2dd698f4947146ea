"""Folders of plain files that become tables, without rewriting the rows.

Owns: listing such a folder, its Hive partitions, the statistics in footers, and the one commit. Must not know: catalogs, Spark.
Begin with `migrate`.
"""
