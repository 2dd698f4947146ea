"""Owns the way of a frame's rows to the tasks that write them: by partition and bucket, in the order of their keys.

Must not know: how rows become files, commits. Begin with `routing`, then `bucket_expressions`.
"""
