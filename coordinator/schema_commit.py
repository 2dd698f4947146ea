"""Commits a new schema: one atomic create of the next schema file, with the same three answers as for any commit.

Owns: `create_schema`, `create_first_schema`, `change_schema`. Must not know: how a change is applied to a schema
(`core.metadata.schema_changes`). Source: format/schema §4 (evolution).
Invariants: a change is applied to the newest schema, and again after a lost race. The store's answer counts only if the file
itself confirms it (H2, H3). A refusal is reported as "not created" only if no send was left without an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenacity import RetryError, Retrying, retry_if_result, stop_after_attempt, wait_random_exponential

from ..backends.requests.refusals import raise_undone
from ..backends.store import Created, ObjectNotFound, Store
from ..core.errors import OutcomeUnknown, RetriesExhausted, StoreUnavailable, TableNotFound
from ..core.metadata.schema import TableSchema, parse_schema
from ..core.metadata.schemas.changes import SchemaChange, changed
from ..core.metadata.schemas.layout import held_files
from ..core.metadata.snapshot import Snapshot
from .history.timeline import Timeline
from .stored_values import StoredValues
from .surroundings import MACHINE, Surroundings

_SENDS = 4
_RACES = 40


def create_first_schema(store: Store, key: str, data: bytes, around: Surroundings = MACHINE) -> bool:
    """Create a table's first schema file. Returns False where there is one already.

    The name is read first. If the store cannot be reached at all (no such bucket or host, wrong credentials), that read finds it
    out, and nothing has been sent that could still arrive. Otherwise raises as `create_schema`.
    """
    try:
        store.get(key)
    except ObjectNotFound:
        pass
    except StoreUnavailable as error:
        raise StoreUnavailable(f"no table was created: {error.message}", next_step=error.next_step) from error
    else:
        return False
    return create_schema(store, key, data, around)


def create_schema(
    store: Store,
    key: str,
    data: bytes,
    around: Surroundings = MACHINE,
    *,
    sent_before: bool = False,
    called: str = "schema",
) -> bool:
    """Create a schema file, or a tag (`called`). Returns False where the name already holds something else. `sent_before`: an
    earlier send of these bytes got no answer, so a refusal of this one does not prove that none landed.

    Raises:
        StoreUnavailable: the store refused, and nothing was created.
        OutcomeUnknown: the store does not say whether it was created; `resolve()` asks again.
    """
    unanswered = [key] if sent_before else []

    def send() -> bool | None:
        """Send the same bytes again; None where it is not known what the name holds now."""
        try:
            if isinstance(store.put_if_absent(key, data), Created):
                return True
        except StoreUnavailable as error:  # it proves that this send was not applied
            if unanswered:
                return None
            raise StoreUnavailable(f"{key} was not created: {error.message}", next_step=error.next_step) from error
        unanswered.append(key)
        try:
            return store.get(key) == data
        except (ObjectNotFound, StoreUnavailable):
            return None

    sends = Retrying(
        stop=stop_after_attempt(_SENDS),
        wait=wait_random_exponential(multiplier=0.05),
        retry=retry_if_result(lambda held: held is None),
        sleep=around.sleep,
    )
    try:
        return bool(sends(send))
    except RetryError:
        raise _unknown(store, key, data, around, called) from None


def _unknown(store: Store, key: str, data: bytes, around: Surroundings, called: str) -> OutcomeUnknown[str]:
    def resolve(timeout: float) -> str:
        until = around.monotonic_s() + timeout
        while True:
            try:
                if create_schema(store, key, data, around, sent_before=True, called=called):
                    return key
            except OutcomeUnknown:
                if around.monotonic_s() < until:
                    continue
                raise
            raise RetriesExhausted(f"{key} of {store.url} was made by another writer: this change did not land")

    return OutcomeUnknown(
        f"it is not known whether {key} was created in {store.url}", identity={called: key}, resolver=resolve
    )


@dataclass(frozen=True, slots=True)
class Changed:
    """A schema that was created. `holds_files`: the table held files then or earlier, which allow this change."""

    before: TableSchema
    after: TableSchema
    holds_files: bool


def change_schema(
    timeline: Timeline,
    changes: Sequence[SchemaChange],
    around: Surroundings = MACHINE,
    seen: Snapshot | None = None,
) -> Changed:
    """Apply changes to the newest schema, and create the result. Raises as `create_schema`, InvalidArgument for a change that
    the newest schema does not allow, and RetriesExhausted. `seen` exists: later ones are asked for by name: a listing may lag.
    """
    wait = wait_random_exponential(multiplier=0.05, max=2)
    races = Retrying(
        stop=stop_after_attempt(_RACES), wait=wait, retry=retry_if_result(lambda made: made is None), sleep=around.sleep
    )
    try:
        made = races(_race, timeline, changes, around, seen)
    except RetryError:
        raise RetriesExhausted(f"lost {_RACES} races for the next schema of {timeline.store.url}") from None
    assert made is not None  # after None the loop tries again
    return made


def _race(
    timeline: Timeline, changes: Sequence[SchemaChange], around: Surroundings, seen: Snapshot | None
) -> Changed | None:
    """One attempt; None where another schema was created meanwhile."""
    newest = timeline.latest_schema()
    latest = timeline.latest(seen)
    holds_files, values = held_files(latest), StoredValues(timeline, latest)
    made = changed(newest, changes, has_snapshots=holds_files, time_ms=around.wall_ms, check_values=values.check)
    won = create_schema(timeline.store, timeline.paths.schema(made.id), made.to_json(), around)
    if won:
        _check_built_on(timeline, newest, made)
    return Changed(newest, made, holds_files) if won else None


def _check_built_on(timeline: Timeline, newest: TableSchema, made: TableSchema) -> None:
    """If the table was dropped or renamed meanwhile, the schema would be a table of its own (H21): it is deleted then."""
    key = timeline.paths.schema(newest.id)
    try:
        timeline.check_table()
        if timeline.first_schema is not None or parse_schema(timeline.store.get(key), key) == newest:
            return
    except StoreUnavailable:  # what is known is that the schema was created
        return
    except (ObjectNotFound, TableNotFound):
        pass
    gone = TableNotFound(
        f"the table at {timeline.store.url} was dropped or renamed while its schema was changed; nothing was changed",
        next_step="open the table again, where it is now",
    )
    raise_undone(gone, lambda: timeline.store.delete_many([timeline.paths.schema(made.id)]))
