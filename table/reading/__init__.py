"""Owns the rows of a plan as Arrow batches, deletion vectors applied.

Must not know: how files were chosen (`scan`).
Begin with `arrow`.
"""
