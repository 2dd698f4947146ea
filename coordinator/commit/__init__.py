"""Owns one commit from the request to the receipt: attempts, conflicts, settling, uploads, retries.

Must not know: data files, Spark; the order of the steps, which is `protocol`'s.
Begin with `committer`, then `run`.
"""
