"""One commit that waits to be carried, as a value and as a file.

Owns: `Intent`, its file's name and content, and the rule that says which intents a leader may carry. Must not know: stores,
who registers an intent and when. Source: decision 71; format/manifests §2; H16.
Invariants: an intent holds for exactly two snapshot ids, and names the snapshot below them by its identity. Whatever is wrong
with a file of another writer is one `TableCorrupt` that names the file and the field.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.manifest import ManifestFile, decode_manifest_list, encode_manifest_list
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ...core.paths import safe_name
from ..history.row_numbers import Span, row_numbers, span_of
from ..history.timeline import base_of
from ..identities.memory import name_of
from ..protocol.snapshot_ref import SnapshotRef
from .carried import carried_by

IDS = 2
"""An intent holds for so many snapshot ids. A leader need read no other snapshot than its base to see that it has not landed."""
_VERSION, _WITH_MORE = 1, 2
"""An intent that says more than older versions understand has another version, so that they do not carry it."""
_FILE = re.compile(r"^intent-(?P<lo>[1-9]\d{0,18})-(?P<commit>[0-9A-Za-z-]{1,64})\.json$")


def ids_above(base: SnapshotRef) -> tuple[int, int]:
    """The first and the last snapshot id that may carry an intent that was registered on a snapshot.

    >>> ids_above(SnapshotRef(4, "s-4"))
    (5, 6)
    """
    return base.id + 1, base.id + IDS


@dataclass(frozen=True, slots=True)
class Numbered:
    """What an intent says of rows with sequence numbers.

    Attributes:
        span: the smallest and the largest number.
        buckets: the bucket count of the files; 0 if none is in a fixed bucket.
        changelog: the manifests of its changelog files, which have `changes` rows.
    """

    span: Span
    buckets: int = 0
    changelog: tuple[ManifestFile, ...] = ()
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """What a commit says besides its rows; `query` and `in_order` as in its request."""

    query: str = ""
    in_order: bool = False
    watermark_ms: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Intent:
    """A commit that anybody may publish in one of two snapshots.

    Attributes:
        commit: the id of its commit, which its manifests' names contain. It tells twins with one identity apart.
        user: as the memory of identities spells it.
        base: the snapshot that was the newest when it was registered, and through which its identity was looked up.
        schema_id, buckets: of the schema that its files were written with.
        table: identity and place of the table that it was registered in; empty in intents of older versions.
        numbered: of a table whose rows have sequence numbers.

    >>> Intent("c1", "etl", 7, SnapshotRef(4, "u4"), 0, -1, 10, ()).ids
    (5, 6)
    """

    commit: str
    user: str
    identifier: int | None
    base: SnapshotRef
    schema_id: int
    buckets: int
    rows: int
    manifests: tuple[ManifestFile, ...]
    table: str = ""
    numbered: Numbered | None = None
    said: Said = Said()

    @property
    def ids(self) -> tuple[int, int]:
        return ids_above(self.base)

    @property
    def changelog(self) -> tuple[ManifestFile, ...]:
        return self.numbered.changelog if self.numbered is not None else ()

    @property
    def all_manifests(self) -> tuple[ManifestFile, ...]:
        return (*self.manifests, *self.changelog)

    @property
    def file_name(self) -> str:
        return f"intent-{self.ids[0]}-{self.commit}.json"

    def is_open(self, newest_id: int) -> bool:
        """Whether a snapshot that could carry it has still to be published."""
        return newest_id < self.ids[1]

    def to_json(self) -> bytes:
        """Its file. The manifests are an Avro manifest list, as the format has it, so nothing of them gets lost."""
        more: dict[str, Any] = {}
        if self.numbered is not None:
            found = self.numbered
            more |= {"numbers": found.span.to_json(), "counts": found.buckets, "changes": found.changes}
            more["changelog"] = _encoded(found.changelog)
        if self.said != Said():
            more |= asdict(self.said)
        raw: dict[str, Any] = {
            "version": _WITH_MORE if more else _VERSION,
            "commit": self.commit,
            "user": self.user,
            "identifier": self.identifier,
            "base": {"id": self.base.id, "identity": self.base.identity},
            "schema": self.schema_id,
            "buckets": self.buckets,
            "rows": self.rows,
            "table": self.table,
            "manifests": _encoded(self.manifests),
            **more,
        }
        return json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()


def _encoded(lines: tuple[ManifestFile, ...]) -> str:
    return base64.b64encode(encode_manifest_list(lines, compression="none")).decode()


def _manifests(raw: dict[str, Any], name: str, where: str) -> tuple[ManifestFile, ...]:
    data = base64.b64decode(_typed(raw, name, str), validate=True)
    return tuple(replace(line, listed_in="") for line in decode_manifest_list(data, where))  # a snapshot will list them


def parse_name(file_name: str) -> tuple[int, str] | None:
    """The first id and the commit that the name of an intent's file says; None for any other name.

    >>> parse_name("intent-5-c1.json"), parse_name(".intent-5-c1.json.tmp")
    ((5, 'c1'), None)
    """
    found = _FILE.match(file_name)
    return (int(found["lo"]), found["commit"]) if found else None


def parse_intent(data: bytes, where: str) -> Intent:
    """Raises TableCorrupt if it is garbled, not of its own name, or names manifests of others or outside the folder (H16)."""
    try:
        raw = parse_json(data)
        if not isinstance(raw, dict) or raw.get("version") not in (_VERSION, _WITH_MORE):
            raise ValueError(f"it is not an intent of version {_VERSION} or {_WITH_MORE}")
        made = Intent(
            _typed(raw, "commit", str),
            _typed(raw, "user", str),
            None if raw.get("identifier") is None else _count(raw, "identifier"),
            SnapshotRef(_count(raw["base"], "id"), _typed(raw["base"], "identity", str)),
            _count(raw, "schema"),
            _typed(raw, "buckets", int),
            _count(raw, "rows"),
            _manifests(raw, "manifests", where),
            _typed({"table": "", **raw}, "table", str),
            *(_with_more(raw, where) if raw["version"] == _WITH_MORE else ()),
        )
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise TableCorrupt(f"{where} is not an intent: {error!r}") from error
    if made.base.id < 1 or not made.base.identity:
        raise TableCorrupt(f"{where}: field 'base' names no snapshot")
    if parse_name(where.rpartition("/")[2]) != (made.ids[0], made.commit):
        raise TableCorrupt(f"{where}: its name does not fit its fields 'base' and 'commit'")
    for line in made.all_manifests:
        if f"-{made.commit}-" not in safe_name(line.file_name, f"{where}: field 'manifests'"):
            raise TableCorrupt(f"{where}: field 'manifests' names {line.file_name!r}, which another commit wrote")
        if line.num_deleted_files or line.num_added_files < 1:
            raise TableCorrupt(f"{where}: field 'manifests': {line.file_name} is not that of an append")
    if not made.manifests:
        raise TableCorrupt(f"{where}: field 'manifests' names none")
    return made


def _with_more(raw: dict[str, Any], where: str) -> tuple[Numbered | None, Said]:
    numbered = None
    if "numbers" in raw:
        span, changelog = span_of(raw["numbers"]), _manifests(raw, "changelog", where)
        numbered = Numbered(span, _count(raw, "counts"), changelog, _count(raw, "changes"))
    if "properties" not in raw:
        return numbered, Said()
    properties, watermark = _typed(raw, "properties", dict), raw["watermark_ms"]
    if any(type(value) is not str for value in properties.values()) or type(watermark) not in (int, type(None)):
        raise TypeError("field 'properties' or 'watermark_ms' is not what a snapshot can say")
    return numbered, Said(_typed(raw, "query", str), _typed(raw, "in_order", bool), watermark, properties)


def _typed(raw: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = raw[name]
    if type(value) is not kind:
        raise TypeError(f"field '{name}' is {value!r}")
    return value


def _count(raw: dict[str, Any], name: str) -> int:
    value: int = _typed(raw, name, int)
    if not 0 <= value < 1 << 63:
        raise ValueError(f"field '{name}' is {value}")
    return value


# ------------------------------------------------------------------------------------------------------- who may ride


@dataclass(frozen=True, slots=True)
class Leader:
    """The commit that chooses its riders: the snapshot that it builds on, its identity, and what its files were written with.
    `numbers` and `counts`: the sequence numbers and the bucket count of its rows; None for those that have none, or several.
    """

    base: Snapshot
    commit: str
    user: str
    schema_id: int
    buckets: int
    table: str = ""
    identifier: int | None = None
    numbers: Span | None = None
    counts: int | None = 0

    def near(self, first_id: int) -> bool:
        return first_id <= self.base.id + 1 < first_id + IDS

    def choose(self, intents: Iterable[Intent]) -> tuple[Intent, ...]:
        """The intents that it may carry, one of each identity, in the order of their commits.

        An intent rides only where nothing but the leader's base has to be known to see that it has not landed: it was registered
        on this base, or on the one that this base names. Above a snapshot of another engine, which names none, it must have been
        registered on this base. An identity lands once (G3), so of two intents with one identity the second is not carried, and
        of batches in an order only the first. An intent that came with a copy of its table has no place here, although the copy
        has its base (decision 94).
        """
        taken = carried_by(self.base)
        commits = {self.commit, *(one.commit for one in taken)}
        identities = {(name_of(self.user), self.identifier), *((one.user, one.identifier) for one in taken)}
        if self.base.commit_identifier != BATCH_IDENTIFIER:
            identities.add((name_of(self.base.commit_user), self.base.commit_identifier))
        users = {user for user, _ in identities}
        chosen: dict[str | tuple[str, int], Intent] = {}
        for intent in sorted(intents, key=lambda i: (i.commit, i.base.id)):
            identity = None if intent.identifier is None else (intent.user, intent.identifier)
            if (
                self.near(intent.ids[0])
                and self._stands(intent)
                and (intent.schema_id, intent.buckets) == (self.schema_id, self.buckets)
                and intent.table == self.table
                and intent.commit not in commits
                and (identity is None or identity not in identities)
                and not (intent.said.in_order and intent.user in users)
                and self._leaves_room_for(intent, chosen.values())
            ):
                key = (intent.user, -1) if intent.said.in_order else identity or intent.commit
                chosen.setdefault(key, intent)
        return tuple(chosen.values())

    def _leaves_room_for(self, intent: Intent, others: Iterable[Intent]) -> bool:
        """Whether the numbers of an intent's rows are its own, among those of the base, of the leader and of its other riders."""
        numbered, said = intent.numbered, row_numbers(self.base)
        if numbered is None or self.numbers is None:
            return numbered is None and self.numbers is None
        if said is None or (intent.base.id != self.base.id and not said.leaves_room_for(numbered.span)):
            return False
        if numbered.buckets and (numbered.buckets != said.buckets or self.counts not in (0, numbered.buckets)):
            return False
        beside = [self.numbers, *(i.numbered.span for i in others if i.numbered is not None)]
        return not any(numbered.span.meets(span) for span in beside)

    def _stands(self, intent: Intent) -> bool:
        if intent.base.id == self.base.id:
            return intent.base.identity == self.base.identity
        return base_of(self.base) == intent.base
