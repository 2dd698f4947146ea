"""Apache Paimon's connector for Spark, in a Spark process of its own beside the tests'.

Owns: that process, and the rows that go to it and come back. Must not know: lakelatch, but for the data types that name the
encoding. Tables are local.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import java_home
import pyarrow as pa
from given import given
from values import Row, decode_rows, encode_rows

from lakelatch.core.rows.types import Field

CHILD = Path(__file__).with_name("spark_child.py")


def connector() -> Path | None:
    """The connector's jar, in the folder that `LAKELATCH_TOOLS` names; None without it."""
    folder = given("tools")
    return None if folder is None else next(iter(sorted(folder.glob("paimon-spark-*.jar"))), None)


class SparkConnector:
    """A running Spark with the connector; made at the first request, ended by `close`.

    Args:
        warehouse: the folder whose databases and tables `sql` sees as those of the catalog `paimon`.
    """

    def __init__(self, jar: Path, warehouse: Path | None = None) -> None:
        self._arguments = [str(jar)] if warehouse is None else [str(jar), str(warehouse)]
        self._process: subprocess.Popen[str] | None = None

    def rows(self, path: str | os.PathLike[str], fields: Sequence[Field]) -> list[Row]:
        """The rows that Spark reads, encoded and sorted.

        Raises:
            RuntimeError: Spark failed; the message is the end of its trace.
        """
        with tempfile.TemporaryDirectory() as folder:
            self._ask({"do": "read", "path": str(path), "file": f"{folder}/rows.arrow"})
            with pa.ipc.open_file(f"{folder}/rows.arrow") as reader:
                return encode_rows(reader.read_all(), fields)

    def append(self, path: str | os.PathLike[str], rows: Sequence[Row], fields: Sequence[Field]) -> None:
        """Append encoded rows in one commit."""
        with tempfile.TemporaryDirectory() as folder:
            table = decode_rows(rows, fields)
            with pa.ipc.new_file(f"{folder}/rows.arrow", table.schema) as writer:
                writer.write_table(table)
            self._ask({"do": "append", "path": str(path), "file": f"{folder}/rows.arrow"})

    def table(self, path: str | os.PathLike[str]) -> pa.Table:
        """The rows that Spark reads, as Arrow has them."""
        with tempfile.TemporaryDirectory() as folder:
            self._ask({"do": "read", "path": str(path), "file": f"{folder}/rows.arrow"})
            with pa.ipc.open_file(f"{folder}/rows.arrow") as reader:
                return reader.read_all()

    def sql(self, statement: str, source: pa.Table | None = None) -> None:
        """Run a statement, in which `src` names the rows of `source`."""
        with tempfile.TemporaryDirectory() as folder:
            file = None
            if source is not None:
                file = f"{folder}/rows.arrow"
                with pa.ipc.new_file(file, source.schema) as writer:
                    writer.write_table(source)
            self._ask({"do": "sql", "path": statement, "file": file, "sql": statement})

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(60)

    def _ask(self, request: dict[str, Any]) -> None:
        if self._process is None:
            environment = {**os.environ, "JAVA_HOME": str(java_home.wire()), "PYTHONPATH": ""}
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        said = json.loads(line) if line else "its process ended"
        if said is not None:
            raise RuntimeError(f"{request['do']} of {request['path']} by Spark: {said}")
