"""Owns which snapshots are the table: the latest, the oldest, forks, rollbacks, tables that were made again.

Must not know: commits in progress.
Begin with `rule`, then `timeline`.
"""
