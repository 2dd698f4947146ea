"""How rows with the same primary key become one: a table's options as data.

Owns: `MergeRules`, the columns that are added to rows with a key. Must not know: Arrow, files, the engines that follow the rules.
Source: format/primary-keys §1, §2, §3, §4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ... import options as opt
from ...errors import InvalidArgument
from ...rows.types import AtomicType, Field, with_nullable
from ..schema import KEY_PREFIX, ROW_SEQUENCE, TableSchema

VALUE_KIND = Field(2_147_483_645, "_VALUE_KIND", AtomicType("TINYINT"))
"""A column of the data files of tables with a primary key: 0 is +I, 1 is -U, 2 is +U, 3 is -D."""
LEVEL = Field(2_147_483_644, "_LEVEL", AtomicType("INT"))
"""The level of a row's file. No data file has this column; readers add it."""
_KEY_ID = 1_073_741_823
"""The field id of a column `_KEY_<name>` is this number above that of the column `<name>`."""
POSTPONED = -2
"""The bucket of rows whose bucket is chosen later. Batch reads do not see them."""

_IGNORE_DELETE = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)


@dataclass(frozen=True)
class MergeRules:
    """The rules of one table, whose texts are all its options.

    Attributes:
        keys: the columns that tell the rows of one bucket apart.
        key_names: all columns of the primary key, partition columns too.
        sequence_fields: the columns that order rows of one key before their sequence numbers do.
        descending: the smallest value of these columns is the newest. A null is the oldest in both orders.
        ignore_delete: rows that delete do not count.
        hides_level_0: batch reads leave out files of level 0.
        has_lookups: compaction merges a row with the older ones in higher levels, which it leaves where they are. Of the rows
            of a key above level 0, only the one in the lowest level counts.
        merges_single: the row of a key that has only one is merged too, which matters to engines that make new rows.
    """

    engine: str
    keys: tuple[Field, ...]
    key_names: tuple[str, ...]
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False
    hides_level_0: bool = False
    has_vectors: bool = False
    has_lookups: bool = False
    merges_single: bool = False
    texts: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def keeps_whole_rows(self) -> bool:
        """Is every merged row one of the stored rows, so that statistics of all stored rows hold for it too?"""
        return self.engine in ("deduplicate", "first-row")

    @property
    def of_new_rows(self) -> MergeRules:
        """The rules for rows of one commit, before they are written: the write buffer looks at no other level."""
        return replace(self, has_lookups=False)

    @property
    def of_lookups(self) -> MergeRules:
        """The rules for a compaction that looks for older rows in higher levels: there, Apache Paimon merges each row."""
        return replace(self, merges_single=True)

    def is_on(self, option: str) -> bool:
        return _is_on(self.texts, option)


def key_fields(schema: TableSchema) -> tuple[Field, ...]:
    """The columns of data files that have the key once more: `_KEY_<name>` (format/primary-keys §1).

    >>> key_fields(TableSchema(0, (Field(7, "k", AtomicType("INT")),), 7, primary_keys=("k",)))[0].name
    '_KEY_k'
    """
    keys = (schema.by_name[name] for name in schema.trimmed_primary_keys)
    return tuple(Field(_KEY_ID + f.id, KEY_PREFIX + f.name, f.type) for f in keys)


def row_fields(schema: TableSchema) -> tuple[Field, ...]:
    required = (replace(f, type=with_nullable(f.type, False)) for f in (ROW_SEQUENCE, VALUE_KIND))
    return (*required, *schema.fields)


def stored_fields(schema: TableSchema) -> tuple[Field, ...]:
    """All columns of the data files."""
    return (*key_fields(schema), *row_fields(schema)) if schema.primary_keys else schema.fields


def merge_rules(schema: TableSchema) -> MergeRules | None:
    """None without a primary key. Raises InvalidArgument where an option names a column that does not exist."""
    if not schema.primary_keys:
        return None
    texts = schema.options.texts
    engine = texts.get("merge-engine", "deduplicate").lower()
    sequence = tuple(name.strip() for name in texts.get("sequence.field", "").split(",") if name.strip())
    for name in sequence:
        if name not in schema.by_name:
            raise InvalidArgument(f"option 'sequence.field' names column '{name}', which does not exist")
    vectors = schema.options.get(opt.DELETION_VECTORS)
    return MergeRules(
        engine=engine,
        keys=tuple(schema.by_name[name] for name in schema.trimmed_primary_keys),
        key_names=schema.primary_keys,
        sequence_fields=sequence,
        descending=texts.get("sequence.field.sort-order", "ascending").lower() == "descending",
        ignore_delete=any(_is_on(texts, option) for option in _IGNORE_DELETE),
        hides_level_0=engine == "first-row" or (vectors and not _is_on(texts, "deletion-vectors.merge-on-read")),
        has_vectors=vectors,
        has_lookups=vectors
        or engine == "first-row"
        or texts.get("changelog-producer", "none").strip().lower() == "lookup"
        or _is_on(texts, "force-lookup"),
        texts=texts,
    )


def _is_on(texts: Mapping[str, str], option: str) -> bool:
    return texts.get(option, "false").strip().lower() == "true"
