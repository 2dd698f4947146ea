"""`spark.sql` of a registered session: statements on rows, who carries out which; registration, views and the data source.

Must not know: how a text is understood (`grammar`), what a name means (`catalogs`). Begin with `statements`.
"""
