"""Every operator plants a bug that a good test notices and a poor test does not; texts and types are left alone."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mutation.__main__ import ROOT, UNDER_TEST, named
from mutation.edits import Edit, applied, edits
from mutation.equivalents import EQUIVALENTS
from mutation.mutants import KnownEquivalents, mutants_of

CASES: list[tuple[str, str, str, str]] = [
    ("comparison", "def f(a): return a < 3", "f(2) and not f(3)", "f(2)"),
    ("and/or", "def f(a, b): return a and b", "not f(True, False)", "f(True, True)"),
    ("operand removed", "def f(a, b): return a and b", "not f(True, False) and not f(False, True)", "f(True, True)"),
    ("operand removed", "def f(a): return a + 'x'", "f('y') == 'yx'", "f('y')"),
    ("not/minus removed", "def f(a): return not a", "f(False)", "f(False) in (True, False)"),
    ("not/minus removed", "def f(a): return -a", "f(2) == -2", "f(2)"),
    ("arithmetic", "def f(a): return a + 2", "f(3) == 5", "f(3) > 0"),
    ("arithmetic", "def f(a):\n a *= 2\n return a", "f(4) == 8", "f(4)"),
    ("constant", "def f(a): return a > 10", "f(11)", "not f(10)"),
    ("constant", "def f(): return True", "f()", "f() in (True, False)"),
    ("constant", "def f(a): return a == 'x'", "f('x')", "not f('y')"),
    ("condition forced", "def f(a):\n if a: return 1\n return 2", "f(0) == 2 and f(1) == 1", "f(0) and f(1)"),
    ("condition forced", "def f(a): return 1 if a else 2", "f(0) == 2 and f(1) == 1", "f(0) and f(1)"),
    ("condition forced", "def f(a):\n while a > 2: a -= 1\n return a", "f(5) == 2", "f(2) == 2"),
    ("filter removed", "def f(a): return [x for x in a if x]", "f([0, 1]) == [1]", "f([1]) == [1]"),
    ("argument removed", "def f(a): return int(a, base=2) if a else 0", "f('10') == 2", "f('1') == 1"),
    ("arguments swapped", "def f(a, b): return divmod(a, b)", "f(7, 2) == (3, 1)", "f(2, 2) == (1, 0)"),
    ("function swapped", "def f(a, b): return min(a, b)", "f(1, 2) == 1", "f(1, 1) == 1"),
    ("function swapped", "def f(a): return sorted(a)", "f([2, 1]) == [1, 2]", "f([1, 2]) == [1, 2]"),
    ("element removed", "def f(a): return {'x': a, 'y': 2}", "f(1) == {'x': 1, 'y': 2}", "f(1) is not None"),
    ("element removed", "def f(a): return a in (1, 2)", "f(1) and f(2)", "not f(3)"),
    ("slice bound removed", "def f(a): return a[1:2]", "f('abc') == 'b'", "'b' in f('abc')"),
    (
        "exception not caught",
        "def f(a):\n try: return 1 // a\n except ZeroDivisionError: return 0",
        "f(0) == 0",
        "f(1)",
    ),
    ("break/continue", "def f(a):\n for x in a:\n  if x: break\n return x", "f([1, 2]) == 1", "f([0, 1]) == 1"),
    ("returns nothing", "def f(a): return a * a", "f(2) == 4", "f is not None"),
    ("statement removed", "def f(a):\n a.append(1)\n return a", "f([]) == [1]", "f([]) is not None"),
    ("statement removed", "def f(a):\n a[0] = 1\n return a", "f([0]) == [1]", "f([0])"),
    ("statement removed", "def f(a):\n a = a or 5\n return a", "f(0) == 5", "f(1) == 1"),
    ("statement removed", "def f(a):\n if a: raise ValueError(a)\n return 1", "raises(f, 1)", "f(0) == 1"),
]


def passes(source: str, test: str, edit: Edit | None = None) -> bool:
    """Whether a test of one line passes, with a bug planted or without."""
    tree = ast.parse(source)
    names: dict[str, Any] = {"raises": raises}
    exec(compile(tree if edit is None else applied(tree, edit), "tiny", "exec"), names)
    try:
        return bool(eval(test, names))
    except Exception:
        return False


def raises(function: Any, *arguments: object) -> bool:
    try:
        function(*arguments)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(("operator", "source", "good", "poor"), CASES, ids=[f"{c[0]}: {c[1]}" for c in CASES])
def test_a_good_test_notices_and_a_poor_one_does_not(operator: str, source: str, good: str, poor: str) -> None:
    planted = [edit for edit in edits(ast.parse(source)) if edit.operator == operator]
    assert passes(source, good) and passes(source, poor)
    assert planted and not all(passes(source, good, edit) for edit in planted)
    assert any(passes(source, poor, edit) and not passes(source, good, edit) for edit in planted)


def test_every_operator_has_its_case() -> None:
    """The operators are those that plant something in what `make mutants` looks at."""
    texts = (path.read_text() for path in (Path(__file__).parents[2] / "coordinator").rglob("*.py"))
    assert {edit.operator for text in texts for edit in edits(ast.parse(text))} == {case[0] for case in CASES}


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "import a.b",
        "def f(a: int = None) -> 'list[int]': ...",
        "def f():\n    '''Text.'''",
        "class A(B, metaclass=C): pass",
        "@dataclass(frozen=True)\nclass A:\n    b: int",
        "@abstractmethod\ndef f(): return g(1)",
        "def __repr__(self): return f(self.a, self.b)",
        "assert 1 < 2",
        "a = f'{1 + 2}'",
        "log.info('%s', 1 + 2)",
        "a = f(next_step='x')",
        "a: int = field(repr=False)",
        "if TYPE_CHECKING:\n    a = 1",
        "Kind = A | B",
        "__all__ = ['a', 'b']",
        "a = cast('int', 1)",
    ],
)
def test_texts_and_types_are_left_alone(source: str) -> None:
    found = [edit for edit in edits(ast.parse(source)) if edit.operator != "statement removed"]
    assert found == []


def test_what_an_error_says_is_left_alone_and_that_it_is_raised_is_not() -> None:
    (found,) = edits(ast.parse("def f(a):\n    raise ValueError(a + 1, 'x')"))
    assert (found.operator, found.after) == ("statement removed", "pass")


def test_a_place_knows_its_function_and_its_lines() -> None:
    source = textwrap.dedent("""\
        class A:
            b = 1

            def f(self, c=2):
                if (
                    c > 3
                ):
                    return c
    """)
    found = {(e.before, e.function, e.in_body, e.lines) for e in edits(ast.parse(source))}
    assert ("1", "A", False, (2, 2)) in found
    assert ("2", "A.f", False, (4, 4)) in found
    assert ("3", "A.f", True, (6, 6)) in found
    assert ("if c > 3", "A.f", True, (5, 6)) in found


def test_a_tree_stays_as_it_was() -> None:
    tree = ast.parse("def f(a): return a < 3")
    before = ast.dump(tree)
    for edit in edits(tree):
        assert ast.dump(applied(tree, edit)) != before
    assert ast.dump(tree) == before


def test_each_known_equivalent_fits_a_mutant() -> None:
    """Code that changes takes its entry along; otherwise a run by night ends before it has begun."""
    every = list(mutants_of(ROOT, named(UNDER_TEST)))
    assert KnownEquivalents(EQUIVALENTS, every)
    assert {mutant.file.split("/")[1] for mutant in every if mutant.file.startswith("table/")} == {
        *("rowlevel", "compaction", "merging", "writing")
    }
