"""Finds out how a commit ended whose answer was lost.

Must not know: journals.
Start reading at `resolution`.
"""
