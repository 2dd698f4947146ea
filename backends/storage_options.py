"""Storage options as users give them, held so that no secret shows by accident (H19).

Owns: `StorageOptions`, which options are secret, and how a text is cleaned of them. Must not know: any store.
Invariants: `repr`, `str` and formatting of the wrapper never show a secret value; pickling keeps the values (explicit
keys travel to executors when the user gave explicit keys; profiles and ambient credentials do not).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ..core.errors import InvalidArgument

HIDDEN = "***"

_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "sas", "connection_string", "username", "cookie")
_SHORTEST_SECRET = 4
"""Values below this length are not searched for in messages: replacing every `a` helps nobody."""

_SECRET_PARTS = ("AccountKey", "SharedAccessSignature")

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def is_secret(name: str) -> bool:
    """Whether an option of this name is held back.

    >>> is_secret("aws_secret_access_key"), is_secret("endpoint_url")
    (True, False)
    """
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS)


class StorageOptions(Mapping[str, Any]):
    """Options of a store, with a repr that is safe to print.

    >>> StorageOptions({"key": "AKIAEXAMPLE", "endpoint_url": "http://127.0.0.1:9000"})
    StorageOptions(key=***, endpoint_url='http://127.0.0.1:9000')
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(values or {})
        for name in self._values:
            if not isinstance(name, str):
                raise InvalidArgument(f"storage option {name!r} is not named by a text")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(f'{name}={_shown(name, value)}' for name, value in self._values.items())})"

    def without(self, *names: str) -> StorageOptions:
        """The options but for these names: what is left for the client below."""
        return StorageOptions({name: value for name, value in self._values.items() if name not in names})

    def flag(self, name: str, default: bool) -> bool:
        """A yes/no option; texts as a command line gives them are read too.

        Raises:
            InvalidArgument: the value is neither.

        >>> StorageOptions({"fsync": "false"}).flag("fsync", True)
        False
        """
        value = self._values.get(name, default)
        text = str(value).strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise InvalidArgument(f"storage option {name!r} is {value!r}", next_step="say true or false")

    def seconds(self, name: str, default: float) -> float:
        """A positive number of seconds."""
        value = self._values.get(name, default)
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 < seconds < float("inf"):
            raise InvalidArgument(f"storage option {name!r} is {value!r}", next_step="say a positive number of seconds")
        return seconds

    def only(self, known: frozenset[str], store: str) -> None:
        """Refuse names that the store does not know: a misspelt `endpoint_url` must not silently reach another server.

        Raises:
            InvalidArgument: names the option and those that exist; never a value.
        """
        unknown = sorted(set(self._values) - known)
        if unknown:
            raise InvalidArgument(
                f"storage option {unknown[0]!r} is not known to {store}",
                next_step=f"known are {', '.join(sorted(known))}",
            )

    def redact(self, text: str) -> str:
        """The text with every secret value of these options replaced.

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
    """What an error may show of a secret that is made of several: Azure's connection strings and access tokens."""
    for part in value.split(";"):
        name, said, held = part.partition("=")
        if said and name in _SECRET_PARTS:
            yield held
    signature = value.partition("sig=")[2].partition("&")[0].partition(";")[0]
    yield from (signature, unquote(signature))
