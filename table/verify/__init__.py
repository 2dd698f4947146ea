"""Owns the checks of a whole table, and what they find.

Must not know: how findings are shown, repairs.
Begin with `whole`.
"""
