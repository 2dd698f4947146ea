"""Indexes of one data file's columns: containers, four kinds, and which rows they leave for a predicate."""
