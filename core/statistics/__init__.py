"""Owns bounds and null counts of columns: collected, written, and used to leave files out.

Must not know: data files, plans.
Begin with `collect`, then `pruning`.
"""
