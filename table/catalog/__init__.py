"""Catalogs: databases and tables below one URL, in the layout of Apache Paimon's file-system catalog.

Owns: their names, listing, making, dropping and maintaining them. Must not know: rows, how a table is dropped or
maintained. Begin with `catalog`.
"""
