"""Commands that look, and change nothing."""
