"""Everything that changes a table: the commit machine, its driver, journals, conflict checks and retries.

Knows the format (core) and stores (backends). Must not know: rows, Arrow, Spark.
"""
