"""CSV, JSON and plain text."""
