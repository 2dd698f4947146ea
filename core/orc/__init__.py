"""Owns the checks of an ORC file before Arrow decodes it: its tail, its streams and the lengths in them; also the form
of times before 1970 in files that Arrow has written.

Must not know: the requested rows, stores. Begin with `tail`.
"""
