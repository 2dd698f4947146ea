"""Procedures: `CALL lake.sys.NAME(argument => value, …)`, with the names and arguments that they have in Apache Paimon.

Owns: the table of procedures (`entries`), the check of arguments (`arguments`) and what each procedure calls. Must not know: how
a statement is understood, how a name becomes a table. Read `entries` first.
"""
