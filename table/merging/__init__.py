"""Owns merging the rows of one primary key: sections of files, the order of rows, and the engines that make one row of several.

Must not know: stores, snapshots, how files are read.
Begin with `merge`, then read `sections`.
"""
