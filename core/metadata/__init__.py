"""Owns snapshots, schemas, manifests and their entries, deletion vectors, and changes to them.

Must not know: stores, how a commit is made (`coordinator`). Begin with `snapshot`, then `manifest`.
"""
