"""The identity of a table, which its copies do not share.

Owns: `identity_of`, `with_identity`, `without_identity`. Must not know: stores, who asks. Source: decision 94; H21.
Invariant: the identity follows from the bytes of schema 0 alone, which never change, so that every process that has opened the
table knows it without a request. They differ from those of every other table in a field that no reader of the format looks at.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from ..errors import TableCorrupt
from ..json_text import parse_json

ID_FIELD = "lakelatch.table-id"


def identity_of(first_schema: bytes | None) -> str:
    """The identity of the table whose schema 0 has these bytes; empty where schema 0 was lost.

    >>> identity_of(b"{}"), identity_of(None)
    ('44136fa355b3678a1146ad16f7e8649e', '')
    """
    return "" if first_schema is None else sha256(first_schema).hexdigest()[:32]


def with_identity(first_schema: bytes, uuid: object, where: str = "schema/schema-0") -> bytes:
    """Schema 0 of a new table, from one that may be that of another table. Raises TableCorrupt, which names the file.

    >>> without_identity(with_identity(b'{"id": 0}', "u-1")) == without_identity(b'{"id":0}')
    True
    """
    raw = _object(first_schema)
    if raw is None:
        raise TableCorrupt(f"{where} is not a JSON object")
    return _text({**raw, ID_FIELD: str(uuid)})


def without_identity(first_schema: bytes) -> bytes:
    """What the schemas 0 of a table and of its clones have in common. Bytes that are no JSON object stay as they are."""
    raw = _object(first_schema)
    return first_schema if raw is None else _text({key: value for key, value in raw.items() if key != ID_FIELD})


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        raw = parse_json(data)
    except ValueError:
        return None
    return raw if isinstance(raw, dict) else None


def _text(raw: dict[str, Any]) -> bytes:
    return json.dumps(raw, indent=2, ensure_ascii=False).encode()
