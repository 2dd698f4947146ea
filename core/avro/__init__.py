"""Owns writing the containers of manifests and manifest lists (Avro, ORC, Parquet), and decoding them into records or columns.

Must not know: what the records mean (`core.metadata`), where the bytes come from.
Begin with `records`, then `columns` for the fast path; README.md says why there is one.
"""
