"""What a compaction looks up and records besides merging rows: a table's options as data.

Owns: `LookupRules`, how a file may move to another level. Must not know: files' contents, how rows are merged.
Source: format/lookup-compaction §1, §2, §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ... import options as opt
from ...errors import InvalidArgument
from ..data_file import DataFile
from ..schema import TableSchema
from ..schemas.merge_rules import MergeRules

Producer = Literal["none", "input", "lookup", "full-compaction"]
PRODUCERS: tuple[Producer, ...] = ("none", "input", "lookup", "full-compaction")

Upgrade = Literal["move", "compare", "rewrite"]
"""How a single file comes to another level: it only moves; it moves, and its rows are compared with older ones (for a changelog
or deletion vectors); or it is rewritten."""


@dataclass(frozen=True)
class LookupRules:
    """What a compaction of one table does besides merging rows.

    Attributes:
        producer: option `changelog-producer`.
        is_wide: new deletion vectors are of 64 bits (option `deletion-vectors.bitmap64`).
        compared: the columns in which a row must differ to count as changed (option `changelog-producer.row-deduplicate`,
            without those of `changelog-producer.row-deduplicate-ignore-fields`); None: a row that is written again counts.
        formats: the file format of each level that has one of its own (option `file.format.per.level`).
    """

    producer: Producer
    merge: MergeRules
    is_wide: bool = False
    compared: tuple[str, ...] | None = None
    formats: Mapping[int, str] = field(default_factory=dict)
    file_format: str = "parquet"

    @property
    def looks_up(self) -> bool:
        """Does a compaction of level 0 look for older rows in the levels above its output?"""
        return self.merge.has_lookups and self.producer != "full-compaction"

    @property
    def writes_changelog(self) -> bool:
        return self.producer in ("lookup", "full-compaction")

    @property
    def needs_values(self) -> bool:
        """Are the older rows merged with the newer ones, or compared with them? Else only their positions are needed."""
        plain = self.merge.engine == "deduplicate" and not self.merge.sequence_fields
        return not (
            self.merge.engine == "first-row" or (self.merge.has_vectors and plain and not self.writes_changelog)
        )

    def upgrade(self, file: DataFile, output_level: int, top_level: int) -> Upgrade:
        """How a file that overlaps no other one of its compaction comes to the output level."""
        if self.producer == "full-compaction":
            return "compare" if output_level == top_level else "move"
        if not self.looks_up or file.level != 0:
            return "move"
        if self._format(0) != self._format(output_level):
            return "rewrite"
        if self.merge.has_vectors and file.delete_row_count != 0:
            return "rewrite"
        plain = self.merge.engine == "deduplicate" and not self.merge.sequence_fields
        if output_level == top_level or plain:
            return "compare" if self.writes_changelog or self.merge.has_vectors else "move"
        return "rewrite"

    def _format(self, level: int) -> str:
        return self.formats.get(level, self.file_format)


def lookup_rules(schema: TableSchema, merge: MergeRules) -> LookupRules:
    options = schema.options
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer not in PRODUCERS:
        raise InvalidArgument(
            f"option '{opt.CHANGELOG_PRODUCER.key}' = {producer!r} is not known",
            next_step=f"use {', '.join(PRODUCERS)}",
        )
    if merge.has_vectors and producer == "full-compaction":
        raise InvalidArgument(
            f"option '{opt.DELETION_VECTORS.key}' = true does not go with '{opt.CHANGELOG_PRODUCER.key}' = {producer}",
            next_step="use none, input or lookup",
        )
    if merge.has_vectors and merge.engine == "first-row":
        raise InvalidArgument(
            f"option '{opt.DELETION_VECTORS.key}' = true does not go with 'merge-engine' = first-row",
            next_step="leave it out: this engine deletes no rows",
        )
    ignored = {name.strip() for name in options.get(opt.DEDUPLICATE_IGNORES).split(",")}
    compared = tuple(f.name for f in schema.fields if f.name not in ignored)
    return LookupRules(
        producer,
        merge,
        options.get(opt.WIDE_VECTORS),
        compared if options.get(opt.ROW_DEDUPLICATE) else None,
        options.get(opt.FILE_FORMAT_PER_LEVEL),
        options.get(opt.FILE_FORMAT),
    )
