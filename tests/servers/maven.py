"""Fetches jars into the cache with Maven. Must not know: their use."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import go_binaries

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>lakelatch.tests</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True)
class Artifact:
    """A jar to fetch.

    Attributes:
        name: `group:artifact:version`.
        alone: whether to leave out the dependencies.
    """

    name: str
    classifier: str = ""
    alone: bool = False

    def xml(self) -> str:
        group, artifact, version = self.name.split(":")
        classifier = f"<classifier>{self.classifier}</classifier>" if self.classifier else ""
        inside = (
            f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}"
        )
        return f"<dependency>{inside}{_ALONE if self.alone else ''}</dependency>"


def fetched(name: str, artifacts: Sequence[Artifact]) -> Path | None:
    """The folder with the jars, which are fetched if missing; None if Maven is missing.

    Raises:
        RuntimeError: Maven could not fetch them.
    """
    folder = go_binaries.cache_folder() / "java" / name
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may fetch at the same time
        if not folder.is_dir():
            _fetch(maven, artifacts, folder)
    return folder


def _fetch(maven: str, artifacts: Sequence[Artifact], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        Path(place, "pom.xml").write_text(_POM.format("".join(artifact.xml() for artifact in artifacts)))
        command = [maven, "-q", "-B", "-f", f"{place}/pom.xml", "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={place}/jars", "-DincludeScope=runtime"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{folder.name} could not be fetched: {(done.stdout + done.stderr)[-1000:]}")
        os.replace(f"{place}/jars", folder)
