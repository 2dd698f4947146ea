"""Owns expressions: the tree, its SQL text, and the evaluation on Arrow columns of one or two tables.

Must not know: files, statistics, what becomes of the results.
Begin with `tree`.
"""
