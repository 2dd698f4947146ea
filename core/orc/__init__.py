"""Owns the checks of an ORC file before Arrow decodes it: its tail, its streams and the lengths in them.

Must not know: the requested rows, stores.
Begin with `tail`.
"""
