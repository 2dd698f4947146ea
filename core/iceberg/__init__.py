"""The metadata of Apache Iceberg about data files of a table: schemas, manifests, deletion vectors, the table's document.

Owns: their bytes. Must not know: stores, plans, which files a snapshot shows (`table.export.iceberg`). Begin with `document`.
"""
