"""Owns what an old value becomes after the type of its column was changed.

Must not know: schemas, which columns were changed (`table.projection`).
Begin with `rules`.
"""
