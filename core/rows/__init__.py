"""Owns the types and values of the format: their Python and Arrow forms, BinaryRow, partitions, buckets and literals.

Must not know: schemas, files. Begin with `types`, then read `values`.
"""
