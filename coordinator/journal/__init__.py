"""Owns where the events of commits are kept: in memory, in a file, beside the table.

Must not know: what becomes of a commit (`recovery`).
Begin with `lines`.
"""
