"""A real HDFS: a name node and a data node in plain JVMs, from the jars that Maven fetches into the cache.

Owns: fetching the jars, the configuration, starting both nodes. Must not know: pytest, lakelatch.
All addresses are on 127.0.0.1. Both daemons need the folders of their web pages, which the jars lack, so they are created.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import java_home

from . import maven, process

VERSION = "3.5.0"
GIVEN_URL = "LAKELATCH_HDFS_URL"
"""Environment variable with the URL `hdfs://host:port` of an HDFS that is already running."""

_ARTIFACTS = ("hadoop-hdfs", "hadoop-common", "hadoop-hdfs-client")
_WEB_PAGES = ("hdfs", "datanode", "static")


@dataclass(frozen=True)
class HdfsServer:
    """A running HDFS.

    Attributes:
        name: program and version, for reports.
        endpoint_url: `hdfs://127.0.0.1:<port>`.
    """

    name: str
    endpoint_url: str
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:6], repr=False, compare=False)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def storage_options(self) -> dict[str, Any]:
        """Options for lakelatch. There is one data node, so there is one copy of each block."""
        return {"dfs.replication": "1"}

    def new_root(self) -> str:
        """Create a folder and return its URL."""
        return f"{self.endpoint_url}/lake-{self._run}-{next(self._numbers)}"


@contextmanager
def hdfs_server() -> Iterator[HdfsServer]:
    """Run HDFS within the `with` block, or use the one whose URL the environment gives.

    Raises:
        process.NotInstalled: HDFS is not in the cache, and Maven is missing.
    """
    os.environ.setdefault("HADOOP_USER_NAME", "root")  # the user name that the client sends
    given = os.environ.get(GIVEN_URL)
    if given:
        yield HdfsServer(f"given: {given}", given)
        return
    jars = find()
    if jars is None:
        raise process.NotInstalled("HDFS is not fetched: install Maven")
    with tempfile.TemporaryDirectory(prefix="lakelatch-hdfs-") as folder:
        children, server = process.with_a_free_port(lambda: _started(jars, Path(folder) / uuid.uuid4().hex))
        try:
            yield server
        finally:
            for child in children:
                process.stop(child)


def _started(jars: Path, folder: Path) -> Any:
    ports = {name: process.free_port() for name in ("rpc", "http", "data", "ipc", "web")}
    _configure(folder, ports)
    java = [str(java_home.wire() / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [*java, "-Djava.net.preferIPv4Stack=true", "-cp", f"{folder}:{jars}/*"]
    name_node = [*command, "org.apache.hadoop.hdfs.server.namenode.NameNode"]
    subprocess.run(
        [*name_node, "-format", "-nonInteractive"],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
    )
    environment = {**os.environ, "HADOOP_USER_NAME": "root"}
    children = [process.start(name_node, ports["rpc"], environment=environment, timeout_s=240)]
    try:
        data_node = [*command, "org.apache.hadoop.hdfs.server.datanode.DataNode"]
        children.append(process.start(data_node, ports["ipc"], environment=environment, timeout_s=240))
        server = HdfsServer(f"HDFS {VERSION} (name node and data node)", f"hdfs://127.0.0.1:{ports['rpc']}")
        _wait_for_the_data_node(server)
    except BaseException:
        for child in children:
            process.stop(child)
        raise
    return children, server


def _configure(folder: Path, ports: dict[str, int]) -> None:
    host = "127.0.0.1"
    settings = {
        "fs.defaultFS": f"hdfs://{host}:{ports['rpc']}",
        "dfs.namenode.http-address": f"{host}:{ports['http']}",
        "dfs.datanode.address": f"{host}:{ports['data']}",
        "dfs.datanode.ipc.address": f"{host}:{ports['ipc']}",
        "dfs.datanode.http.address": f"{host}:{ports['web']}",
        "dfs.datanode.hostname": host,
        "dfs.namenode.name.dir": f"file:{folder}/name",
        "dfs.datanode.data.dir": f"file:{folder}/data",
        "dfs.replication": "1",
        "dfs.permissions.superusergroup": "root",
        "dfs.namenode.safemode.extension": "0",
    }
    properties = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in settings.items())
    folder.mkdir(parents=True)
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(f"<configuration>{properties}</configuration>")
    (folder / "log4j.properties").write_text(
        "log4j.rootLogger=ERROR,C\nlog4j.appender.C=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.C.layout=org.apache.log4j.SimpleLayout\n"
    )
    for page in _WEB_PAGES:
        inside = folder / "webapps" / page / "WEB-INF"
        inside.mkdir(parents=True)
        (inside / "web.xml").write_text("<web-app/>")


def _wait_for_the_data_node(server: HdfsServer) -> None:
    """Wait until the name node knows its data node, which is shortly after both listen; writes fail before."""
    import time

    import hdfs_native

    client = hdfs_native.Client(server.endpoint_url, server.storage_options())
    deadline = time.monotonic() + 120
    while True:
        try:
            with client.create("/warm", hdfs_native.WriteOptions(overwrite=True)) as file:
                file.write(b"1")
            return
        except Exception as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"HDFS does not accept files: {error}") from error
            time.sleep(0.2)


def find() -> Path | None:
    """The folder of the jars, which are fetched if missing; None if they cannot be fetched."""
    artifacts = [maven.Artifact(f"org.apache.hadoop:{artifact}:{VERSION}") for artifact in _ARTIFACTS]
    return maven.fetched(f"hdfs-{VERSION}", artifacts)


if __name__ == "__main__":
    print(f"HDFS {VERSION}: {find() or 'not fetched'}", flush=True)
