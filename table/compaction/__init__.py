"""Owns small files and deleted rows rewritten into fewer files.

Must not know: how a commit lands, who asked for it.
Begin with `plan`, then `run`.
"""
