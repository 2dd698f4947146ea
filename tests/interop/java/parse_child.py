"""Parses the metadata of tables with one release of Apache Paimon, in a process of its own: a JVM has one class path.

Arguments: the jar, then the folders of tables. Prints a line for each file that the release cannot parse, then how many it can.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import java_home
import jpype
from interop.java.jvm import pyspark_jars

ROOTS = {
    "snapshot-": "Snapshot",
    "tag-": "tag.Tag",
    "changelog-": "Changelog",
    "schema-": "schema.TableSchema",
    "consumer-": "consumer.Consumer",
    "stat-": "stats.Statistics",
}


def main(jar: str, *folders: str) -> None:
    home = java_home.wire()
    jpype.startJVM(
        str(home / "lib" / "server" / "libjvm.so"), "-Xmx1g", "-Dlog4j2.level=OFF",
        classpath=[jar, str(pyspark_jars() / "*")],
    )  # fmt: skip
    count = 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and "/lakelatch/" not in str(path):
                count += _tried(path, lambda path=path: _parse(path))  # type: ignore[misc]
        for root in sorted({path.parent.parent for path in Path(folder).rglob("schema/schema-0")}):
            if "branch-" not in root.name:
                count += _tried(root, lambda root=root: _read(root))  # type: ignore[misc]
    print(f"parsed {count}")


def _tried(path: Path, parse: Any) -> int:
    try:
        return int(parse())
    except Exception as error:
        print(f"{path}: {error}"[:500].replace("\n", " "))
        return 0


def _parse(path: Path) -> bool:
    if path.name in ("LATEST", "EARLIEST"):
        return int(path.read_text()) > 0
    name = next((n for prefix, n in ROOTS.items() if path.name.startswith(prefix) and "." not in path.name), None)
    if name is None:
        return False
    jpype.JClass(f"org.apache.paimon.{name}").fromJson(path.read_text())
    return True


def _read(root: Path) -> int:
    """All manifests and index manifests of all snapshots of a table."""
    io = jpype.JClass("org.apache.paimon.fs.local.LocalFileIO").create()
    path = jpype.JClass("org.apache.paimon.fs.Path")(str(root))
    table = jpype.JClass("org.apache.paimon.table.FileStoreTableFactory").create(io, path)
    count = 0
    for snapshot in table.snapshotManager().safelyGetAllSnapshots():
        table.store().newScan().withSnapshot(snapshot).plan().files()
        if snapshot.indexManifest() is not None:
            table.indexManifestFileReader().read(snapshot.indexManifest())
        count += 1
    return count


if __name__ == "__main__":
    main(*sys.argv[1:])
