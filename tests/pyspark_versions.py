"""Other versions of PySpark, each in an environment of its own in the cache; all other packages are those of this run.

Owns: these environments. Must not know: tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import environments

VERSIONS = ("4.2.1", "4.3.0")
"""What the tests run on beside the version of `.ci/constraints.txt`, oldest first."""
_PACKAGES = "LAKELATCH_TEST_PACKAGES"
_PTH = f"import os, sys; sys.path += [p for p in [os.environ.get({_PACKAGES!r})] if p]\n"


def interpreter(version: str) -> Path:
    """The Python of the environment with this version of PySpark, made now if the cache lacks it."""

    def install(python: Path, folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
        command = [*pip, f"pyspark=={version}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, env=environments.clean_environment())
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "packages_of_the_run.pth").write_text(_PTH)

    return environments.environment(f"pyspark-{version}", install, "--without-pip")


def environment(python: Path) -> dict[str, str]:
    """The environment variables for this Python and for all that it starts."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "LAKELATCH_SPARK"))}
    return {**kept, _PACKAGES: sysconfig.get_paths()["purelib"], "PYSPARK_PYTHON": str(python)}
