"""Parses the options of a table that request file indexes.

Owns: `IndexSpec`, `index_specs`, and the types that each kind supports. Must not know: bytes, files.
Source: format/file-indexes §1; Apache Paimon's `FileIndexOptions`. `file-index.<kind>.columns` lists columns (`m[key]` for one
key of a MAP), and `file-index.<kind>.<column>.<option>` sets an option of one index.

Invariant: Indexes that Apache Paimon refuses to write are rejected before anything is written, with the option's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..errors import InvalidArgument, Unsupported
from ..rows.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataType,
    Field,
    MapType,
    sql,
)

BLOOM, BITMAP, BSI, RANGE_BITMAP = KINDS = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
_PREFIX, _COLUMNS = "file-index.", ".columns"
_TIMES = ("DATE", "TIME", *TIMESTAMP_ROOTS)
_TAKES = {
    BLOOM: frozenset((*STRING_ROOTS, *BINARY_ROOTS, *INTEGER_ROOTS, "FLOAT", "DOUBLE", *_TIMES)),
    BITMAP: frozenset((*STRING_ROOTS, "BOOLEAN", *INTEGER_ROOTS, "FLOAT", "DOUBLE", *_TIMES)),
    BSI: frozenset((*INTEGER_ROOTS, "DECIMAL", *_TIMES)),
    RANGE_BITMAP: frozenset((*STRING_ROOTS, "BOOLEAN", *INTEGER_ROOTS, "FLOAT", "DOUBLE", "DECIMAL", *_TIMES)),
}
_MOST_DIGITS = {"DECIMAL": 18, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}

T = TypeVar("T")


@dataclass(frozen=True)
class IndexSpec:
    """One index in each data file.

    Attributes:
        key: for a MAP column, the key whose values are indexed.
    """

    kind: str
    column: str
    key: str | None
    data_type: AtomicType
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.column if self.key is None else f"{self.column}[{self.key}]"

    def option(self, name: str, parse: Callable[[str], T], default: T) -> T:
        if name not in self.texts:
            return default
        try:
            return parse(self.texts[name])
        except ValueError as error:
            option = f"{_PREFIX}{self.kind}.{self.name}.{name}"
            raise InvalidArgument(f"option '{option}' = {self.texts[name]!r}: {error}") from error


def takes(kind: str, data_type: DataType) -> bool:
    """Does this kind of index support values of this type?

    >>> takes("bitmap", AtomicType("DECIMAL", precision=9)), takes("bsi", AtomicType("DECIMAL", precision=9))
    (False, True)
    """
    if not isinstance(data_type, AtomicType) or data_type.root not in _TAKES[kind]:
        return False
    return kind != RANGE_BITMAP or data_type.precision <= _MOST_DIGITS.get(data_type.root, data_type.precision)


def index_specs(fields: Sequence[Field], texts: Mapping[str, str]) -> tuple[IndexSpec, ...]:
    """The indexes that a table's options request, in the order of kinds and of their lists. Raises Unsupported for an unknown
    kind, InvalidArgument for a missing column, a type that the kind does not support, or options of an unlisted column.

    >>> index_specs([Field(0, "a", AtomicType("INT"))], {"file-index.bitmap.columns": "a"})[0].name
    'a'
    """
    by_name = {f.name: f for f in fields}
    listed: dict[tuple[str, str], str] = {}
    for option, text in texts.items():
        if option.startswith(_PREFIX) and option.endswith(_COLUMNS):
            kind = option[len(_PREFIX) : -len(_COLUMNS)]
            if kind not in KINDS:
                raise Unsupported(f"option '{option}': unknown kind '{kind}'; the kinds are {', '.join(KINDS)}")
            for name in text.split(","):
                listed[kind, name.strip()] = option
    own = _own_options(texts, listed)
    specs = []
    for kind in KINDS:
        for (of_kind, name), option in listed.items():
            if of_kind == kind:
                specs.append(_spec(kind, name, option, by_name, own))
    return tuple(specs)


def _spec(
    kind: str, name: str, option: str, by_name: Mapping[str, Field], own: Mapping[tuple[str, str], Mapping[str, str]]
) -> IndexSpec:
    column, key = split_name(name)
    found = by_name.get(column)
    if found is None:
        raise InvalidArgument(f"option '{option}' names column '{column}', which the table does not have")
    data_type = found.type
    if key is not None:
        if not isinstance(data_type, MapType) or getattr(data_type.key, "root", "") not in STRING_ROOTS:
            raise InvalidArgument(
                f"option '{option}': column '{column}' is {sql(data_type)}, not a MAP with keys of text"
            )
        data_type = data_type.value
    if not takes(kind, data_type):
        raise InvalidArgument(
            f"option '{option}': column '{name}' is {sql(data_type)}, which a {kind} index does not support"
        )
    assert isinstance(data_type, AtomicType)
    return IndexSpec(kind, column, key, data_type, {**own.get((kind, column), {}), **own.get((kind, name), {})})


def split_name(name: str) -> tuple[str, str | None]:
    """A column, or a MAP column and its key.

    >>> split_name("m[a]"), split_name("m")
    (('m', 'a'), ('m', None))
    """
    start = name.find("[")
    return (name[:start], name[start + 1 : -1]) if start >= 0 and name.endswith("]") else (name, None)


def _own_options(
    texts: Mapping[str, str], listed: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], dict[str, str]]:
    own: dict[tuple[str, str], dict[str, str]] = {}
    known = {*listed, *((kind, split_name(name)[0]) for kind, name in listed)}
    for option, text in texts.items():
        kind, name, which = _parts(option)
        if not which:
            continue
        if (kind, name) not in known:
            raise InvalidArgument(f"option '{option}': column '{name}' is not listed in '{_PREFIX}{kind}{_COLUMNS}'")
        own.setdefault((kind, name), {})[which] = text
    return own


def renamed(texts: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options of a table after a column was renamed."""
    made: dict[str, str] = {}
    for option, text in texts.items():
        kind, name, which = _parts(option)
        if which:
            option = f"{_PREFIX}{kind}.{_renamed_name(name, old, new)}.{which}"
        elif option.startswith(_PREFIX) and option.endswith(_COLUMNS):
            text = ",".join(_renamed_name(name.strip(), old, new) for name in text.split(","))
        made[option] = text
    return made


def _parts(option: str) -> tuple[str, str, str]:
    kind, _, rest = option.removeprefix(_PREFIX).partition(".")
    name, _, which = rest.rpartition(".")
    return (kind, name, which) if option.startswith(_PREFIX) and kind in KINDS and name else ("", "", "")


def _renamed_name(name: str, old: str, new: str) -> str:
    column, key = split_name(name)
    if column != old:
        return name
    return new if key is None else f"{new}[{key}]"
