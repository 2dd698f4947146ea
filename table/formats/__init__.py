"""Owns reading and writing data files (Parquet, ORC, Avro, BLOB) through one interface.

Must not know: which rows are wanted, snapshots.
Begin with `reading` and `writing`, which choose by format; README.md says why `thrift_compact` exists.
"""
