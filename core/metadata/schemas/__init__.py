"""Changes of schemas, and the options that belong to columns and keys."""
