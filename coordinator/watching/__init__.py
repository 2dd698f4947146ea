"""Shows running commits to the outside: log records, spans and metrics.

Must not know: decisions; nothing here changes a commit.
Start reading at `observe`.
"""
