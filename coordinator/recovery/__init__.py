"""Owns commits that a journal has and their writers left: finished, or concluded.

Must not know: how a commit is made by a live writer.
Begin with `recover`.
"""
