"""Levels and sorted runs of tables with a primary key."""
