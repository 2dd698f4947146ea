"""Files that a rollback or an undo lowers to an earlier level get a new identity, so that no DELETE hides them later.

Owns: `Returning`. Must not know: which files come back, how a commit is written. Source: format/manifests §4; decision 75.
Invariant: after a commit no compaction can raise a file to an identity of which a DELETE is in the manifests. Raising gives no
new name, also where Apache Paimon does it. So a file whose level goes down gets one more name in `_EXTRA_FILES`, which stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....core.metadata.change import Owner, owner_of
from ....core.metadata.data_file import ADD, RETURN_MARK, EntryIdentity, ManifestEntry
from ....core.places import FileKeys, is_external
from ...surroundings import MACHINE
from ..message import PendingUpload

TEXT = b"This file gives an entry of a manifest an identity of its own. It belongs to the data file whose name it begins with.\n"


@dataclass
class Returning:
    keys: FileKeys
    _names: dict[EntryIdentity, str] = field(default_factory=dict)

    def marked(self, entries: Sequence[ManifestEntry]) -> tuple[tuple[ManifestEntry, ...], tuple[PendingUpload, ...]]:
        """The entries of a commit, with marks where they are needed, and the files of these marks."""
        gone: dict[Owner, ManifestEntry] = {owner_of(e): e for e in entries if e.kind != ADD}
        if not gone:
            return tuple(entries), ()
        made, files = list[ManifestEntry](), list[PendingUpload]()
        for entry in entries:
            old = gone.get(owner_of(entry)) if entry.kind == ADD else None
            if old is not None and _may_return(old, entry):
                entry, key = self._marked(entry)
                files += [] if is_external(key) else [PendingUpload(key, TEXT)]
            made.append(entry)
        return tuple(made), tuple(files)

    def _marked(self, entry: ManifestEntry) -> tuple[ManifestEntry, str]:
        file = entry.file
        name = self._names.setdefault(entry.identity, f"{file.file_name}.{MACHINE.new_uuid()}{RETURN_MARK}")
        beside = tuple(n for n in file.extra_files if not n.endswith(RETURN_MARK))
        key = self.keys.data(entry)[0]
        folder = key[: len(key) - len(file.file_name)]
        return entry._replace(file=file._replace(extra_files=(*beside, name))), folder + name


def _may_return(old: ManifestEntry, new: ManifestEntry) -> bool:
    """Would the file have its old identity again, once a compaction raised it to that level?"""
    level = old.file.level
    return new.file.level < level and new._replace(file=new.file._replace(level=level)).identity == old.identity
