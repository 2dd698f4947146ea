"""Owns the file indexes of a data file: their container, their four kinds, and the rows that they keep for a predicate."""
