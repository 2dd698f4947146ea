"""Statements, views and the data source."""
