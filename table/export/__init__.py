"""A state of a table for other tools: a folder of plain files, or Iceberg's metadata about the table's own files.

Owns: the names of these files, and their folders. Must not know: commits. Begin with `plain_files`, or with `iceberg`.
"""
