"""Owns which commits of which users have landed, however long ago.

Must not know: how a snapshot is published.
Begin with `memory`, then `recall`.
"""
