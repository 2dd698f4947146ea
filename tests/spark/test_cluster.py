"""Executors in other processes that lack lakelatch or have other versions, and the ways to bring it there: docs/clusters.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import java_home
import pytest
from interop import pypaimon_env
from pages import blocks
from report import tell
from servers.spark_standalone import spark_cluster

import lakelatch
import lakelatch as ll
from lakelatch.core.version import __version__

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The master of a cluster whose executors run a Python without lakelatch."""
    with spark_cluster(java_home.wire(), tmp_path_factory.mktemp("cluster")) as url:
        yield url


def package_zip(path: Path, version: str = __version__) -> Path:
    """A wheel of the package with this version."""
    root = Path(lakelatch.__file__).parent
    floors = [folder for folder in root.iterdir() if (folder / "__init__.py").exists() and folder.name != "tests"]
    with zipfile.ZipFile(path, "w") as archive:
        for file in [*root.glob("*.py"), *(file for floor in floors for file in floor.rglob("*.py"))]:
            text = file.read_text()
            if file.name == "version.py":
                text = text.replace(f'"{__version__}"', f'"{version}"')
            archive.writestr(f"lakelatch/{file.relative_to(root)}", text)
        about = f"lakelatch-{version}.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: lakelatch\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def script(path: Path, python: Path | str, python_path: Path) -> str:
    """A program that runs a Python with a package on its path."""
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{python_path}:$PYTHONPATH" exec "{python}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def run(command: list[str], order: dict[str, Any] | None = None, **environment: str) -> dict[str, Any]:
    """Run a driver, and return what it printed last."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    given = {**inherited, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    text = None if order is None else json.dumps(order)
    done = subprocess.run(command, input=text, env=given, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    said: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return said


@pytest.mark.slow
def test_what_is_wrong_with_the_executors_is_one_sentence(master: str, tmp_path: Path) -> None:
    """A missing package and other versions are found before any row is computed; with the package in a zip all works."""
    package = package_zip(tmp_path / "lakelatch.zip")
    old = package_zip(tmp_path / "old.zip", version="0.0.1")
    pythons = {
        "old lakelatch": script(tmp_path / "old", sys.executable, old),
        "old pyarrow": script(tmp_path / "arrow", pypaimon_env.interpreter(), package),
    }
    order = {
        "master": master,
        "settings": SETTINGS,
        "url": str(tmp_path / "t"),
        "pythons": pythons,
        "zip": str(package),
    }
    said = run([sys.executable, str(HERE / "cluster_child.py")], order)
    missing = "Unsupported: Spark's Python workers cannot import lakelatch: host "
    todo = f"{sys.executable} (install lakelatch {__version__} there, or send it with the job; see docs/clusters.md)"
    for name in ("write", "read", "source write", "source read"):
        answer = said[f"nothing: {name}"]
        assert missing in answer, answer
        assert todo in answer, answer
        assert "Traceback" not in answer, answer
    assert said["nothing: write"].startswith(missing)
    assert not said["rows were computed"]
    old_answer, arrow_answer = said["old lakelatch: write"], said["old pyarrow: write"]
    assert f"have lakelatch 0.0.1, and the driver has {__version__}: host " in old_answer, old_answer
    assert "have pyarrow 19." in arrow_answer, arrow_answer
    assert "install the same major version on both" in arrow_answer, arrow_answer
    assert "Traceback" not in old_answer + arrow_answer
    answers = [said[f"zip: {name}"] for name in ("write", "read", "source write", "source read")]
    assert answers == ["ok APPEND", "ok 3", "ok None", "ok 4"], said
    assert said["rows"] == 4
    seconds = ", ".join(f"{name} {said[f'nothing: {name}, seconds']} s" for name in ("write", "read"))
    tell(f"cluster: executors without lakelatch are named after: {seconds}")


NIGHTLY = pytest.mark.slow
RECIPES = [pytest.param(0, id="archive", marks=NIGHTLY), pytest.param(1, id="py-files", marks=NIGHTLY)]


@pytest.mark.parametrize("number", RECIPES)
def test_the_recipes_of_the_page_run(number: int, master: str, tmp_path: Path) -> None:
    """As they stand there, but that pip takes the wheel of this checkout, and the executors have the other packages."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    package_zip(wheels / f"lakelatch-{__version__}-py3-none-any.whl")
    (job,) = (block for block in blocks("docs/clusters.md", "python") if block.startswith("# job.py"))
    recipe = blocks("docs/clusters.md", "sh")[number]
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "conf").mkdir()
    settings = SETTINGS if number else {**SETTINGS, "spark.python.daemon.module": "lakelatch.spark.daemon"}
    lines = "\n".join(f"{name} {value}" for name, value in settings.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(lines)
    url = str(tmp_path / "table")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    pip = {"PIP_FIND_LINKS": str(wheels), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    spark = {"MASTER": master, "URL": url, "SPARK_CONF_DIR": str(tmp_path / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {**inherited, **pip, **spark, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "-ec", recipe], cwd=tmp_path, env=given, capture_output=True, text=True, timeout=400, check=False
    )
    assert "rows: 100" in done.stdout, done.stdout[-2000:] + done.stderr[-6000:]
    assert ll.open_table(url).count() == 100


@NIGHTLY
def test_a_daemon_that_executors_lack_is_one_sentence(master: str, tmp_path: Path) -> None:
    """Then no Python task can start, so lakelatch's own check cannot run there: Spark's error is recognised."""
    settings = {**SETTINGS, "spark.python.daemon.module": "lakelatch.spark.daemon"}
    order = {"master": master, "settings": settings, "url": str(tmp_path / "t")}
    said = run([sys.executable, str(HERE / "cluster_child.py")], order)
    assert said["nothing: write"].startswith("Unsupported: Spark's Python workers cannot start lakelatch.spark.daemon")
    assert "remove the setting spark.python.daemon.module" in said["nothing: write"]
