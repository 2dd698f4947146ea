"""Owns the repair of damaged tables: which findings of a check can be mended, by which steps, and carrying them out.

Must not know: how damage is found (see `verify`), the command line. Begin with `plan`.
"""
