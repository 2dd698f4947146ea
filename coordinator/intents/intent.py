"""One append that waits to be carried, as a value and as a file.

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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.manifest import ManifestFile, decode_manifest_list, encode_manifest_list
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ...core.paths import safe_name
from ..history.timeline import base_of
from ..identities.memory import name_of
from ..protocol.snapshot_ref import SnapshotRef
from .carried import carried_by

IDS = 2
"""An intent holds for so many snapshot ids. A leader need read no other snapshot than its base to see that it has not landed."""
_VERSION = 1
_FILE = re.compile(r"^intent-(?P<lo>[1-9]\d{0,18})-(?P<commit>[0-9A-Za-z-]{1,64})\.json$")


def ids_above(base: SnapshotRef) -> tuple[int, int]:
    """The first and the last snapshot id that may carry an intent that was registered on a snapshot.

    >>> ids_above(SnapshotRef(4, "s-4"))
    (5, 6)
    """
    return base.id + 1, base.id + IDS


@dataclass(frozen=True, slots=True)
class Intent:
    """An append that anybody may publish in one of two snapshots.

    Attributes:
        commit: the id of its commit, which its manifests' names contain. It tells twins with one identity apart.
        user: as the memory of identities spells it.
        base: the snapshot that was the newest when it was registered, and through which its identity was looked up.
        schema_id, buckets: of the schema that its files were written with.
        table: identity and place of the table that it was registered in; empty in intents of older versions.

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

    @property
    def ids(self) -> tuple[int, int]:
        return ids_above(self.base)

    @property
    def file_name(self) -> str:
        return f"intent-{self.ids[0]}-{self.commit}.json"

    def is_open(self, newest_id: int) -> bool:
        """Whether a snapshot that could carry it has still to be published."""
        return newest_id < self.ids[1]

    def to_json(self) -> bytes:
        """Its file. The manifests are an Avro manifest list, as the format has it, so nothing of them gets lost."""
        raw: dict[str, Any] = {
            "version": _VERSION,
            "commit": self.commit,
            "user": self.user,
            "identifier": self.identifier,
            "base": {"id": self.base.id, "identity": self.base.identity},
            "schema": self.schema_id,
            "buckets": self.buckets,
            "rows": self.rows,
            "table": self.table,
            "manifests": base64.b64encode(encode_manifest_list(self.manifests, compression="none")).decode(),
        }
        return json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()


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
        if not isinstance(raw, dict) or raw.get("version") != _VERSION:
            raise ValueError(f"it is not an intent of version {_VERSION}")
        made = Intent(
            _typed(raw, "commit", str),
            _typed(raw, "user", str),
            None if raw.get("identifier") is None else _count(raw, "identifier"),
            SnapshotRef(_count(raw["base"], "id"), _typed(raw["base"], "identity", str)),
            _count(raw, "schema"),
            _typed(raw, "buckets", int),
            _count(raw, "rows"),
            tuple(
                replace(line, listed_in="")  # once it is carried, the list of a snapshot names it
                for line in decode_manifest_list(base64.b64decode(_typed(raw, "manifests", str), validate=True), where)
            ),
            _typed({"table": "", **raw}, "table", str),
        )
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise TableCorrupt(f"{where} is not an intent: {error!r}") from error
    if made.base.id < 1 or not made.base.identity:
        raise TableCorrupt(f"{where}: field 'base' names no snapshot")
    if parse_name(where.rpartition("/")[2]) != (made.ids[0], made.commit):
        raise TableCorrupt(f"{where}: its name does not fit its fields 'base' and 'commit'")
    for line in made.manifests:
        if f"-{made.commit}-" not in safe_name(line.file_name, f"{where}: field 'manifests'"):
            raise TableCorrupt(f"{where}: field 'manifests' names {line.file_name!r}, which another commit wrote")
        if line.num_deleted_files or line.num_added_files < 1:
            raise TableCorrupt(f"{where}: field 'manifests': {line.file_name} is not that of an append")
    if not made.manifests:
        raise TableCorrupt(f"{where}: field 'manifests' names none")
    return made


def _typed(raw: dict[str, Any], field: str, kind: type[Any]) -> Any:
    value = raw[field]
    if type(value) is not kind:
        raise TypeError(f"field '{field}' is {value!r}")
    return value


def _count(raw: dict[str, Any], field: str) -> int:
    value: int = _typed(raw, field, int)
    if not 0 <= value < 1 << 63:
        raise ValueError(f"field '{field}' is {value}")
    return value


# ------------------------------------------------------------------------------------------------------- who may ride


@dataclass(frozen=True, slots=True)
class Leader:
    """The commit that chooses its riders: the snapshot that it builds on, its identity, and what its files were written with."""

    base: Snapshot
    commit: str
    user: str
    schema_id: int
    buckets: int
    table: str = ""
    identifier: int | None = None

    def near(self, first_id: int) -> bool:
        return first_id <= self.base.id + 1 < first_id + IDS

    def choose(self, intents: Iterable[Intent]) -> tuple[Intent, ...]:
        """The intents that it may carry, one of each identity, in the order of their commits.

        An intent rides only where nothing but the leader's base has to be known to see that it has not landed: it was registered
        on this base, or on the one that this base names. Above a snapshot of another engine, which names none, it must have been
        registered on this base. An identity lands once (G3), so of two intents with one identity the second is not carried. An
        intent that came with a copy of its table has no place here, although the copy has its base (decision 94).
        """
        taken = carried_by(self.base)
        commits = {self.commit, *(one.commit for one in taken)}
        identities = {(name_of(self.user), self.identifier), *((one.user, one.identifier) for one in taken)}
        if self.base.commit_identifier != BATCH_IDENTIFIER:
            identities.add((name_of(self.base.commit_user), self.base.commit_identifier))
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
            ):
                chosen.setdefault(identity or intent.commit, intent)
        return tuple(chosen.values())

    def _stands(self, intent: Intent) -> bool:
        if intent.base.id == self.base.id:
            return intent.base.identity == self.base.identity
        return base_of(self.base) == intent.base
