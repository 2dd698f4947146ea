"""What is shipped is what is in the checkout, and every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
SHIPPED = PYPROJECT["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs", "build", "dist"}


def folder_of(package: str) -> Path:
    return CHECKOUT.joinpath(*package.split(".")[1:])


MODULES = sorted(
    f"{package}.{path.stem}" if path.stem != "__init__" else package
    for package in SHIPPED
    for path in folder_of(package).glob("*.py")
    if path.stem != "__main__"
)


def test_every_package_is_shipped() -> None:
    """The list in pyproject.toml is explicit: a folder that is forgotten there would be missing from the wheel."""
    tops = [top for top in CHECKOUT.iterdir() if not top.name.startswith(".") and top.name not in NOT_SHIPPED]
    inits = [CHECKOUT / "__init__.py", *(init for top in tops for init in top.rglob("__init__.py"))]
    ours = [".".join(["lakelatch", *init.relative_to(CHECKOUT).parts[:-1]]) for init in inits]
    assert sorted(ours) == sorted(SHIPPED)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each module can be imported by itself, and its examples answer what they say."""
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_a_table_is_opened_without_pandas() -> None:
    """Arrow imports pandas for its first conversion of a Python value, which takes as long as all other imports together."""
    code = "import sys, lakelatch.cli.main, lakelatch.table.create; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_a_plain_append_imports_no_room_that_it_does_not_need(tmp_path: Path) -> None:
    """Many jobs commit once: what they import takes longer than the commit. Primary keys alone are half of the modules."""
    code = """
import sys, pyarrow as pa, pyarrow.csv, lakelatch as ll
rows = pyarrow.csv.read_csv(pa.BufferReader(b"v\\n1\\n"))
ll.create_table(sys.argv[1], rows.schema).append(rows)
print(*sorted(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t")], capture_output=True, text=True, timeout=60, check=True
    )
    imported = done.stdout.split()
    assert "lakelatch.table.writing.transaction" in imported
    rooms = ("table.merging", "table.compaction", "table.reading", "table.scan", "coordinator.tags")
    unneeded = (
        "pandas",
        "s3fs",
        "lakelatch.coordinator.maintenance.expiry.expire",
        *(f"lakelatch.{room}" for room in rooms),
    )
    assert [name for name in unneeded if name in imported] == []


def test_the_tests_ran_something() -> None:
    """A glob that finds nothing would pass for ever."""
    assert {"lakelatch", "lakelatch.core.rows.types", "lakelatch.coordinator.protocol.machine"} <= set(MODULES)
