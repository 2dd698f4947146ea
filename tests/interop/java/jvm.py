"""The JVM: where its jars come from, and how it starts.

Owns: fetching Apache Paimon's bundle by its Maven coordinates into the cache, the class path (PySpark's own jars give
Hadoop and logging), the start. Must not know: tables.
Invariant: a JVM starts once in a process and lives until its end; it runs in UTC.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import java_home
import jpype
from servers.go_binaries import cache_folder

GROUP, ARTIFACT, VERSION = "org.apache.paimon", "paimon-bundle", "1.4.2"


def pyspark_jars() -> Path:
    """The folder of the jars that PySpark brings."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def bundle_jar() -> Path:
    """Apache Paimon's bundle, fetched now if the cache lacks it: by Maven where it is installed, else by PySpark's Ivy.

    Raises:
        RuntimeError: it cannot be fetched; the message ends with the tool's own.
    """
    jar = cache_folder() / "java" / f"{ARTIFACT}-{VERSION}.jar"
    if jar.exists():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    with open(jar.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
                os.replace(_fetch(Path(folder)), jar)
    return jar


def _fetch(folder: Path) -> Path:
    wanted = folder / f"{ARTIFACT}-{VERSION}.jar"
    said = []
    for command in _fetch_commands(folder):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0 and wanted.exists():
            return wanted
        said.append((done.stdout + done.stderr)[-1000:])
    raise RuntimeError(f"{GROUP}:{ARTIFACT}:{VERSION} could not be fetched: {' / '.join(said)}")


def _fetch_commands(folder: Path) -> list[list[str]]:
    commands = []
    if shutil.which("mvn"):
        coordinates = f"-Dartifact={GROUP}:{ARTIFACT}:{VERSION}"
        commands.append(["mvn", "-q", "-B", "dependency:copy", coordinates, f"-DoutputDirectory={folder}"])
    (ivy,) = pyspark_jars().glob("ivy-*.jar")
    java = str(java_home.wire() / "bin" / "java")
    ivy_cache = f"-Divy.cache.dir={folder / 'ivy'}"
    target = f"{folder}/[artifact]-[revision].[ext]"
    options = ["-confs", "default", "-notransitive", "-dependency", GROUP, ARTIFACT, VERSION, "-retrieve", target]
    commands.append([java, ivy_cache, "-jar", str(ivy), *options])
    return commands


def start() -> None:
    """Starts the JVM; does nothing if it runs."""
    if jpype.isJVMStarted():
        return
    home = java_home.wire()
    jpype.startJVM(
        str(home / "lib" / "server" / "libjvm.so"),
        "-Duser.timezone=UTC",
        "-Dlog4j2.level=ERROR",
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        classpath=[str(bundle_jar()), str(pyspark_jars() / "*")],
        convertStrings=False,
    )
