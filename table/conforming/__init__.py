"""The door for rows: what callers give becomes batches with the table's columns and types, or an error that names the column.

Must not know: partitions, files, commits. Begin in `conform`; `rules` is the table of what becomes of each type.
"""
