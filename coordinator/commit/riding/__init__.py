"""Who rides with whom."""
