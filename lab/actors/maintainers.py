"""The actors that maintain or remove a table: expiry, rollbacks, orphan cleaning, schema changes, lost hints, drop and create.

Owns: the roles that add no rows. Must not know: schedules, faults, invariants. Source: format/commit §9, §11, §12;
format/schema §4. Invariant: shipped operations run unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast
from unittest.mock import patch

from ...backends.store import ObjectInfo, ObjectNotFound, Store
from ...coordinator.alteration import alter
from ...coordinator.history.timeline import Timeline
from ...coordinator.identities import memory as identity
from ...coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from ...coordinator.maintenance.expiry.retention import Retention
from ...coordinator.maintenance.orphans import apply_clean, plan_orphans
from ...coordinator.maintenance.rollback import plan_rollback, protect
from ...coordinator.tags.creation import create_tag
from ...coordinator.tags.deletion import apply_untagging, plan_untagging
from ...core.errors import LakelatchError
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.changes import set_option
from ...core.metadata.tag import Tag
from ..world.published import COMMIT, READ, RESTORES
from ..world.simulated_store import Request
from ..world.stage import PATHS, Stage, Told
from .jobs import Role, commit_once, writer

LONG_AGO_MS = 24 * 3_600_000
SHIPPED_USERS = identity.REMEMBERED_USERS


def expirer(retained: int = 1, *, times: int = 1, every_s: float | None = None) -> Role:
    """Expire snapshots with the shipped code, by this actor's clock every `every_s` seconds, so that the table's own
    retention decides. Without `every_s` all earlier snapshots count as old, and every actor under way as having slept.
    """

    def role(stage: Stage) -> None:
        for _ in range(times):
            stage.around.sleep(every_s or 0.0)
            past_ms = LONG_AGO_MS if every_s is None else 0
            retention = Retention.of(
                stage.schema.options, stage.around.wall_ms + past_ms, retain_min=retained, max_deletes=1_000
            )
            try:
                timeline = stage.timeline()
                apply_expiry(timeline, plan_expiry(timeline, stage.schema, retention))
            except LakelatchError:
                continue  # an expiry that fails is repeated another day

    return role


def rollback(to: int, *, tells: bool = True) -> Role:
    """Roll back as the format does: LATEST first (if `tells`), then delete later snapshots from the top (format/commit §11)."""

    def role(stage: Stage) -> None:
        try:
            ids = stage.timeline().snapshot_ids()
            if tells:
                stage.store.put(PATHS.hint("LATEST"), str(to).encode())
            for number in sorted((i for i in ids if i > to), reverse=True):
                stage.store.delete_many([PATHS.snapshot(number)])
        except LakelatchError:
            return

    return role


def restorer(to: int = 0, *, back: int = 0) -> Role:
    """Make snapshot `to`, or the one so many before the newest, the newest state by a new commit, with the shipped code."""

    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        try:
            newest = timeline.latest() if back else None
            number = newest.id - back if newest is not None else to
            target = timeline.find(number) if number > 0 else None
            if target is None:
                return
            plan = plan_rollback(timeline, target, PATHS.snapshot(number))
            tags = protect(timeline, stage.schema, plan, stage.name)
        except LakelatchError:
            return  # the caller gets the error, and nothing was committed
        request = plan.request(f"user-{stage.name}", None, "snapshot", tags[0])
        said = {COMMIT: f"{stage.name}1", READ: plan.latest.identity, RESTORES: str(number)}
        remarks = replace(request.remarks, properties={**request.remarks.properties, **said})
        request = replace(request, remarks=remarks)
        commit_once(stage, stage.committer(), request, f"{stage.name}1")

    return role


def tagger(name: str, of: int | str) -> Role:
    """Make a tag with the shipped code, of a snapshot or of another tag. The caller is told only that it was made."""

    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        try:
            snapshot = timeline.find(of) if isinstance(of, int) else timeline.tag(of)
            if snapshot is not None:
                create_tag(timeline, Tag(name, snapshot), stage.around)
                stage.tell(Told(name, "tagged", "", None, ()))
        except (LakelatchError, ObjectNotFound):
            return  # the caller gets the error

    return role


def untagger(name: str) -> Role:
    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        try:
            apply_untagging(timeline, plan_untagging(timeline, stage.schema, [name]))
        except LakelatchError:
            return

    return role


def cleaner(old: Callable[[str], bool]) -> Role:
    """Delete orphans with the shipped code. `old` decides by a file's key whether it is old enough."""

    def role(stage: Stage) -> None:
        timeline = Timeline(cast(Store, _Aged(stage.store, old)), PATHS, stage.around.executor)
        try:
            apply_clean(plan_orphans(timeline, stage.schema, until_ms=2))
        except LakelatchError:
            return

    return role


def foreign_cleaner(old: Callable[[str], bool]) -> Role:
    """Delete old data files that no snapshot names, as another engine does, which knows neither journals nor intents."""

    def role(stage: Stage) -> None:
        timeline = stage.timeline()
        named = set[str]()
        for number in timeline.snapshot_ids():
            entries = timeline.entries(timeline.manifests(timeline.snapshot(number)))
            named |= {f"bucket-0/{entry.file.file_name}" for entry in entries}
        files = [info.key for info in stage.store.list("bucket-0/")]
        stage.store.delete_many([key for key in files if old(key) and key not in named])

    return role


class _Aged:
    def __init__(self, store: Store, old: Callable[[str], bool]) -> None:
        self._store, self._old = store, old

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in self._store.list(prefix):
            yield replace(info, modified_ms=1 if self._old(info.key) else 2)


def hints(**values: bytes | None) -> Role:
    """Write hints by hand, and remove those that are None: `hints(EARLIEST=None)`."""

    def role(stage: Stage) -> None:
        for name, data in values.items():
            if data is None:
                stage.store.delete_many([PATHS.hint(name)])
            else:
                stage.store.put(PATHS.hint(name), data)

    return role


def forgetful(role: Role, users: int = 1) -> Role:
    """A role on a table whose snapshots remember this number of commit users only; those of other roles are as shipped."""

    def smaller(stage: Stage) -> None:
        with patch.object(identity, "REMEMBERED_USERS", users):
            stage.while_others_play = partial(patch.object, identity, "REMEMBERED_USERS", SHIPPED_USERS)
            role(stage)

    return smaller


def alterer(**options: str) -> Role:
    def role(stage: Stage) -> None:
        try:
            changes = [set_option(key, value) for key, value in options.items()]
            alter(stage.timeline(), changes, stage.committer_with, stage.around)
        except LakelatchError:
            return  # the caller gets the error

    return role


def dropper(again: TableSchema | None = None, commits: int = 0) -> Role:
    """Drop the table at once. If a schema is given, create another table at the same location, and commit to it."""

    def role(stage: Stage) -> None:
        stage.wire(Request("drop", ""))
        if again is None:
            return
        stage.schema = again
        stage.store.put_if_absent(PATHS.schema(0), again.to_json())
        if commits:
            writer(commits, opened=again.to_json())(stage)

    return role
