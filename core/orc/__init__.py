"""Owns checks of an ORC file before Arrow decodes it: its tail, its streams and the lengths inside of them.

Must not know: which rows are wanted, stores.
Begin with `tail`; README.md says why these checks exist.
"""
