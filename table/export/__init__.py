"""A state of a table as a folder of plain files.

Owns: the files' names and folders, in Hive's layout. Must not know: commits. Begin with `plain_files`.
"""
