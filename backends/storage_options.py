"""Holds the storage options that users give, so that no secret is shown by accident (H19).

Owns: `StorageOptions`, which options are secret, and how secrets are removed from a text. Must not know: any store.
Invariants: `repr`, `str` and formatting of the wrapper never show a secret value. Pickling keeps the values: explicit keys
travel to executors, profiles and ambient credentials do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ..core.arguments import mapping
from ..core.errors import InvalidArgument

HIDDEN = "***"

_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "sas", "connection_string", "username", "cookie")
_SHORTEST_SECRET = 4
"""Shorter values are not searched for in messages: replacing every `a` would only garble them."""

_SECRET_PARTS = ("AccountKey", "SharedAccessSignature")

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def is_secret(name: str) -> bool:
    """Whether the value of an option with this name must not be shown.

    >>> is_secret("aws_secret_access_key"), is_secret("endpoint_url")
    (True, False)
    """
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS)


class StorageOptions(Mapping[str, Any]):
    """The options of a store, with a repr that is safe to print.

    >>> StorageOptions({"key": "AKIAEXAMPLE", "endpoint_url": "http://127.0.0.1:9000"})
    StorageOptions(key=***, endpoint_url='http://127.0.0.1:9000')
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = mapping(values, "storage_options")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(f'{name}={_shown(name, value)}' for name, value in self._values.items())})"

    def without(self, *names: str) -> StorageOptions:
        return StorageOptions({name: value for name, value in self._values.items() if name not in names})

    def flag(self, name: str, default: bool) -> bool:
        """Texts such as a command line passes are accepted too. Raises InvalidArgument.

        >>> StorageOptions({"fsync": "false"}).flag("fsync", True)
        False
        """
        value = self._values.get(name, default)
        text = str(value).strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise InvalidArgument(f"storage option {name!r} is {value!r}", next_step="use true or false")

    def seconds(self, name: str, default: float) -> float:
        """A positive number of seconds."""
        value = self._values.get(name, default)
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 < seconds < float("inf"):
            raise InvalidArgument(f"storage option {name!r} is {value!r}", next_step="use a positive number of seconds")
        return seconds

    def only(self, known: frozenset[str], store: str) -> None:
        """Refuse names that the store does not know, so that a misspelled `endpoint_url` cannot lead to another server.
        Raises InvalidArgument, which never shows a value.
        """
        unknown = sorted(set(self._values) - known)
        if unknown:
            raise InvalidArgument(
                f"storage option {unknown[0]!r} is not known to {store}",
                next_step=f"known options: {', '.join(sorted(known))}",
            )

    def redact(self, text: str) -> str:
        """Return the text with every secret value of these options replaced.

        >>> StorageOptions({"secret": "s3cr3t"}).redact("signature of s3cr3t is wrong")
        'signature of *** is wrong'
        """
        for value in sorted(_secret_values(self._values), key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text


def _shown(name: str, value: Any) -> str:
    if is_secret(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inner!r}: {_shown(str(inner), held)}" for inner, held in value.items()) + "}"
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    return f"<{type(value).__name__}>"


def _secret_values(values: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _secret_values(value)
        elif is_secret(str(name)) and isinstance(value, str):
            found |= {held for held in (value, *_parts(value)) if len(held) >= _SHORTEST_SECRET}
    return found


def _parts(value: str) -> Iterator[str]:
    for part in value.split(";"):
        name, said, held = part.partition("=")
        if said and name in _SECRET_PARTS:
            yield held
    signature = value.partition("sig=")[2].partition("&")[0].partition(";")[0]
    yield from (signature, unquote(signature))
