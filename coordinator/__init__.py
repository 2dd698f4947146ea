"""How a table changes: the commit machine, its driver, journal, conflict checks and retries.

Knows the format (core) and stores (backends); knows nothing of rows, Arrow or Spark.
"""
