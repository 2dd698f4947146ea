"""The JVM: where its jars come from, and how it starts.

Owns: fetching a jar, such as Apache Paimon's bundle, by its Maven coordinates into the cache, the class path (PySpark's own jars
give Hadoop and logging), the start. Must not know: tables.
Invariant: a JVM starts once in a process and lives until its end; it runs in UTC.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import warnings
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
    """Apache Paimon's bundle."""
    return fetched_jar(GROUP, ARTIFACT, VERSION)


def fetched_jar(group: str, artifact: str, version: str) -> Path:
    """A jar without what it depends on, fetched now if the cache lacks it: by Maven where it is installed, else by PySpark's Ivy.

    Raises:
        RuntimeError: it cannot be fetched; the message ends with the tool's own.
    """
    jar = cache_folder() / "java" / f"{artifact}-{version}.jar"
    if jar.exists():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    with open(jar.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
                os.replace(_fetch(Path(folder), (group, artifact, version)), jar)
    return jar


def _fetch(folder: Path, coordinates: tuple[str, str, str]) -> Path:
    wanted = folder / f"{coordinates[1]}-{coordinates[2]}.jar"
    said = []
    for command in _fetch_commands(folder, coordinates):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0 and wanted.exists():
            return wanted
        said.append((done.stdout + done.stderr)[-1000:])
    raise RuntimeError(f"{':'.join(coordinates)} could not be fetched: {' / '.join(said)}")


def _fetch_commands(folder: Path, coordinates: tuple[str, str, str]) -> list[list[str]]:
    commands = []
    if shutil.which("mvn"):
        named = f"-Dartifact={':'.join(coordinates)}"
        commands.append(["mvn", "-q", "-B", "dependency:copy", named, f"-DoutputDirectory={folder}"])
    (ivy,) = pyspark_jars().glob("ivy-*.jar")
    java = str(java_home.wire() / "bin" / "java")
    target = f"{folder}/[artifact]-[revision].[ext]"
    options = ["-confs", "default", "-notransitive", "-dependency", *coordinates, "-retrieve", target]
    for number, trust in enumerate(([], _trust_of_this_machine(folder))):
        commands.append([java, *trust, f"-Divy.cache.dir={folder}/ivy-{number}", "-jar", str(ivy), *options])
    return commands


def _trust_of_this_machine(folder: Path) -> list[str]:
    """Java options to trust the authorities that this machine's other programs trust: a Java from a wheel has its own list."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    named = [os.environ.get(n) for n in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")]
    candidates = [*named, ssl.get_default_verify_paths().cafile, "/etc/ssl/certs/ca-certificates.crt"]
    bundle = next((Path(c) for c in candidates if c and Path(c).exists()), None)
    if bundle is None:
        return []
    entries = []
    for number, text in enumerate(
        re.findall(rb"-----BEGIN CERT.*?-----END CERTIFICATE-----", bundle.read_bytes(), re.DOTALL)
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                entries.append(pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(text), str(number).encode()))
            except (ValueError, Warning):
                continue  # a certificate that the standard forbids: nobody's registry stands on it
    store = folder / "trust.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(b"changeit")))
    ssl_option = "-Djavax.net.ssl.trustStore"
    return [f"{ssl_option}={store}", f"{ssl_option}Type=PKCS12", f"{ssl_option}Password=changeit"]


def start(jar: Path | None = None) -> None:
    """Starts the JVM; does nothing if it runs.

    Args:
        jar: another release than the bundle's.
    """
    if jpype.isJVMStarted():
        return
    home = java_home.wire()
    jpype.startJVM(
        str(home / "lib" / "server" / "libjvm.so"),
        "-Duser.timezone=UTC",
        "-Dlog4j2.level=ERROR",
        "-Xmx1g",
        "-Xmn384m",  # Each collection makes JPype collect Python's garbage too, which costs more than the collection itself.
        "-XX:MetaspaceSize=256m",
        "-XX:+DisableExplicitGC",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        classpath=[str(jar or bundle_jar()), str(pyspark_jars() / "*")],
        convertStrings=False,
    )
