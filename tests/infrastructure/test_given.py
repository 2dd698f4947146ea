"""The tests say the same wherever the checkout lies: none of them reads what lies beside it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from given import FOLDERS, Fence, of_this_machine

CHECKOUT = Path(__file__).resolve().parents[2]
TESTS = sorted((CHECKOUT / "tests").rglob("*.py"))
ALLOWED = {"tests/given.py", "tests/infrastructure/test_given.py"}


def levels_up(node: ast.AST, names: dict[str, int]) -> int | None:
    """How many folders a path that is made of `__file__` lies above that file; None for anything else."""
    if isinstance(node, ast.Name):
        return 0 if node.id == "__file__" else names.get(node.id)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("resolve", "absolute"):
            return levels_up(node.func.value, names)
        above = levels_up(node.args[0], names) if node.args else None
        return above if above is None else above + (ast.unparse(node.func) == "os.path.dirname")
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        above = levels_up(node.value, names)
        return None if above is None else above + 1
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        above = levels_up(node.value.value, names)
        number = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return None if above is None or not isinstance(number, int) else above + number + 1
    return None


def leaves(text: str, depth: int) -> list[str]:
    """What in the text of a test file, `depth` folders below the checkout, names a folder outside of it."""
    tree, names, found = ast.parse(text), dict[str, int](), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            above = levels_up(node.value, names)
            if above is not None:
                names[node.targets[0].id] = above
    for node in ast.walk(tree):
        above = levels_up(node, names)
        if above is not None and above > depth + 1:
            found.append(ast.unparse(node))
        if isinstance(node, ast.Constant) and node.value in FOLDERS.values():
            found.append(str(node.value))
    return found


def test_no_test_file_names_a_folder_outside_of_the_checkout() -> None:
    found = {}
    for path in TESTS:
        name = path.relative_to(CHECKOUT).as_posix()
        named = leaves(path.read_text(), name.count("/"))
        if named and name not in ALLOWED:
            found[name] = named
    assert len(TESTS) > 300 and found == {}


@pytest.mark.parametrize(
    "text",
    [
        "ROOT = Path(__file__).resolve().parents[3] / 'golden'",
        "here = Path(__file__)\nother = here.parent.parent.parent.parent",
        "CHECKOUT = Path(__file__).parents[2]\nx = CHECKOUT.parent",
        "x = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))",
        "root = os.environ.get('LAKELATCH_GOLDEN')",
    ],
)
def test_a_file_that_does_is_found(text: str) -> None:
    assert leaves(text, 2) != []
    assert leaves("ROOT = Path(__file__).resolve().parents[2]\nx = ROOT / 'tests'\ny = Path(z).parents[9]", 2) == []


def test_reads_beside_the_checkout_are_refused(tmp_path: Path) -> None:
    """By Python's own means, and by any way to its path; what is given, or lies elsewhere, can be read."""
    for folder in ("checkout/tests", "beside/golden", "given", "later"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "file").write_text("x")
    code = """
import os, sys, shutil
from pathlib import Path
from given import Fence
inside = Path(sys.argv[1]) / "in"
os.environ["LAKELATCH_GOLDEN"] = str(inside / "given")
sys.addaudithook(Fence(inside / "checkout", []))
os.chdir(inside / "checkout")
def refused(do):
    try:
        do()
    except AssertionError as error:
        return "outside of the checkout" in str(error)
    return False
beside = inside / "beside" / "golden"
print(*[refused(do) for do in (
    lambda: (beside / "file").read_text(), lambda: list(beside.glob("*")), lambda: os.listdir(beside),
    lambda: open("../beside/golden/file"), lambda: shutil.copytree(beside, inside / "copy"),
    lambda: (inside / "checkout/tests/file").read_text(), lambda: (inside / "given/file").read_text(), lambda: os.listdir("/"),
)])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True"] * 5 + ["False"] * 3


def test_this_run_is_fenced() -> None:
    """What the fence of this process guards cannot be listed, whatever lies beside this checkout."""
    fence = Fence(CHECKOUT, of_this_machine())
    for name in os.listdir(CHECKOUT.parent):
        other = str(CHECKOUT.parent / name)
        if fence.guards(other):
            with pytest.raises(AssertionError, match="outside of the checkout"):
                os.scandir(other)
