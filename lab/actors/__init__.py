"""Who takes part: processes that write, change, maintain, follow, copy and undo."""
