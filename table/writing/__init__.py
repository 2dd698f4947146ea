"""Owns rows to data files, and transactions that commit them.

Must not know: how a commit lands (`coordinator.commit`).
Begin with `transaction`, then `writer`.
"""
