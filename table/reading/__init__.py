"""Owns reading the rows of a plan as Arrow batches, without the deleted rows.

Must not know: how files were chosen (`scan`). Begin with `arrow`.
"""
