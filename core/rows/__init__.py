"""Owns the types of the format and its values: their Python and Arrow forms, BinaryRow, partitions, buckets, literals.

Must not know: schemas, files.
Begin with `types`, then `values`.
"""
