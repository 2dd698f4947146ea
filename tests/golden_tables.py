"""The golden tables: written by Apache Paimon (Java), packed with the rows that it reads from them.

Owns: finding, unpacking and packing them. Must not know: who reads them.
`tests/golden/<set>/<name>.tar.gz` holds `table/` and `expected.json`; the set is named after the writer. The packed ones
are a choice; `LAKELATCH_GOLDEN` may name a folder with all of them (`<set>/<name>/table`), for those who have it.

    python tests/golden_tables.py FOLDER SET NAME...     packs tables of such a folder
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class GoldenTable:
    """An unpacked golden table.

    Attributes:
        set, name: such as "paimon-java-1.4.2", "append_types_parquet".
        path: the table's folder.
    """

    set: str
    name: str
    path: Path

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What must be read from it; `reads` is the list that matters."""
        return json.loads((self.path.parent / "expected.json").read_text())  # type: ignore[no-any-return]


def packed(prefix: str = "", set_name: str = "*") -> list[str]:
    """`set/name` of the packed tables whose name begins with `prefix`, sorted: ids for parametrised tests."""
    found = PACKED.glob(f"{set_name}/{prefix}*.tar.gz")
    return sorted(f"{path.parent.name}/{path.name.removesuffix('.tar.gz')}" for path in found)


def unpack(table_id: str, into: Path) -> GoldenTable:
    """A copy of the packed table `set/name` below the folder `into`."""
    set_name, name = table_id.split("/")
    target = into / set_name / name
    with tarfile.open(PACKED / set_name / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(target)
    return GoldenTable(set_name, name, target / "table")


def pack(folder: Path, set_name: str, name: str) -> Path:
    """Packs `folder/set/name`; the same table gives the same bytes."""
    source, target = folder / set_name / name, PACKED / set_name / f"{name}.tar.gz"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in [source / "expected.json", *sorted((source / "table").rglob("*"))]:
            entry = archive.gettarinfo(path, arcname=str(path.relative_to(source)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.isdir() else 0o644
            with open(path, "rb") if entry.isfile() else io.BytesIO() as content:
                archive.addfile(entry, content)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))
    return target


if __name__ == "__main__":
    for each in sys.argv[3:]:
        print(os.path.relpath(pack(Path(sys.argv[1]), sys.argv[2], each)))
