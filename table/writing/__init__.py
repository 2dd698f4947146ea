"""Owns writing rows to data files, and the transactions that commit them.

Must not know: how a commit lands (`coordinator.commit`).
Begin with `transaction`, then `new_rows` and `writer`.
"""
