"""Partitions: their values, their bytes, their directories, and the specs by which users name them.

Owns: `PartitionCodec` (values <-> BinaryRow <-> directory) and specs such as ``{"month": 1}`` or ``"month=1/day=2"``.
Must not know: manifests, stores, which partitions exist. Source: format/binary-row §3.

Invariants: Two partitions are the same if and only if their bytes are equal. Several partitions can share a directory
(null, '' and ' ' have the default name), so values are never read from a path. No value can escape its directory (H16).
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from typing import Any

from .. import arguments
from ..errors import InvalidArgument, TableCorrupt, Unsupported
from .binary.binary_row import decode_row, encode_row
from .dates import date_to_days, whole_date
from .java_text import date_sql, float_text, time_sql, timestamp_iso, timestamp_sql
from .literals import Instant, Nanos, coerce_literal
from .types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, Field
from .values import (
    NANOS_PER_MILLI,
    millis_to_time,
    order_key,
    root_of,
    time_to_millis,
)

DEFAULT_NAME = "__DEFAULT_PARTITION__"

_ESCAPED = frozenset(map(chr, range(0x20))) | frozenset("\x7f\"#%'*/:=?\\{}[]^")
_PERCENT = re.compile(r"%([0-9a-fA-F]{2})")
_NOT_BREAKING = "\u00a0\u2007\u202f"
_JAVA_CONTROL_BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
_TRUE_WORDS = ("t", "true", "y", "yes", "1")
_FALSE_WORDS = ("f", "false", "n", "no", "0")


def escape_path_name(text: str) -> str:
    """Escape a key or value for a directory name.

    >>> escape_path_name("a=b/c d")
    'a%3Db%2Fc d'
    """
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def unescape_path_name(text: str) -> str:
    """The reverse of `escape_path_name`; a `%` without two hex digits is kept.

    >>> unescape_path_name("a%3Db 100%")
    'a=b 100%'
    """
    return _PERCENT.sub(lambda found: chr(int(found[1], 16)), text)


def is_blank(text: str) -> bool:
    return all(
        c in _JAVA_CONTROL_BLANKS or (c not in _NOT_BREAKING and unicodedata.category(c) in ("Zs", "Zl", "Zp"))
        for c in text
    )


@dataclass(frozen=True)
class PartitionCodec:
    """The partitions of one table.

    Attributes:
        fields: the partition columns, in the order of `partitionKeys`.
        default_name, legacy_name: options `partition.default-name` and `partition.legacy-name`.

    >>> from .types import AtomicType, Field, string
    >>> codec = PartitionCodec((Field(0, "dt", AtomicType("DATE")), Field(1, "c", string())))
    >>> codec.path([whole_date(19909), "a/b"]), codec.parse_spec("c=a%2Fb")
    ('dt=19909/c=a%2Fb', {'c': 'a/b'})
    """

    fields: tuple[Field, ...]
    default_name: str = DEFAULT_NAME
    legacy_name: bool = True

    @cached_property
    def types(self) -> tuple[Any, ...]:
        return tuple(f.type for f in self.fields)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {f.name: f for f in self.fields}

    def encode(self, values: Sequence[Any]) -> bytes:
        self._check_count(values)
        return encode_row(values, self.types)

    def decode(self, partition: bytes, where: str = "_PARTITION") -> tuple[Any, ...]:
        return decode_row(partition, self.types, where)

    def path(self, partition: bytes | Sequence[Any]) -> str:
        """The directory below the table, `k=v/k2=v2`, of `_PARTITION` or its values. Raises Unsupported for a binary
        column with legacy names, for which Java would use a memory address.
        """
        values = self.decode(partition) if isinstance(partition, bytes) else partition
        self._check_count(values)
        return self.spec_path(dict(zip((f.name for f in self.fields), values, strict=True)))

    def spec_path(self, spec: Mapping[str, Any]) -> str:
        """The same for a parsed spec, which may name only some of the columns; "" for the whole table."""
        parts = ((f, spec[f.name]) for f in self.fields if f.name in spec)
        return "/".join(f"{escape_path_name(f.name)}={escape_path_name(self._text(v, f))}" for f, v in parts)

    def _check_count(self, values: Sequence[Any]) -> None:
        if len(values) != len(self.fields):
            names = ", ".join(f.name for f in self.fields)
            raise InvalidArgument(f"{len(values)} partition values for {len(self.fields)} partition columns ({names})")

    def _text(self, value: Any, field: Field) -> str:
        if value is None:
            return self.default_name
        try:
            text = self._legacy_text(value, field) if self.legacy_name else plain_text(value, field)
        except ValueError as error:
            raise TableCorrupt(f"partition column '{field.name}': {error}") from error
        return self.default_name if is_blank(text) else text

    def _legacy_text(self, value: Any, field: Field) -> str:
        root = root_of(field.type)
        if root == "DATE":
            return str(date_to_days(value))
        if root == "TIME":
            return str(time_to_millis(value))
        if root in TIMESTAMP_ROOTS:
            return timestamp_iso(value)
        if root in BINARY_ROOTS:
            raise Unsupported(
                f"partition column '{field.name}' is binary, so its directory has no stable name",
                next_step="set option 'partition.legacy-name' = 'false' when the table is created",
            )
        return plain_text(value, field)

    # ---------------------------------------------------------------------------------------------------------- specs

    def parse_spec(self, spec: Mapping[str, Any] | str, zone: tzinfo | None = None) -> dict[str, Any]:
        """The values by column, in the order of the partition columns, of a full or partial partition that a user
        names; None for the default name. Parsing them again changes nothing.

        Args:
            spec: ``{"month": 1}``, or text in the form of a path, ``"month=1/day=2"``, with `%2F` for a slash in a
                value. Text for a DATE, TIME or TIMESTAMP is in ISO format or the number in the legacy directory name.
            zone: of text and dates without one, for columns that count points in time (see `coerce_literal`).
        """
        values = _split_spec(spec) if isinstance(spec, str) else arguments.mapping(spec, "partition")
        for name in values:
            if name not in self.by_name:
                none = "" if self.fields else ": the table has no partitions"
                raise InvalidArgument(
                    f"'{name}' is not a partition column{none}", next_step=closest(name, list(self.by_name))
                )
        return {f.name: self._spec_value(values[f.name], f, zone) for f in self.fields if f.name in values}

    def _spec_value(self, value: Any, field: Field, zone: tzinfo | None) -> Any:
        where = f"partition column '{field.name}'"
        if isinstance(value, str):
            if value == self.default_name:
                return None
            value = _from_number_text(value, field)
        return coerce_literal(value, field.type, where, zone)

    def matches(self, values: Sequence[Any], spec: Mapping[str, Any]) -> bool:
        """Do the values equal a parsed spec in every column that it names? Null equals null."""
        self._check_count(values)
        for field, value in zip(self.fields, values, strict=True):
            if field.name in spec and not _same(value, spec[field.name]):
                return False
        return True


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return bool(order_key(left) == order_key(right))


def closest(name: str, names: Sequence[str]) -> str:
    """A suggestion of names for one that does not exist."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return f"available: {', '.join(names)}" if names else "none are available"


