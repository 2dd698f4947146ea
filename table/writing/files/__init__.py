"""The files of one bucket."""
