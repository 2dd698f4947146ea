"""Remembers which commits of which users have landed, however long ago.

Must not know: how a snapshot is published.
Start reading at `memory`, then `recall`.
"""
