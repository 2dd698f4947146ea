"""The rows of a table: plan a scan, read it, write rows. All rows go in and out as Arrow. Must not know: Spark."""
