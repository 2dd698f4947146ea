"""pypaimon, Apache Paimon's own Python library, in an environment of its own: it needs an older pyarrow than ours.

Owns: that environment (in the cache, made once), and calls into it by child processes. Must not know: lakelatch, but for
the data types that name the encoding. Tables are local; Arrow files carry the rows between the two processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from servers.go_binaries import cache_folder
from values import Row, encode_rows

from lakelatch.core.schema import parse_schema
from lakelatch.core.types import Field

VERSION = "2.1.0"
CHILD = Path(__file__).with_name("pypaimon_child.py")


class PypaimonError(Exception):
    """pypaimon raised; the message is the end of its trace."""


def interpreter() -> Path:
    """The Python of pypaimon's environment, made now if the cache lacks it."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    folder = cache_folder() / f"pypaimon-{VERSION}-py{version}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return python
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            install = [str(python), "-m", "pip", "install", "-q", f"pypaimon=={VERSION}"]
            subprocess.run(install, check=True, stdin=subprocess.DEVNULL, env=_environment())
            complete.touch()
    return python


def rows(
    path: str | os.PathLike[str],
    snapshot: int | None = None,
    tag: str | None = None,
    columns: Sequence[str] | None = None,
) -> list[Row]:
    """The rows that pypaimon reads, encoded and sorted; by default those of the latest snapshot.

    Raises:
        PypaimonError: pypaimon refuses the table.
    """
    table = read(path, snapshot=snapshot, tag=tag, columns=columns)
    fields = {field.name: field for field in schema_of(Path(path), snapshot, tag)}
    return encode_rows(table, [fields[name] for name in (columns or fields)])


def read(
    path: str | os.PathLike[str],
    snapshot: int | None = None,
    tag: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The same as an Arrow table, as pypaimon makes it."""
    options = {} if snapshot is None else {"scan.snapshot-id": str(snapshot)}
    if tag is not None:
        options["scan.tag-name"] = tag
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        _call(do="read", path=os.path.abspath(path), options=options, columns=columns, file=file.name)
        with pa.ipc.open_file(file.name) as reader:
            return reader.read_all()


def append(path: str | os.PathLike[str], table: pa.Table, options: Mapping[str, str] | None = None) -> None:
    """One append by pypaimon, in one commit."""
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_file(file.name, table.schema) as writer:
            writer.write_table(table)
        _call(do="append", path=os.path.abspath(path), options=dict(options or {}), columns=None, file=file.name)


def schema_of(path: Path, snapshot: int | None, tag: str | None) -> tuple[Field, ...]:
    """The columns of a snapshot or tag, or of the latest schema: what the rows are encoded by."""
    if snapshot is None and tag is None:
        schema_id = max(int(file.name.split("-")[1]) for file in (path / "schema").glob("schema-*"))
    else:
        root = path / "snapshot" / f"snapshot-{snapshot}" if tag is None else path / "tag" / f"tag-{tag}"
        schema_id = json.loads(root.read_text())["schemaId"]
    file = path / "schema" / f"schema-{schema_id}"
    return parse_schema(file.read_bytes(), str(file)).fields


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def _call(**request: Any) -> None:
    done = subprocess.run(
        [str(interpreter()), str(CHILD)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    if done.returncode != 0:
        raise PypaimonError(f"pypaimon {VERSION}, {request['do']} {request['path']}: {done.stderr[-1500:]}")
