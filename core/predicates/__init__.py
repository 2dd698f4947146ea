"""Owns filters: the tree, the SQL text, and how it is evaluated on Arrow columns.

Must not know: statistics (`core.statistics`), files.
Begin with `predicate`.
"""
