"""The options whose names or values name columns, and what a rename or a drop of a column means to them.

Owns: which options these are, with the grammar of each; `named_columns`, `renamed`, `sequence_groups`. Must not know: what the
options do, file indexes (`core.file_index.options` has theirs). Source: format/schema §4.

Each such option is declared here once. A rename moves its names, a drop of a column that it names is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...errors import InvalidArgument
from ...file_index.options import renamed as renamed_indexes
from ...rows.types import RowType
from ..schema import TableSchema

_LISTS = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "manifest-sort.partition-field",
    "upsert-key",
    "vector-field",
    "blob-field",
    "blob-descriptor-field",
    "blob-view-field",
    "blob-external-storage-field",
    "blob.stored-descriptor-fields",
    "pk-bitmap.index.columns",
    "pk-btree.index.columns",
    "pk-full-text.index.columns",
    "pk-vector.index.columns",
)
_ELSEWHERE = ("upsert-key",)
"""Options of Apache Paimon's that other programs read, whose columns are not checked."""
_OF_COLUMNS, _GROUP = "fields.", "sequence-group"
"""`fields.<column>.<…>`; only in `fields.<columns>.sequence-group` it is a list, and then the value is one, too."""
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_PARTS = {"nested-key": "element", "nested-sequence-field": "element", "ts-field": "value"}
"""Options of a column whose values list fields of the rows in it: of the elements of an ARRAY, of the values of a MAP."""


class Naming(NamedTuple):
    option: str
    column: str


def names_of(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def sequence_groups(texts: Mapping[str, str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The sequence columns of each group, and the columns that they order.

    >>> sequence_groups({"fields.g,h.sequence-group": "a, b"})
    {('g', 'h'): ('a', 'b')}
    """
    found = {}
    for option, text in texts.items():
        columns, what = _of_columns(option)
        if what == _GROUP:
            found[columns] = names_of(text)
    return found


def in_two_groups(groups: Mapping[tuple[str, ...], tuple[str, ...]]) -> str | None:
    """A column that two sequence groups order or order by. Apache Paimon orders it by one of them, as a hash map decides.

    >>> in_two_groups({("g",): ("a",), ("a",): ("b",)})
    'a'
    """
    seen = set[str]()
    for sequence, members in groups.items():
        named = {*sequence, *members}
        if named & seen:
            return min(named & seen)
        seen |= named
    return None


def named_columns(texts: Mapping[str, str]) -> Iterator[Naming]:
    """The columns that the options name, and the paths of fields inside of columns."""
    for option, text in texts.items():
        columns, what = _of_columns(option)
        names = [*columns]
        if option in _LISTS or what == _GROUP:
            names += names_of(text)
        elif what in _PARTS:
            names += (f"{columns[0]}.{_PARTS[what]}.{name}" for name in names_of(text))
        yield from (Naming(option, name) for name in names)


def check_names(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Refuse options that name columns which do not exist, unless the schema `before` had them. Raises InvalidArgument."""
    known = set() if before is None else {*named_columns(before.option_texts)}
    for naming in named_columns(schema.option_texts):
        option, column = naming
        if naming not in known and option not in _ELSEWHERE and "." not in column and column not in schema.by_name:
            raise InvalidArgument(
                f"option '{option}': there is no column '{column}'", next_step="correct or remove the option"
            )
    texts = {} if before is None else before.option_texts
    for option in schema.option_texts:
        if option not in texts and _of_columns(option)[1]:
            _check_first_part(option, schema)


def _check_first_part(option: str, schema: TableSchema) -> None:
    """Apache Paimon ends the names in an option at the first dot, and then looks for columns of these names."""
    parts = option.split(".")
    for name in parts[1].split(","):
        found = schema.by_name.get(name)
        if found is None or (len(parts) > 3 and isinstance(found.type, RowType)):
            raise InvalidArgument(
                f"option '{option}': Apache Paimon takes '{name}' for the name of the column, because it ends at the first dot",
                next_step="name a column without dots, or remove the option first",
            )


def renamed(texts: Mapping[str, str], path: str, new: str, *, is_column: bool) -> dict[str, str]:
    """The options after a rename of a column (whose name may have dots, if `is_column`), or of a field at a path in one.

    >>> renamed({"fields.g.sequence-group": "a,a.b", "fields.a.b.distinct": "true"}, "a", "c", is_column=True)
    {'fields.g.sequence-group': 'c,a.b', 'fields.a.b.distinct': 'true'}
    """
    made: dict[str, str] = {}
    for option, text in texts.items():
        columns, what = _of_columns(option)
        if is_column:
            if option in _LISTS or what == _GROUP:
                text = _replaced(text.split(","), path, new)
            if path in columns:
                option = f"{_OF_COLUMNS}{_replaced(columns, path, new)}.{what}"
        elif what in _PARTS and path.rpartition(".")[0] == f"{columns[0]}.{_PARTS[what]}":
            text = _replaced(text.split(","), path.rpartition(".")[2], new)
        made[option] = text
    return renamed_indexes(made, path, new) if is_column else made


def _of_columns(option: str) -> tuple[tuple[str, ...], str]:
    columns, _, what = option.removeprefix(_OF_COLUMNS).rpartition(".")
    if not option.startswith(_OF_COLUMNS) or option == _DEFAULT_FUNCTION or not columns:
        return (), ""
    return (tuple(columns.split(",")) if what == _GROUP else (columns,)), what


def _replaced(names: Sequence[str], old: str, new: str) -> str:
    return ",".join(new if name.strip() == old else name for name in names)
