"""The harness around pypaimon is compared with golden rows, and with the real Apache Paimon, before it is relied on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import GoldenTable
from interop import pypaimon_env
from values import assert_same_rows


@pytest.mark.parametrize(
    "name", ["append_types_parquet", "append_evolve_parquet", "append_part_string_special", "append_dv"]
)
def test_pypaimon_reads_golden_rows(name: str, golden: Callable[[str], GoldenTable]) -> None:
    """G8: what the harness reports as pypaimon's rows is what Java reads, at the last snapshot that was written down."""
    table = golden(f"paimon-java-1.4.2/{name}")
    read = [r for r in table.expected["reads"] if set(r["at"]) == {"snapshot"} and "filter" not in r][-1]
    rows = pypaimon_env.rows(table.path, snapshot=read["at"]["snapshot"], columns=read.get("projection"))
    assert_same_rows(rows, read["rows"], name)


def test_pypaimon_refuses_what_it_cannot_read(golden: Callable[[str], GoldenTable]) -> None:
    """A failure of the child is an error here, never an empty answer."""
    table = golden("paimon-java-1.4.2/append_manifest_orc_zstd")
    with pytest.raises(pypaimon_env.PypaimonError, match=r"append_manifest_orc_zstd"):
        pypaimon_env.rows(table.path)


@pytest.mark.java
def test_pypaimon_appends_to_a_java_table(tmp_path: Path, paimon_java: Any) -> None:
    """G8: a third writer for tests of mixed histories: its commit is read by Java."""
    path = tmp_path / "t"
    paimon_java.create_table(path, [("id", "INT"), ("s", "STRING")])
    paimon_java.commit_rows(path, [[1, "java"]])
    pypaimon_env.append(path, pa.table({"id": pa.array([2], pa.int32()), "s": ["python"]}))
    assert_same_rows(paimon_java.rows(path), [[1, "java"], [2, "python"]])
    assert_same_rows(pypaimon_env.rows(path, snapshot=1), [[1, "java"]])
