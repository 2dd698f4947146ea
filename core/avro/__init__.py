"""Owns Avro containers as manifests and manifest lists use them: written, and decoded record by record or into columns.

Must not know: what the records mean (`core.metadata`), where the bytes come from.
Begin with `records`, then `columns` for the fast path; README.md says why there is one.
"""
