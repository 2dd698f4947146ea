"""The servers that are built from Go modules: versitygw and MinIO (S3), fake-gcs-server, toxiproxy (network faults).

Owns: their versions, their builds, the location of the binaries. Must not know: how they are started.
Invariant: A binary that `find` returns is complete, because one rename moves it to its path.
It needs only the standard library, because `.ci/setup` calls it before any package is installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSITYGW = ("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
TOXIPROXY = ("github.com/Shopify/toxiproxy/v2/cmd/server", "v2.5.0")
FAKE_GCS_SERVER = ("github.com/fsouza/fake-gcs-server", "v1.56.1")
MINIO = ("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
MODULES = {"versitygw": VERSITYGW, "toxiproxy": TOXIPROXY, "fake-gcs-server": FAKE_GCS_SERVER, "minio": MINIO}


def cache_folder() -> Path:
    """The folder of downloads and builds that checkouts share: `LAKELATCH_CACHE`, else the user's cache folder."""
    named = os.environ.get("LAKELATCH_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakelatch"


def find(name: str) -> Path | None:
    """The binary of one of `MODULES`, which is built if it is missing.

    Returns:
        The path; None if the binary is missing and Go is not installed, or if the build fails (stderr gets the reason).
    """
    module, version = MODULES[name]
    binary = cache_folder() / "bin" / f"{name}-{version}"
    if binary.exists():
        return binary
    if shutil.which("go") is None:
        return None
    binary.parent.mkdir(parents=True, exist_ok=True)
    with open(binary.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may build at the same time
        if not binary.exists():
            _build(module, version, binary)
    return binary if binary.exists() else None


def _build(module: str, version: str, binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        done = subprocess.run(
            ["go", "install", f"{module}@{version}"],
            env={**os.environ, "GOBIN": folder, "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(f"go install {module}@{version} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            return
        os.replace(Path(folder) / module.rsplit("/", 1)[1], binary)


if __name__ == "__main__":
    # The ones named as arguments, else all but MinIO, which is large and is built when a test first needs it.
    for wanted in sys.argv[1:] or [name for name in MODULES if name != "minio"]:
        print(f"{wanted} {MODULES[wanted][1]}: {find(wanted) or 'not built'}", flush=True)
