"""Owns: streams of Spark into tables and out of them: the sink, the data source's stream writer and stream reader.

Must not know: how rows become files, how changes are found, how a commit is made. Begin with `writer`, then read `reader`.
"""
