"""Apache Paimon (Java) on clones by reference: it changes them, and deletes nothing of the other table (decision 72)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from figures import NIGHTLY
from interop.agreement import our_rows
from interop.test_java_catalogs import JavaCatalog
from values import assert_same_rows

import lakelatch as ll

pytestmark = pytest.mark.java

STRANGE = "a b%2F:é"
"""A partition's value, of which a folder's name has few characters as they are."""
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {"deletion-vectors.enabled": "true"}),
    "keyed": (["k", "p"], {"bucket": "2", "changelog-producer": "input"}),
    "vectors": (["k", "p"], {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}),
}


def files_of(path: Path) -> dict[str, bytes]:
    """Every file below a folder but the tags, which a clone adds to, and the hints."""
    found = (file for file in path.rglob("*") if file.is_file() and file.parent.name != "tag")
    return {str(file): file.read_bytes() for file in found}


@pytest.mark.parametrize("kind", KINDS if NIGHTLY else ["vectors"])
def test_java_reads_and_changes_a_clone_by_reference(tmp_path: Path, paimon_java: Any, kind: str) -> None:
    """G8, H16: every row; then commits, compactions, expiries and cleaning on both sides, and a drop, all by Java."""
    path, copy = tmp_path / "air.db/t", tmp_path / "air.db/copy"
    keys, options = KINDS[kind]
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("p", "STRING NOT NULL")]
    options |= {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    paimon_java.create_table(path, columns, ["p"], keys, options)
    for turn in range(3):
        rows = [[k, f"{turn}", STRANGE if k % 2 else "b"] for k in range(turn, turn + 4)]
        paimon_java.commit_rows(path, rows, identifier=turn + 1)
    table = ll.open_table(str(path))
    table.delete(where="k = 1")
    table.committer.settle()
    table.clone(str(copy), reference=True)
    before, rows = files_of(path), paimon_java.rows(path)
    assert rows
    assert_same_rows(paimon_java.rows(copy), rows)
    assert_same_rows(paimon_java.rows(copy, predicate=["=", "v", "2"]), [row for row in rows if row[1] == "2"])
    names = [e.file.external_path or "" for e in ll.open_table(str(copy)).entries()]
    assert names and all(name.startswith(f"file:{path}/p=") for name in names)

    paimon_java.commit_rows(copy, [[k, "new", p] for k in (2, 50) for p in (STRANGE, "b")], identifier=10)
    if keys:
        paimon_java.compact(copy, identifier=11)
    else:
        paimon_java.commit_rows(copy, [[9, "over", "b"]], identifier=11, overwrite_partition={})
    changed = paimon_java.rows(copy)
    assert_same_rows(our_rows(ll.open_table(str(copy))), changed)
    paimon_java.expire(copy, 1)
    paimon_java.remove_orphans(copy)
    assert files_of(path) == before, "the clone's tag keeps Java's expiry from the files of the other table"
    assert_same_rows(paimon_java.rows(copy), changed)
    assert_same_rows(paimon_java.rows(copy, tag="cloned"), rows)
    assert ll.open_table(str(copy)).verify("all", data=True) == []

    paimon_java.truncate(path)
    paimon_java.expire(path, 1)
    paimon_java.remove_orphans(path)
    assert_same_rows(paimon_java.rows(copy, tag="cloned"), rows)
    left = files_of(path)
    JavaCatalog(tmp_path).drop("air.copy")
    assert not copy.exists() and files_of(path) == left
    assert paimon_java.rows(path) == []
