"""The small bugs that are planted: what may stand in the place of one node of a syntax tree.

Owns: `proposals`. Must not know: where in a file the node stands, tests, sampling.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Proposal = tuple[str, ast.AST, str, str]
"""Name of the operator, what stands there instead, the text before and the text after."""

TEXT_ARGUMENTS = frozenset({"next_step", "message", "reason", "detail", "doc", "description", "repr", "strict"})
"""Arguments that are read by people alone, and `strict` of zip: an assertion, as those that are left alone."""

UNTOUCHED_CALLS = frozenset({"cast", "TypeVar", "NewType", "isinstance", "issubclass", "getLogger"})
"""Calls whose arguments are types and names."""

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_SWAPPED = {"min": "max", "any": "all", "startswith": "endswith", "removeprefix": "removesuffix"}
_SWAPPED |= {"partition": "rpartition", "lstrip": "rstrip", "union": "intersection"}
_SWAPPED |= {new: old for old, new in _SWAPPED.items()}


def called(node: ast.AST) -> str:
    """The last part of the name that a call calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return str(getattr(function, "attr", None) or getattr(function, "id", ""))


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def proposals(node: ast.AST, parent: ast.AST, bound: set[str]) -> Iterator[Proposal]:
    """What may stand in the place of a node.

    Args:
        bound: names that have a value before the node runs, whatever becomes of it.
    """
    for kind, propose in _OPERATORS:
        if isinstance(node, kind):
            yield from propose(node)
    if isinstance(node, ast.Constant):
        yield from _constant(node, parent)
    elif isinstance(node, ast.stmt):
        yield from _statement(node, bound)
    elif isinstance(node, ast.Tuple) and (isinstance(parent, ast.Compare) or any(map(_is_starred, node.elts))):
        yield from _elements(node)


def _is_starred(node: ast.AST) -> bool:
    return isinstance(node, ast.Starred)


def _is_type(node: ast.AST) -> bool:
    """Whether this ends a union of types, as far as a name can tell."""
    return isinstance(node, ast.Name) and node.id[:1].isupper() and not node.id[1:].isupper()


def _replaced(operator: str, node: ast.AST, new: ast.AST) -> Proposal:
    return operator, new, ast.unparse(node), ast.unparse(new)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _without(items: list[ast.expr], index: int) -> list[ast.expr]:
    return [*items[:index], *items[index + 1 :]]


def _comparison(node: ast.Compare) -> Iterator[Proposal]:
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield _replaced("comparison", node, _with(node, ops=ops))


def _boolean(node: ast.BoolOp) -> Iterator[Proposal]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield _replaced("and/or", node, _with(node, op=other))
    for index, operand in enumerate(node.values):
        rest = _without(node.values, index)
        new = rest[0] if len(rest) == 1 else _with(node, values=rest)
        yield "operand removed", new, ast.unparse(node), f"without `{ast.unparse(operand)}`"


def _unary(node: ast.UnaryOp) -> Iterator[Proposal]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield _replaced("not/minus removed", node, node.operand)


def _binary(node: ast.BinOp) -> Iterator[Proposal]:
    joins = any(_is_text(side) or isinstance(side, ast.List | ast.Tuple) for side in (node.left, node.right))
    if isinstance(node.op, ast.Add) and joins:
        yield _replaced("operand removed", node, node.left)
    elif type(node.op) in _ARITHMETIC and not _is_text(node.left) and not _is_type(node.right):
        yield _replaced("arithmetic", node, _with(node, op=_ARITHMETIC[type(node.op)]()))


def _constant(node: ast.Constant, parent: ast.AST) -> Iterator[Proposal]:
    value = node.value
    if isinstance(value, bool):
        yield _replaced("constant", node, ast.Constant(not value))
    elif isinstance(value, int | float):
        yield _replaced("constant", node, ast.Constant(value + 1))
        if value == 1:
            yield _replaced("constant", node, ast.Constant(0))
    elif isinstance(value, str) and isinstance(parent, ast.Compare):
        yield _replaced("constant", node, ast.Constant(value + "~"))


def _condition(node: ast.If | ast.IfExp | ast.While) -> Iterator[Proposal]:
    word = "while" if isinstance(node, ast.While) else "if"
    for forced in (True, False):
        if not (forced and word == "while") and not isinstance(node.test, ast.Constant):
            shown = f"{word} {ast.unparse(node.test)}"
            yield "condition forced", _with(node, test=ast.Constant(forced)), shown, f"{word} {forced}"


