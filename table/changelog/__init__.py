"""Owns the changes of a table between two of its states: which rows came and which went, snapshot by snapshot.

Must not know: how a commit is made, merging of rows with one key, who follows a table.
Begin with `reading`.
"""
