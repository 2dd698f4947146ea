"""Owns compaction: small files, and files with deleted rows, are rewritten into fewer files.

Must not know: how a commit is made, who started the compaction.
Begin with `plan`, then `run`.
"""
