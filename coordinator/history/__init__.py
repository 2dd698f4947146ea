"""Decides which snapshots are the table's history: the latest, the oldest, forks, rollbacks, and tables made again.

Must not know: commits in progress.
Start reading at `rule`, then `timeline`.
"""
