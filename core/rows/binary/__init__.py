"""Rows as bytes, and the hashes of them."""
