"""Owns planning a read: the files, row groups and rows that it needs.

Must not know: how files are decoded (`reading`).
Begin with `plan`.
"""
