"""Runs the code in the README's tour exactly as a reader would type it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import java_home
import pytest
from pages import CHECKOUT, blocks, run_python, run_shell

README = "README.md"


@pytest.mark.spark
def test_the_tour_runs(tmp_path: Path) -> None:
    """First Python, then PySpark, then the shell on the resulting table, all in one folder."""
    java_home.wire()
    python = blocks(README, "python")
    assert len(python) == 2
    tour = "\n".join([*python, "assert again.replayed; print('the tour is over')"])
    assert "the tour is over" in run_python(tour, tmp_path, by_default=True)
    shell = next(block for block in blocks(README, "sh") if "lakelatch log" in block)
    assert run_shell(shell, tmp_path).count('"carrier"') == 4


def test_the_two_commands_exist_in_the_makefile() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    commands = re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE)
    assert commands
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_every_link_has_a_target() -> None:
    for target in re.findall(r"\]\(([^)h][^)]*)\)", (CHECKOUT / README).read_text()):
        assert (CHECKOUT / target).exists(), target


def test_a_registry_s_page_has_no_relative_link() -> None:
    """The description that a release carries: no file lies beside it there."""
    command = [sys.executable, "-c", "import release; print(release.description())"]
    shown = subprocess.run(command, cwd=CHECKOUT / ".ci", check=True, capture_output=True, text=True).stdout
    targets = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(targets) > 10
    assert not [target for target in targets if not target.startswith("https://")]
