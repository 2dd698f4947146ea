"""Helpers for type checkers that Python 3.10 lacks.

Owns: `Array` and `assert_never`. Must not know: anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Never

Array: TypeAlias = "NDArray[Any]"


def assert_never(value: Never) -> NoReturn:
    """End a match that lists every case: a type checker reports a missing one. Raises AssertionError."""
    raise AssertionError(f"unexpected value: {value!r}")
