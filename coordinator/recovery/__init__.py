"""Finishes or concludes commits that their writers left in a journal.

Must not know: how a live writer makes a commit.
Start reading at `recover`.
"""
