"""What keeps a table small and can take it back: a plan first, pure and printable, then its execution, which can be repeated."""
