"""What a SQL statement says: its kind, the places of its names and clauses. Knows no session and no table.

Begin with `statements`, which lists them; `pieces` has what they are made of.
"""
