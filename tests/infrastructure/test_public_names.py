"""The names that people type are promises: one that goes away, or comes by accident, is seen here."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

import lakelatch
import lakelatch.spark
from lakelatch.core.errors import ERRORS, LakelatchError
from lakelatch.core.other_names import METHODS, PACKAGE

NAMES = """
    Catalog CommitConflict Fenced InvalidArgument LakelatchError OutcomeUnknown ProtocolViolation Receipt
    RecoveredCommit Recovery RetriesExhausted Schema StoreUnavailable Table TableCorrupt TableExists TableNotFound
    UnsafeBackend Unsupported add_column allow col create_table drop_column drop_table in_zone is_table lit migrate move_column
    open_catalog open_table recover remove_option rename_column rename_table set_comment set_option update_comment
    update_default update_nullability update_type
"""
SPARK_NAMES = "LakeTable apply_changes changes clean compact read register sink sql unregister use write"
TABLE_NAMES = """
    alter analyze append apply_changes arrow_schema at auto_tag branch branches changes clean clone committer
    compact compact_manifests consumers count create_branch create_tag delete delete_branch delete_consumer
    delete_tag drop_partitions entries expire expire_consumers expire_partitions expire_tags explain export
    fast_forward files follow history mark_done merge optimize options orphans overwrite partitions plan
    plan_fast_forward plan_rescale plan_rollback plan_undo quarantines refresh rename_branch rename_tag repair
    rescale restore_quarantine rewrite_file_index rollback scan schema schemas set_consumer settle snapshot snapshots
    statistics system system_reader system_view tags to_arrow to_batches to_dataset to_duckdb to_iceberg to_pandas to_polars
    to_reader transaction truncate undo update update_columns upsert url verify
"""


def test_the_names_of_lakelatch() -> None:
    assert sorted(lakelatch.__all__) == sorted(NAMES.split())
    assert dir(lakelatch) == sorted([*NAMES.split(), "__version__"])
    assert all(getattr(lakelatch, name) is not None for name in NAMES.split())


def test_the_names_of_the_spark_interface() -> None:
    assert sorted(lakelatch.spark.__all__) == dir(lakelatch.spark) == sorted(SPARK_NAMES.split())
    assert all(callable(getattr(lakelatch.spark, name)) for name in SPARK_NAMES.split())


def test_the_methods_of_a_table() -> None:
    assert [name for name in dir(lakelatch.Table) if not name.startswith("_")] == sorted(TABLE_NAMES.split())


@pytest.mark.parametrize("name", [*METHODS, *PACKAGE])
def test_names_of_other_tools_are_told_their_name_here(name: str) -> None:
    """And that name is one that there is."""
    holder: Any = (
        lakelatch if name in PACKAGE else lakelatch.create_table("memory://names/t", {"k": "INT"}, exist_ok=True)
    )
    here = {**METHODS, **PACKAGE}[name]
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; here it is {re.escape(here)}$"):
        getattr(holder, name)
    words = re.findall(r"\w+", re.sub(r"\(.*?\)| for [^,]*", "", here))
    names = {*NAMES.split(), *TABLE_NAMES.split(), "or"}
    assert words and set(words) <= names


def test_a_name_that_is_nowhere_is_told_as_python_tells_it() -> None:
    table = lakelatch.create_table("memory://names/t", {"k": "INT"}, exist_ok=True)
    with pytest.raises(AttributeError, match=r"^a table has no attribute 'nonsense'$"):
        table.nonsense  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'lakelatch' has no attribute 'nonsense'$"):
        lakelatch.nonsense  # noqa: B018
    assert (
        not hasattr(table, "__array__") and copy.copy(table).url == table.url == pickle.loads(pickle.dumps(table)).url
    )


def test_every_error_can_be_caught_by_a_public_name() -> None:
    assert {kind.__name__ for kind in ERRORS.values()} == {
        name
        for name in NAMES.split()
        if isinstance(getattr(lakelatch, name), type) and issubclass(getattr(lakelatch, name), LakelatchError)
    }
