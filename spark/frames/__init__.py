"""Spark's own Python methods, for names of tables of ours: `spark.table`, `read.table`, `saveAsTable`, `insertInto`, `writeTo`.

Owns: these methods of registered sessions and of their frames, readers and writers. Must not know: how rows are written.
Read `naming` first.
"""
