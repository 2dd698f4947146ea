"""The words that Apache Paimon parses strictly, as its releases 1.4.2 and 2.0.0 have them, and those that lakelatch writes.

Owns: both lists. Must not know: how a jar is read (`interop.java.class_words`). `tests/interop/test_java_words.py` compares the
first with the jars.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from lakelatch.core.file_index.options import KINDS as INDEX_KINDS
from lakelatch.core.metadata import data_file, deletion_vector, hash_index
from lakelatch.core.metadata.snapshot import KINDS, OPERATIONS, CommitKind, OperationWord
from lakelatch.core.metadata.sorted_runs.lookup_rules import PRODUCERS
from lakelatch.core.rows.types import ATOMIC_ROOTS, UNRELEASED_ROOTS
from lakelatch.table.merging.merge import ENGINES

ENUMS: dict[str, dict[str, list[str]]] = {
    "Snapshot$CommitKind": {"1.4.2": ["APPEND", "COMPACT", "OVERWRITE", "ANALYZE"]},
    "Snapshot$Operation": {
        "1.4.2": [],
        "2.0.0": [
            "WRITE", "OVERWRITE", "DELETE", "TRUNCATE", "UPDATE", "MERGE",
            "CREATE_TABLE_AS_SELECT", "REPLACE_TABLE_AS_SELECT", "CREATE_OR_REPLACE_TABLE_AS_SELECT",
        ],
    },
    "manifest/FileKind": {"1.4.2": ["ADD", "DELETE"]},
    "manifest/FileSource": {"1.4.2": ["APPEND", "COMPACT"]},
    "types/DataTypeRoot": {
        "1.4.2": [
            "CHAR", "VARCHAR", "BOOLEAN", "BINARY", "VARBINARY", "DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT",
            "DOUBLE", "DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
            "VARIANT", "BLOB", "ARRAY", "VECTOR", "MULTISET", "MAP", "ROW",
        ]
    },
    "CoreOptions$MergeEngine": {"1.4.2": ["DEDUPLICATE", "PARTIAL_UPDATE", "AGGREGATE", "FIRST_ROW"]},
    "CoreOptions$ChangelogProducer": {"1.4.2": ["NONE", "INPUT", "FULL_COMPACTION", "LOOKUP"]},
}  # fmt: skip
"""The constants of each enum, by release; 2.0.0 has those of 1.4.2 where nothing else is said. No constants: no such class."""
TEXTS: dict[tuple[str, str], str] = {
    ("deletionvectors/DeletionVectorsIndexFile", "DELETION_VECTORS_INDEX"): "DELETION_VECTORS",
    ("index/HashIndexFile", "HASH_INDEX"): "HASH",
    ("fileindex/bloomfilter/BloomFilterFileIndexFactory", "BLOOM_FILTER"): "bloom-filter",
    ("fileindex/bitmap/BitmapFileIndexFactory", "BITMAP_INDEX"): "bitmap",
    ("fileindex/bsi/BitSliceIndexBitmapFileIndexFactory", "BSI_INDEX"): "bsi",
    ("fileindex/rangebitmap/RangeBitmapFileIndexFactory", "RANGE_BITMAP"): "range-bitmap",
}
"""Texts of constant fields, the same in both releases."""
_SPELT = {
    "INT": "INTEGER",
    "TIME": "TIME_WITHOUT_TIME_ZONE",
    "TIMESTAMP": "TIMESTAMP_WITHOUT_TIME_ZONE",
    "TIMESTAMP_LTZ": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
}


def constants(enum: str, release: str) -> list[str]:
    known = ENUMS[enum]
    return known.get(release, known["1.4.2"])


def _named(words: Iterable[str]) -> set[str]:
    """Values of options as the enum's constants."""
    return {word.upper().replace("-", "_") for word in words}


WRITTEN: dict[str, set[str]] = {
    "Snapshot$CommitKind": {*KINDS, *get_args(CommitKind)},
    "Snapshot$Operation": {*OPERATIONS, *get_args(OperationWord)},
    "types/DataTypeRoot": {_SPELT.get(r, r) for r in ATOMIC_ROOTS - {*UNRELEASED_ROOTS}}
    | {"ARRAY", "MAP", "MULTISET", "ROW", "VECTOR"},
    "CoreOptions$MergeEngine": {{"aggregation": "AGGREGATE"}.get(e, *_named([e])) for e in ENGINES},
    "CoreOptions$ChangelogProducer": _named(PRODUCERS),
}
"""What lakelatch writes, by the enum that parses it."""
BYTES = {
    "manifest/FileKind": {"ADD": data_file.ADD, "DELETE": data_file.DELETE},
    "manifest/FileSource": {"APPEND": data_file.SOURCE_APPEND, "COMPACT": data_file.SOURCE_COMPACT},
}
"""Constants that are stored as their positions."""
INDEXES = {deletion_vector.INDEX_TYPE, hash_index.INDEX_TYPE, *INDEX_KINDS}
