"""Owns predicates: the tree, the SQL text, and the evaluation on Arrow columns.

Must not know: statistics (`core.statistics`), files.
Begin with `predicate`.
"""
