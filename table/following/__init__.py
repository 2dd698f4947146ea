"""Owns: reading a table's changes on and on: where a reader begins, how far it has come, and what comes next.

Must not know: Spark, how the changes of one snapshot are found. Begin with `position`, then read `reader`.
"""
