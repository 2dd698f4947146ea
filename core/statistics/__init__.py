"""Owns bounds and null counts of columns: collecting them, and using them to skip files.

Must not know: data files, plans. Begin with `collect`, then `pruning`.
"""
