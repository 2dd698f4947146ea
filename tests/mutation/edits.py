"""Every mutation of a module, with the place where it goes and a text that names it.

Owns: `Edit`, `edits`, `applied`. Must not know: files, tests, sampling. Texts for people are left alone (docstrings,
messages, f-strings, arguments of errors and of the log), and so are types, decorators, assertions and whatever prints a
value: no test should depend on them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

from .operators import TEXT_ARGUMENTS, UNTOUCHED_CALLS, called, proposals

Path = tuple[tuple[str, int | None], ...]
"""From the root of a tree to a node: names of fields, and the position where a field is a list."""

Lines = tuple[int, int]
"""The first and the last."""


@dataclass(frozen=True)
class Edit:
    """One mutation of a tree.

    Attributes:
        path: where; `node`: what stands there afterwards.
        function: qualified name of what encloses the place, empty for the module itself.
        in_body: whether the place runs when the function is called, and not when the module is imported.
        before, after: the smallest texts that tell the difference.
        lines: first and last line of the place; `statement`: those of the statement that it is part of.
    """

    path: Path
    node: ast.AST
    operator: str
    function: str
    in_body: bool
    before: str
    after: str
    lines: Lines
    statement: Lines


_LOGS = {"log", "logger", "_log", "_logger", "logging", "warnings", "LOG"}
_UNTOUCHED_FUNCTIONS = {"__repr__", "__str__"}
_UNTOUCHED_DECORATORS = {"abstractmethod", "overload"}
_UNTOUCHED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "exc"}


def edits(tree: ast.Module) -> Iterator[Edit]:
    """Every mutation of a module, in the order of its text."""
    return _in(tree, (), "", False, set(), (1, 1))


def applied(tree: ast.Module, edit: Edit) -> ast.Module:
    """A copy of the tree with the mutation, ready to compile."""
    changed = copy.deepcopy(tree)
    place: ast.AST = changed
    for name, index in edit.path[:-1]:
        held = getattr(place, name)
        place = held if index is None else held[index]
    name, index = edit.path[-1]
    if index is None:
        setattr(place, name, edit.node)
    else:
        getattr(place, name)[index] = edit.node
    return ast.fix_missing_locations(changed)


def _in(node: ast.AST, path: Path, function: str, in_body: bool, bound: set[str], statement: Lines) -> Iterator[Edit]:
    for field, index, child in _children(node):
        name, names, runs = function, bound, in_body
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{function}.{child.name}".strip(".")
            names = _parameters(child)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            runs = field == "body" or in_body
        here, lines = (*path, (field, index)), _lines(child) or statement
        whole = lines if isinstance(child, ast.stmt) else statement
        for operator, replacement, before, after in proposals(child, node, names):
            yield Edit(here, replacement, operator, name, runs, before, after, lines, whole)
        yield from _in(child, here, name, runs, names, whole)
        if isinstance(child, ast.Assign | ast.AnnAssign | ast.For):
            names |= {target.id for target in ast.walk(child) if isinstance(target, ast.Name)}


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if field not in _UNTOUCHED_FIELDS and not (isinstance(node, ast.ClassDef) and field == "keywords"):
            for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(child, ast.AST) and not _untouched(child, node, field):
                    yield field, index, child


def _lines(node: ast.AST) -> Lines | None:
    """The lines that run when a node runs: of a block, its head."""
    head = getattr(node, "test", None) or getattr(node, "iter", None) or node
    if isinstance(node, ast.ExceptHandler | ast.With | ast.Try | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.lineno, node.lineno
    if isinstance(head, ast.expr | ast.stmt | ast.keyword):
        return getattr(node, "lineno", head.lineno), head.end_lineno or head.lineno
    return None


def _parameters(node: ast.AST) -> set[str]:
    return {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)} if hasattr(node, "args") else set()


def _untouched(node: ast.AST, parent: ast.AST, field: str) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr | ast.expr_context | ast.pattern):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or the dots of a protocol's method
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        decorators = {getattr(d, "attr", None) or getattr(d, "id", "") for d in node.decorator_list}
        return node.name in _UNTOUCHED_FUNCTIONS or bool(decorators & _UNTOUCHED_DECORATORS)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in TEXT_ARGUMENTS
    if isinstance(parent, ast.Call):
        owner = parent.func.value if isinstance(parent.func, ast.Attribute) else None
        told = isinstance(owner, ast.Name) and owner.id in _LOGS
        return told or called(parent) in UNTOUCHED_CALLS or (field == "func" and isinstance(node, ast.Subscript))
    return False
