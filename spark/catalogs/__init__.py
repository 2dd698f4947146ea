"""From a name in a statement to a table: warehouses that were registered, and Spark's own catalog. Begin with `names`."""
