"""Branches: made, renamed, deleted, listed, and brought back into the main branch.

Must not know: rows, data files, the command line.
Start reading at `create`, then `forward`.
"""
