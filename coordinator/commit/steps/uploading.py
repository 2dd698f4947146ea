"""The second steps of an attempt: the files of data, manifests, lists and identities that its snapshot will name.

Owns: `Uploading`. Must not know: when a file is written, and beside which others (the driver). Hazards: H7, H20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ....backends.store import Unknown
from ....core.errors import StoreUnavailable
from ....core.metadata.data_file import ManifestEntry
from ....core.typed import assert_never
from ...identities.memory import name_of
from ...identities.recall import with_room
from ...protocol import effects as do
from ...protocol import events as ev
from ...protocol.events import Event
from ..attempt import Delta, MetadataFile
from .state import RunState

Uploads: TypeAlias = tuple[Sequence[MetadataFile], Event]
"""Files that may be written in parallel, and the event to report once all of them are durable."""


class Uploading(RunState):
    def uploads(self, effect: do.UploadData | do.WriteManifests | do.WriteBaseList | do.WriteDeltaList) -> Uploads:
        """The files of an upload effect. The driver writes them, in parallel with the files of other effects."""
        match effect:
            case do.UploadData():
                gone = set(self.settler.key_rules.superseded)
                files = [MetadataFile(u.key, u.key, u.data) for u in self.request.uploads if u.key not in gone]
                return files, ev.DataUploaded(len(files))
            case do.WriteBaseList():
                base_list = self.writer.manifest_list(self._attempt().base_manifests)
                self.attempt = replace(self._attempt(), base_list=base_list)
                folded = self._settled().folded
                beside = folded.files if folded is not None else ()
                files = [*self._missing_hint(), *beside, base_list]
                return files, ev.BaseListWritten(base_list.name, tuple(b.name for b in beside))
            case do.WriteManifests():
                return self._manifest_uploads()
            case do.WriteDeltaList():
                return self._delta_uploads()
            case _:
                assert_never(effect)

    def doubt_uploads(self) -> None:
        """A file of this attempt was not written. A commit whose intent is open may go on after that, and then writes its lists
        anew; the manifests that its intent names were durable before.
        """
        attempt = self._attempt()
        kept = attempt.delta.without_list() if attempt.delta is not None and self.group.asked else None
        self.attempt = replace(attempt, delta=kept)

    def _missing_hint(self) -> list[MetadataFile]:
        """EARLIEST, if it is missing: without it, a fork above a gap cannot be distinguished from the history (H25)."""
        begin = self._attempt().base.unhinted
        return (
            []
            if begin is None
            else [MetadataFile("EARLIEST", self.timeline.paths.hint("EARLIEST"), str(begin).encode())]
        )

    def write(self, file: MetadataFile) -> None:
        """Make a file durable. EARLIEST is never lowered: an expiry may have raised it meanwhile (H7)."""
        if file.key != self.timeline.paths.hint("EARLIEST"):
            return self.store.put(file.key, file.data)
        for _ in range(3):
            answer = self.store.put_if_absent(file.key, file.data)
            if not isinstance(answer, Unknown) or self.timeline.hint("EARLIEST") is not None:
                return None
        raise StoreUnavailable(f"the store does not say whether {file.key} was created")

    def _manifest_uploads(self) -> Uploads:
        """Delta manifests that others are to carry; whoever leads writes the list."""
        attempt, settled = self._attempt(), self._settled()
        delta, new = attempt.delta, list[MetadataFile]()
        changelog = delta.changelog if delta is not None else None
        if delta is None or delta.entries != settled.entries:
            delta = Delta.unlisted(settled.entries, self.writer)
            new += delta.files
        if settled.changelog and (changelog is None or settled.changelog != changelog.entries):
            changelog = Delta.unlisted(settled.changelog, self.writer)
            new += changelog.files
        self.attempt = replace(attempt, delta=replace(delta, changelog=changelog))
        names = tuple(file.name for file in new)
        return [*new, *settled.new_data], ev.ManifestsWritten(names)

    def _delta_uploads(self) -> Uploads:
        """Delta and changelog manifests and lists, kept from an earlier attempt unless the entries changed with the base."""
        attempt, settled = self._attempt(), self._settled()
        index, delta, new = settled.new_index_files, attempt.delta, list[MetadataFile]()
        changelog, of_changelog = self._changelog(delta.changelog if delta is not None else None, settled.changelog)
        if delta is None or settled.entries != delta.entries:
            delta = Delta.of(settled.entries, self.writer, self.group.riders)
            self.settler.learn(delta.files)
            new = [*delta.files, delta.list]
        elif delta.riders != self.group.riders or not delta.list.name:
            delta = delta.carrying(self.group.riders, self.writer)
            new = [delta.list]
        new += of_changelog
        delta = replace(delta, changelog=changelog)
        self.attempt = replace(attempt, delta=delta)
        named = [*(file.name for file in delta.files), *(changelog.names if changelog is not None else ())]
        beside = [name for name in named if self.writer.names.own(name)]  # the others are a rider's
        if index:
            new, beside = [*new, *index], [*beside, index[-1].name]
        identities = self._carry_identities()
        beside += [file.name for file in identities]
        new += [*settled.new_data, *settled.marks]
        self.left.made += [file.key for file in (*index[:-1], *settled.marks)]
        return [*new, *identities], ev.DeltaListWritten(delta.list.name, tuple(beside))

    def _changelog(
        self, before: Delta | None, entries: tuple[ManifestEntry, ...]
    ) -> tuple[Delta | None, list[MetadataFile]]:
        """The changelog manifests of the commit and of its riders in one list, and those files of them that are new."""
        theirs = [line for intent in self.group.riders for line in intent.changelog]
        if not entries and not theirs:
            return None, []
        made = before if before is not None and before.entries == entries else None
        new = list[MetadataFile]()
        if made is None:
            made = Delta.unlisted(entries, self.writer)
            new += made.files
        listed = made.listed_with(theirs, self.writer)
        return listed, new if listed is made else [*new, listed.list]

    def _carry_identities(self) -> list[MetadataFile]:
        """Compute what the next snapshot remembers; returns files for the identities that its property has no room for."""
        request, names, attempt = self._published, self.writer.names, self._attempt()
        carried = self.group.riders
        riders = [(i.user, i.identifier, i.said.query) for i in carried if i.identifier is not None]
        known, own = self.knows.identities, name_of(request.commit_user)
        pairs = [(user, identifier) for user, identifier, _ in riders]
        commits = [*([] if request.identifier is None else [(own, request.identifier)]), *pairs]
        recalled = with_room(attempt.recalled, commits, attempt.base.snapshot, self.timeline, known)
        memory, made = recalled.carried_on(
            request.commit_user, request.identifier, attempt.ours, names.next, riders=riders, query=request.query
        )
        known.keep(attempt.ours, memory, made)
        self.attempt = replace(attempt, memory=memory, identities=tuple(file.name for file in made))
        return [MetadataFile(file.name, self.timeline.paths.identities(file.name), file.data) for file in made]
