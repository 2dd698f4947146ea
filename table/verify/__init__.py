"""Owns the checks of a whole table, and their findings.

Must not know: how findings are shown, repairs. Begin with `whole`.
"""