def _filtered(node: ast.comprehension) -> Iterator[Proposal]:
    for index, condition in enumerate(node.ifs):
        shown = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)} if {ast.unparse(condition)}"
        yield "filter removed", _with(node, ifs=_without(node.ifs, index)), shown, "without the filter"


def _call(node: ast.Call) -> Iterator[Proposal]:
    name = called(node)
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in _SWAPPED and not _is_text(owner):
        new = _with(node.func, **{"attr" if isinstance(node.func, ast.Attribute) else "id": _SWAPPED[name]})
        yield _replaced("function swapped", node, _with(node, func=new))
    if name in ("sorted", "reversed") and isinstance(node.func, ast.Name):
        plain = ast.Call(ast.Name("list", ast.Load()), node.args[:1], [])
        yield _replaced("function swapped", node, plain)
    for index, keyword in enumerate(node.keywords):
        if not _is_text(keyword.value) and keyword.arg not in TEXT_ARGUMENTS and name not in UNTOUCHED_CALLS:
            kept = [*node.keywords[:index], *node.keywords[index + 1 :]]
            shown = f"without `{ast.unparse(keyword)}`"
            yield "argument removed", _with(node, keywords=kept), ast.unparse(node), shown
    for index, (one, two) in enumerate(zip(node.args, node.args[1:], strict=False)):
        alike = type(one) is type(two) and isinstance(one, ast.Name | ast.Attribute | ast.Constant)
        if alike and ast.dump(one) != ast.dump(two) and name not in UNTOUCHED_CALLS:
            args = [*node.args[:index], two, one, *node.args[index + 2 :]]
            yield _replaced("arguments swapped", node, _with(node, args=args))


def _entries(node: ast.Dict) -> Iterator[Proposal]:
    for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        keys = [*node.keys[:index], *node.keys[index + 1 :]]
        shown = f"**{ast.unparse(value)}" if key is None else f"{ast.unparse(key)}: {ast.unparse(value)}"
        yield "element removed", _with(node, keys=keys, values=_without(node.values, index)), shown, ""


def _elements(node: ast.List | ast.Set | ast.Tuple) -> Iterator[Proposal]:
    if len(node.elts) > 1 and not isinstance(getattr(node, "ctx", None), ast.Store):
        for index, element in enumerate(node.elts):
            shown = f"without `{ast.unparse(element)}`"
            yield "element removed", _with(node, elts=_without(node.elts, index)), ast.unparse(node), shown


def _slice(node: ast.Slice) -> Iterator[Proposal]:
    for bound in ("lower", "upper"):
        if getattr(node, bound) is not None:
            yield _replaced("slice bound removed", node, _with(node, **{bound: None}))


def _handler(node: ast.ExceptHandler) -> Iterator[Proposal]:
    kinds: list[ast.expr] = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type] if node.type else []
    for index, kind in enumerate(kinds):
        new = _with(node, type=ast.Tuple(_without(kinds, index), ast.Load()))
        yield "exception not caught", new, f"except {ast.unparse(kind)}", ""


def _statement(node: ast.stmt, bound: set[str]) -> Iterator[Proposal]:
    if isinstance(node, ast.Break | ast.Continue):
        yield _replaced("break/continue", node, ast.Continue() if isinstance(node, ast.Break) else ast.Break())
    elif isinstance(node, ast.Return):
        if node.value is not None and not isinstance(node.value, ast.Constant):
            yield _replaced("returns nothing", node, ast.Return(ast.Constant(None)))
    elif isinstance(node, ast.AugAssign):
        if type(node.op) in _ARITHMETIC:
            yield _replaced("arithmetic", node, _with(node, op=_ARITHMETIC[type(node.op)]()))
        yield _replaced("statement removed", node, ast.Pass())
    elif isinstance(node, ast.Expr | ast.Raise | ast.Delete):
        yield _replaced("statement removed", node, ast.Pass())
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = (part for target in targets for part in ast.walk(target))
        new = (part for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        if all(name.id in bound for name in new):  # what is bound nowhere else would fail on its own
            yield _replaced("statement removed", node, ast.Pass())


_OPERATORS: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[Proposal]]], ...] = (
    (ast.Compare, _comparison),
    (ast.BoolOp, _boolean),
    (ast.UnaryOp, _unary),
    (ast.BinOp, _binary),
    ((ast.If, ast.IfExp, ast.While), _condition),
    (ast.comprehension, _filtered),
    (ast.Call, _call),
    (ast.Dict, _entries),
    ((ast.List, ast.Set), _elements),
    (ast.Slice, _slice),
    (ast.ExceptHandler, _handler),
)
