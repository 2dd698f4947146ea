"""Owns how the columns of a file become those that are asked for: schema evolution, nested types, variants.

Must not know: stores, formats.
Begin with `plan`.
"""
