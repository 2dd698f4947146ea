"""The findings of a table check, as values.

Owns: `Finding`, and the list of findings. Must not know: what is checked, how findings are shown.
Invariants: Damage never ends the check, because errors about the table become findings. If the store does not answer, nothing is
known, so that error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from ...backends.store import ObjectNotFound
from ...core.errors import LakelatchError, StoreUnavailable, Unsupported
from ...core.html_text import ShownAsText

T = TypeVar("T")

Severity = Literal["error", "warning"]

_FIELD = re.compile(r"'(_?[A-Za-z][A-Za-z_]*)'")


@dataclass(frozen=True, slots=True)
class Finding(ShownAsText):
    """One problem of a table.

    Attributes:
        severity: "error" if rows are lost, wrong or unreadable, or readers are misled; "warning" if the problem only costs
            time or space, or could not be checked.
        file: the key of the file, relative to the table's root.
        field: the file's field that is wrong; "" if the file as a whole is.
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
    """Findings in the order of their discovery, without duplicates."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found)

    def error(self, file: str, field: str, message: str) -> None:
        self._found[Finding("error", file, field, message)] = None

    def warning(self, file: str, field: str, message: str) -> None:
        self._found[Finding("warning", file, field, message)] = None

    def attempt(self, file: str, read: Callable[[], T], named_by: str = "") -> T | None:
        """The result of `read()`, or None and a finding about `file`, which `named_by` references. Raises `StoreUnavailable`."""
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
        except Exception as error:  # a decoder's unexpected exception also means damage
            self.error(file, "", f"cannot be read: {type(error).__name__}: {error}{told}")
        return None


def _field_of(message: str) -> str:
    """The field that an error's message names, as in ``field 'version' is 99``."""
    found = _FIELD.search(message) if "field" in message else None
    return found[1] if found else ""


def _without_name(message: str, file: str) -> str:
    for name in (file, file.rpartition("/")[2]):
        if message.startswith(name):
            return message[len(name) :].lstrip(": ") or message
    return message
