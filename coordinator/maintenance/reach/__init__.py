"""What a table can still reach."""
