"""Catalogs: databases and tables below one URL, in the layout of Apache Paimon's file-system catalog.

Owns: the names of databases and tables, listing, making and dropping them, and the maintenance of many tables. Must not know:
rows, how a table is dropped or maintained. Begin with `catalog`.
"""
