"""History that goes."""
