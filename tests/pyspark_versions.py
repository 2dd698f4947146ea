"""Other versions of PySpark, each in an environment of its own in the cache; all other packages are those of this run.

Owns: these environments. Must not know: tests.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from servers.go_binaries import cache_folder

VERSIONS = ("4.2.1", "4.3.0")
"""What the tests run on beside the version of `.ci/constraints.txt`, oldest first."""
_PACKAGES = "LAKELATCH_TEST_PACKAGES"
_PTH = f"import os, sys; sys.path += [p for p in [os.environ.get({_PACKAGES!r})] if p]\n"


def interpreter(version: str) -> Path:
    """The Python of the environment with this version of PySpark, made now if the cache lacks it."""
    folder = cache_folder() / f"pyspark-{version}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return python
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
            made = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)]
            subprocess.run(made, check=True, env=clean)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
            subprocess.run([*pip, f"pyspark=={version}"], check=True, stdin=subprocess.DEVNULL, env=clean)
            (site,) = folder.glob("lib/python*/site-packages")
            (site / "packages_of_the_run.pth").write_text(_PTH)
            complete.touch()
    return python


def environment(python: Path) -> dict[str, str]:
    """The environment variables for this Python and for all that it starts."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "LAKELATCH_SPARK"))}
    return {**kept, _PACKAGES: sysconfig.get_paths()["purelib"], "PYSPARK_PYTHON": str(python)}
