"""Owns which files, row groups and rows a read needs.

Must not know: how files are decoded (`reading`).
Begin with `plan`.
"""
