"""Schemas of tables with a primary key that Apache Paimon refuses."""

from __future__ import annotations

COLUMNS = [("p", "INT"), ("k", "BIGINT"), ("n", "BIGINT"), ("s", "STRING"), ("a", "ARRAY<INT>")]

REFUSED: list[tuple[list[str], list[str], dict[str, str], str]] = [
    (["a"], [], {"bucket": "1"}, "'a' has a type that cannot be a key"),
    (["p"], ["p"], {"bucket": "1"}, "that is not a partition key"),
    (["k", "k"], [], {"bucket": "1"}, "names a column twice"),
    (["k", "x"], [], {"bucket": "1"}, "there is no column 'x'"),
    (["k"], [], {"bucket": "1", "bucket-key": "n"}, "'n' is not part of the primary key"),
    (["k"], [], {"bucket": "0"}, "'bucket' = 0"),
    (["k"], [], {"bucket": "1", "merge-engine": "newest"}, "'merge-engine' = 'newest'"),
    (["k"], [], {"bucket": "1", "changelog-producer": "all"}, "'changelog-producer' = 'all'"),
    ([], [], {"changelog-producer": "input"}, "needs a primary key"),
    (["k"], [], {"bucket": "1", "sequence.field": "x"}, "names column 'x', which does not exist"),
    (["k"], [], {"bucket": "1", "sequence.field": "n,n"}, "names a column twice"),
    (["k"], [], {"bucket": "1", "sequence.field": "n", "merge-engine": "first-row"}, "first-row"),
    (
        ["k"],
        [],
        {"bucket": "1", "merge-engine": "aggregation", "sequence.field": "n", "fields.n.aggregate-function": "sum"},
        "cannot have an aggregate function",
    ),
    (["k"], ["p"], {"bucket": "-1", "sequence.field": "n"}, "needs all partition columns in the primary key"),
    (["k"], [], {"bucket": "1", "rowkind.field": "x"}, "there is no column 'x'"),
    (["k"], [], {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "input"}, "none or lookup only"),
    (
        ["k"],
        [],
        {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"},
        "neither",
    ),
    (["k"], [], {"bucket": "1", "deletion-vectors.enabled": "true", "merge-engine": "first-row"}, "neither"),
    (["k"], [], {"bucket": "1", "fields.x.aggregate-function": "sum"}, "there is no column 'x'"),
]
"""Primary key, partition columns, options, and a part of the message."""
