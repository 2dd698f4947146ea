"""Owns expressions and conditions: their trees, their SQL text, and the evaluation on Arrow columns of one or two tables.

Must not know: files, statistics (`core.statistics`), what becomes of the results.
Begin with `tree` for values, and with `predicate` for filters.
"""
