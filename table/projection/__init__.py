"""Owns converting the columns of a file to the requested columns: schema evolution, nested types, variants.

Data evolution, where several files hold the columns of one row, is in `table.scan.row_runs`.
Must not know: stores, formats. Begin with `plan`.
"""
