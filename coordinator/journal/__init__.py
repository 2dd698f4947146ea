"""Keeps the events of commits: in memory, in a file, or beside the table.

Must not know: how a commit ended (`recovery`).
Start reading at `lines`.
"""
