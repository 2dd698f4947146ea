"""Owns what became of a commit whose answer was lost.

Must not know: journals.
Begin with `resolution`.
"""
