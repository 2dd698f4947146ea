"""Owns changes of single rows: DELETE, UPDATE and MERGE on every kind of table.

Must not know: how files are committed, the command line, Spark.
Begin with `run`.
"""
