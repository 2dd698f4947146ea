"""What callers give as arguments, checked for its kind: an error names the argument and says what it takes.

Owns: the kinds: a number, text, names, a mapping, a function. Must not know: what an argument means.
Invariant: what is returned is a plain copy, so that nobody changes it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, TypeVar

from .errors import InvalidArgument

T = TypeVar("T")


_MOST = 2**63 - 1


def whole_number(given: Any, name: str, least: int) -> int:
    """A whole number of at least `least`, which a signed number of 64 bits holds; also one of numpy's.

    >>> import numpy as np
    >>> whole_number(7, "limit", 0), whole_number(np.int32(7), "limit", 0)
    (7, 7)
    """
    number = plain(given)
    if type(number) is not int or not least <= number <= _MOST:
        raise InvalidArgument(f"{name} {given!r} is not a number", next_step=f"give a whole number of at least {least}")
    return number


def plain(given: Any) -> Any:
    return index(given) if hasattr(type(given), "__index__") and not isinstance(given, bool) else given


def number_of_rows(given: Any, name: str, least: int) -> int:
    is_large = isinstance(given, int) and given > _MOST
    return whole_number(_MOST if is_large else given, name, least)


def text(given: Any, name: str) -> str:
    if not isinstance(given, str):
        raise InvalidArgument(f"{name} {_shown(given)} is not text", next_step="give its name")
    return given


def names(given: Any, name: str, alone: bool = True) -> list[str]:
    """Names of columns; one name alone need not be in a list, if that is allowed.

    >>> names("id", "keys"), names(("a", "b"), "keys")
    (['id'], ['a', 'b'])
    """
    if alone and isinstance(given, str):
        return [given]
    found = listed(given, name, "a list of names")
    wrong = next((part for part in found if not isinstance(part, str)), None)
    if wrong is not None:
        raise InvalidArgument(f"{name}: {_shown(wrong)} is not text", next_step="give a list of names")
    return found


def listed(given: Iterable[T], name: str, what: str) -> list[T]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} {_shown(given)} is not a list", next_step=f"give {what}")
    return list(given)


def mapping(given: Any, name: str) -> dict[str, Any]:
    """A mapping of names, or None for an empty one. Values are not shown: they may be secret.

    >>> mapping(None, "properties"), mapping({"a": 1}, "properties")
    ({}, {'a': 1})
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise InvalidArgument(f"{name} of type {kind} is not a mapping", next_step="give a dict: {'name': 'value'}")
    wrong = next((key for key in given if not isinstance(key, str)), None)
    if wrong is not None:
        raise InvalidArgument(f"{name}: the name {wrong!r} is not text", next_step="give a dict: {'name': 'value'}")
    return dict(given)


def callback(given: Any, name: str) -> None:
    """What is called in the middle of long work; it is refused before the work begins."""
    if given is not None and not callable(given):
        raise InvalidArgument(f"{name} {_shown(given)} cannot be called", next_step="give a function, or nothing")


def _shown(given: Any) -> str:
    is_short = given is None or isinstance(given, (Sequence, Mapping, int, float))
    return repr(given) if is_short else f"of type {type(given).__name__}"
