"""Owns the casts of old values to the new type of a column whose type was changed.

Must not know: schemas, or which columns were changed (`table.projection`). Begin with `rules`.
"""
