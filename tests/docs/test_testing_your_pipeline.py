"""Runs the files in docs/testing-your-pipeline.md: the job with bugs fails as the page says, the corrected one passes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import java_home
import pytest
import ready_workers

PAGE = Path(__file__).parents[2] / "docs" / "testing-your-pipeline.md"


def files(text: str) -> list[tuple[str, str]]:
    """The names and contents of the files on the page, in order."""
    return re.findall(r"^```python (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run_tests(folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "lakelatch.lab.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    environment = {**os.environ, **ready_workers.environment()}
    done = subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=550, env=environment
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_the_jobs_fail_and_pass_as_the_page_says(tmp_path: Path) -> None:
    java_home.wire()
    text = PAGE.read_text()
    found = files(text)
    assert [name for name, _ in found] == ["conftest.py", "job.py", "test_job.py", "job.py", "test_killed.py"]
    for name, contents in found[:3]:
        (tmp_path / name).write_text(contents)
    code, buggy = run_tests(tmp_path)
    assert code == 1, buggy
    assert "3 failed" in buggy
    told = re.search(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert told is not None
    for line in told[1].splitlines():
        assert line in buggy, line
    for name, mended in found[3:]:
        (tmp_path / name).write_text(mended)
    code, passed = run_tests(tmp_path)
    assert code == 0, passed
    assert "5 passed" in passed


def test_the_fixtures_are_listed_with_what_they_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "lakelatch.lab.pytest_plugin", "--fixtures", "-q"]
    shown = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True, timeout=120).stdout
    for fixture in ("faulty_store", "contended_table", "replayed_batch"):
        assert re.search(rf"^{fixture}\b.*\n    \S", shown, re.MULTILINE), shown


def test_an_installed_plugin_is_found_by_pytest(tmp_path: Path) -> None:
    """pytest finds the plugin by the entry points of a wheel; an additional `-p` does not load it a second time."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        from pip._vendor import tomli as tomllib
    points = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text())["project"]["entry-points"]
    installed = tmp_path / "lakelatch-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lakelatch\nVersion: 0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "test_url.py").write_text(
        "import lakelatch as ll\n"
        "def test_url(faulty_store):\n"
        "    url = faulty_store.create([{'month': 1}])\n"
        "    assert ll.is_table(url) and ll.open_table(url).append([]) is not None\n"
    )
    path = os.pathsep.join([str(tmp_path), str(PAGE.parents[1] / ".tools")])
    for plugins in ([], ["-p", "lakelatch.lab.pytest_plugin"]):
        command = [sys.executable, "-m", "pytest", *plugins, "-q", "test_url.py"]
        done = subprocess.run(
            command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
