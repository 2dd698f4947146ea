"""Shows running commits and batches of streams to the outside: log records, spans and metrics.

Must not know: decisions; nothing here changes a commit.
Start reading at `observe`; batches of streams are in `batches`.
"""
