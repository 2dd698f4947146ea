"""Every table option of Apache Paimon is known by name, so that none is refused as misspelt."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.option_names import OF_A_COLUMN, check_option_name

pytestmark = pytest.mark.java

CLASSES = (
    "CoreOptions",
    "iceberg.IcebergOptions",
    "globalindex.btree.BTreeIndexOptions",
    "lookup.rocksdb.RocksDBOptions",
    "format.OrcOptions",
    "format.csv.CsvOptions",
    "format.json.JsonOptions",
    "format.text.TextOptions",
)
"""The classes that hold options of tables. Those of catalogs and of REST are options of a catalog, not of a table."""

SUFFIXES = {
    "AGG_FUNCTION",
    "IGNORE_RETRACT",
    "NESTED_KEY",
    "COUNT_LIMIT",
    "DISTINCT",
    "LIST_AGG_DELIMITER",
    "MERGE_MAP_TS_FIELD",
    "STATS_MODE_SUFFIX",
}


def constants(class_name: str, of: str) -> dict[str, Any]:
    """The constants of one type in one of its classes."""
    from jpype import JClass

    modifier = JClass("java.lang.reflect.Modifier")
    found = {}
    for field in JClass("java.lang.Class").forName(f"org.apache.paimon.{class_name}").getDeclaredFields():
        if modifier.isStatic(field.getModifiers()) and str(field.getType().getSimpleName()) == of:
            field.setAccessible(True)
            found[str(field.getName())] = field.get(None)
    return found


def is_known(key: str) -> bool:
    try:
        check_option_name(key)
    except InvalidArgument:
        return False
    return True


@pytest.mark.parametrize("class_name", CLASSES)
def test_every_option_of_apache_paimon_is_known(class_name: str, paimon_java: Any) -> None:
    options = constants(class_name, "ConfigOption").values()
    keys = {str(option.key()) for option in options}
    keys |= {str(fallback.getKey()) for option in options for fallback in option.fallbackKeys()}
    assert keys
    named = {key.replace("#", "com.example.Callback") for key in keys}
    assert sorted(key for key in named if not is_known(key)) == []


def test_the_options_of_single_columns_are_known(paimon_java: Any) -> None:
    found = {name: str(value) for name, value in constants("CoreOptions", "String").items() if name in SUFFIXES}
    assert set(found) == SUFFIXES
    assert set(found.values()) <= set(OF_A_COLUMN)
