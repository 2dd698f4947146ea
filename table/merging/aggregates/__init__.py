"""Owns the aggregate functions of columns: each takes the values of a key one after the other, oldest first, all keys at once.

Must not know: keys, engines.
Begin with `functions`, which finds a function by its name, then read `base`.
"""
