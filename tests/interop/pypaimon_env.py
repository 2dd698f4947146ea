"""pypaimon, Apache Paimon's own Python library, in an environment of its own, because it needs an older pyarrow.

Owns: that environment (in the cache, made once), and calls into it by child processes. Must not know: lakelatch, but for
the data types that name the encoding. Tables are local; Arrow files carry the rows between the two processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import pyarrow as pa
from values import Row, encode_rows

from lakelatch.core.metadata.schema import parse_schema
from lakelatch.core.rows.types import Field

VERSION = "2.1.0"
CHILD = Path(__file__).with_name("pypaimon_child.py")


class PypaimonError(Exception):
    """pypaimon raised; the message is the end of its trace."""


def interpreter() -> Path:
    """The Python of pypaimon's environment, made now if the cache lacks it."""

    def install(python: Path, folder: Path) -> None:
        command = [str(python), "-m", "pip", "install", "-q", f"pypaimon=={VERSION}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, env=_environment())

    return environments.environment(f"pypaimon-{VERSION}", install)


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
    (found,) = read_all([Read(path, snapshot, tag, columns)])
    if isinstance(found, PypaimonError):
        raise found
    return found


@dataclass(frozen=True)
class Read:
    """The arguments of `rows`."""

    path: str | os.PathLike[str]
    snapshot: int | None = None
    tag: str | None = None
    columns: Sequence[str] | None = None

    def encoded(self, table: pa.Table) -> list[Row]:
        """An Arrow table of pypaimon's as encoded rows."""
        fields = {field.name: field for field in schema_of(Path(self.path), self.snapshot, self.tag)}
        return encode_rows(table, [fields[name] for name in (self.columns or fields)])


def read_all(reads: Sequence[Read]) -> list[list[Row] | PypaimonError]:
    """Several reads by one child process: the rows of each, or why there are none (what it gave cannot be encoded, too)."""
    with tempfile.TemporaryDirectory() as folder:
        requests, found = [], []
        for number, read in enumerate(reads):
            options = {} if read.snapshot is None else {"scan.snapshot-id": str(read.snapshot)}
            if read.tag is not None:
                options["scan.tag-name"] = read.tag
            requests.append(
                {
                    "do": "read",
                    "path": os.path.abspath(read.path),
                    "options": options,
                    "columns": read.columns,
                    "file": f"{folder}/{number}.arrow",
                }
            )
        for read, request, failure in zip(reads, requests, _call(requests), strict=True):
            found.append(failure or _encoded(read, request["file"]))
        return found


def _encoded(read: Read, file: str) -> list[Row] | PypaimonError:
    with pa.ipc.open_file(file) as reader:
        table = reader.read_all()
    try:
        return read.encoded(table)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        return PypaimonError(f"pypaimon {VERSION} gives something else for {read}: {error}")


@dataclass(frozen=True)
class Write:
    """One commit of pypaimon: an append, or with `partition` an overwrite of it ({} = all)."""

    path: str | os.PathLike[str]
    table: pa.Table
    partition: Mapping[str, Any] | None = None


def append(path: str | os.PathLike[str], table: pa.Table) -> None:
    """One append by pypaimon, in one commit. Raises PypaimonError."""
    _do(Write(path, table))


def overwrite(path: str | os.PathLike[str], table: pa.Table, partition: Mapping[str, Any]) -> None:
    """One overwrite by pypaimon. Raises PypaimonError."""
    _do(Write(path, table, partition))


def _do(write: Write) -> None:
    (failure,) = write_all([write])
    if failure is not None:
        raise failure


def write_all(writes: Sequence[Write]) -> list[PypaimonError | None]:
    """Several commits by one child process, in order; why each failed, if it did."""
    with tempfile.TemporaryDirectory() as folder:
        requests = []
        for number, write in enumerate(writes):
            file = f"{folder}/{number}.arrow"
            with pa.ipc.new_file(file, write.table.schema) as writer:
                writer.write_table(write.table)
            partition = None if write.partition is None else dict(write.partition)
            request = {"do": "write", "path": os.path.abspath(write.path), "options": {}, "file": file}
            requests.append({**request, "overwrite": partition})
        return _call(requests)


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


def _call(requests: Sequence[Mapping[str, Any]]) -> list[PypaimonError | None]:
    """Runs the requests in one child; what went wrong with each."""
    with tempfile.NamedTemporaryFile(suffix=".json") as answers:
        done = subprocess.run(
            [str(interpreter()), str(CHILD), answers.name],
            input=json.dumps(list(requests)),
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
        )
        if done.returncode != 0:
            raise PypaimonError(f"pypaimon {VERSION}: {done.stderr[-1500:]}")
        failures = json.loads(Path(answers.name).read_text())
    named = [f"pypaimon {VERSION}, {request['do']} {request['path']}: " for request in requests]
    return [f and PypaimonError(what + f) for what, f in zip(named, failures, strict=True)]
