"""Indexes made of bitmaps."""
