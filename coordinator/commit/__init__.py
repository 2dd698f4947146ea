"""One commit, from the request to the receipt: attempts, conflict checks, settling, uploads and retries.

Must not know: data files, Spark, and the order of the steps, which belongs to `protocol`.
Start reading at `committer`, then `run`.
"""
