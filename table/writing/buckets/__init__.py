"""Where a row goes."""
