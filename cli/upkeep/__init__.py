"""Commands that keep a table in shape."""
