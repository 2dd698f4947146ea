"""Owns the changes of a table between two of its states: which rows came and which went, snapshot by snapshot.

Must not know: how a commit is made, how rows with one key are merged, who follows a table.
Begin with `reading`, then read `key_changes` for tables with a primary key.
"""
