"""Rows in files: plan a scan, read it, write rows. Arrow in, Arrow out; knows nothing of Spark."""
