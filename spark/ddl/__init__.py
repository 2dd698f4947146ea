"""Statements about catalogs, databases and tables, and those that look after a table.

Owns: what each does and the frame that it returns, with Spark's own column names. Must not know: how a statement is understood
(`spark.grammar`), how a name becomes a table (`spark.catalogs`). Read `creating` first.
"""
