"""Planted bugs, which the lab must catch."""
