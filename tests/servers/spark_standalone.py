"""A standalone Spark cluster: the master and one worker of PySpark's own jars, whose executors are separate processes.

The worker's environment has no PYTHONPATH, so its executors know only the packages of the Python that runs them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .process import free_port, start, stop, with_a_free_port


@contextmanager
def spark_cluster(java: Path, folder: Path) -> Iterator[str]:
    """Yields the URL of the master.

    Args:
        java: JAVA_HOME.
        folder: where the executors run.
    """
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    environment = {
        "JAVA_HOME": str(java),
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    address = ["--host", "127.0.0.1", "--webui-port", "0", "--port"]
    ports: dict[str, int] = {}

    def begin(role: str, *arguments: str) -> subprocess.Popen[bytes]:
        port = ports[role] = free_port()
        command = [spark_class, f"{deploy}.{role.lower()}.{role}", *address, str(port), *arguments]
        return start(command, port, environment=environment)

    master = with_a_free_port(lambda: begin("Master"))
    try:
        url = f"spark://127.0.0.1:{ports['Master']}"
        worker = with_a_free_port(lambda: begin("Worker", "--cores", "2", "--memory", "1g", url))
        try:
            yield url
        finally:
            stop(worker)
    finally:
        stop(master)
