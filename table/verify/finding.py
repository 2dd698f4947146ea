"""What a check of a table found, as values.

Owns: `Finding` and the list that gathers them. Must not know: what is checked, how findings are shown.
Invariants: gathering never ends because of damage: an error about the table becomes a finding; a store that does not
answer is no finding (nothing is known then) and is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from ...backends.store import ObjectNotFound
from ...core.errors import LakelatchError, StoreUnavailable, Unsupported

T = TypeVar("T")

Severity = Literal["error", "warning"]

_FIELD = re.compile(r"'(_?[A-Za-z][A-Za-z_]*)'")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a table.

    Attributes:
        severity: "error": rows are lost, wrong or unreadable, or a reader is led astray; "warning": it costs something,
            or could not be looked at.
        file: key of the file, relative to the table's root.
        field: the file's field that says something wrong; "" where it is the file as a whole.
        message: what is wrong, in one line.

    >>> print(Finding("error", "snapshot/snapshot-2", "", "is missing"))
    error: snapshot/snapshot-2: is missing
    """

    severity: Severity
    file: str
    field: str
    message: str

    def __str__(self) -> str:
        field = f" [{self.field}]" if self.field else ""
        return f"{self.severity}: {self.file}{field}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """The finding as a JSON-ready dict."""
        return asdict(self)


class Findings:
    """Findings in the order of their discovery, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found)

    def error(self, file: str, field: str, message: str) -> None:
        self._found[Finding("error", file, field, message)] = None

    def warning(self, file: str, field: str, message: str) -> None:
        self._found[Finding("warning", file, field, message)] = None

    def attempt(self, file: str, read: Callable[[], T], named_by: str = "") -> T | None:
        """`read()`, or None and a finding about `file` where it cannot be read.

        Args:
            named_by: the file that references it, for the message.

        Raises:
            StoreUnavailable: nothing can be said.
        """
        told = f"; {named_by} needs it" if named_by else ""
        try:
            return read()
        except StoreUnavailable:
            raise
        except ObjectNotFound:
            self.error(file, "", f"is missing{told}")
        except Unsupported as error:
            self.error(file, _field_of(error.message), f"cannot be read: {error.message}{told}")
        except LakelatchError as error:
            self.error(file, _field_of(error.message), f"{_without_name(error.message, file)}{told}")
        except Exception as error:  # whatever damage a decoder did not foresee is damage all the same
            self.error(file, "", f"cannot be read: {type(error).__name__}: {error}{told}")
        return None


def _field_of(message: str) -> str:
    """The field that an error's message names, as in ``field 'version' is 99``."""
    found = _FIELD.search(message) if "field" in message else None
    return found[1] if found else ""


def _without_name(message: str, file: str) -> str:
    """The message without the file's name in front: a finding says it already."""
    for name in (file, file.rpartition("/")[2]):
        if message.startswith(name):
            return message[len(name) :].lstrip(": ") or message
    return message