def plain_text(value: Any, field: Field) -> str:
    data_type = field.type
    root = root_of(data_type)
    precision = data_type.precision if isinstance(data_type, AtomicType) else 0
    if root == "BOOLEAN":
        return "true" if value else "false"
    if root in ("FLOAT", "DOUBLE"):
        return float_text(value, single=root == "FLOAT")
    if root == "DECIMAL":
        return f"{value:f}"
    if root == "DATE":
        return date_sql(date_to_days(value))
    if root == "TIME":
        return time_sql(value, precision)
    if root in TIMESTAMP_ROOTS:
        return timestamp_sql(value, precision)
    if root in BINARY_ROOTS:
        return bytes(value).decode(errors="replace")
    return str(value)


def _split_spec(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split("/"))):
        name, equals, value = part.partition("=")
        name = unescape_path_name(name.strip())
        if not equals or name in given:
            raise InvalidArgument(f"partition {text!r}: {part!r} is not column=value, or names a column twice")
        given[name] = unescape_path_name(value)
    return given


def _from_number_text(text: str, field: Field) -> Any:
    """Parse text in forms that only partitions allow: legacy numbers, and words for true and false."""
    root = root_of(field.type)
    folded = text.strip().lower()
    if root == "BOOLEAN" and folded in _TRUE_WORDS + _FALSE_WORDS:
        return folded in _TRUE_WORDS
    if root in ("DATE", "TIME", *TIMESTAMP_ROOTS) and re.fullmatch(r"-?[0-9]+", folded):
        try:
            if root == "DATE":
                return whole_date(int(folded))
            if root == "TIME":
                return millis_to_time(int(folded))
        except ValueError as error:
            raise InvalidArgument(f"partition column '{field.name}': {error}") from error
        return (Instant if root == "TIMESTAMP_LTZ" else Nanos)(int(folded) * NANOS_PER_MILLI)
    return text if root in STRING_ROOTS or root in BINARY_ROOTS else text.strip()
