"""Owns commits as others see them while they run: log records, spans, metrics.

Must not know: decisions; nothing here changes a commit.
Begin with `observe`.
"""
