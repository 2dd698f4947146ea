"""Procedures about the history of a table: rollbacks, snapshots, tags, branches and consumers.

Owns: these procedures. Must not know: how they are called. Source: format/snapshot §5; format/commit §9, §11.
Invariant: nothing is deleted that the name of the procedure does not say is deleted. A rollback is a commit on top of the
history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ...core.errors import InvalidArgument, LakelatchError, TableExists
from ...core.metadata.snapshot import Snapshot
from ...core.options import parse_duration_ms
from .partitions import number, with_options
from .procedure import DONE, Call, Rows

_EXPIRY = {
    "snapshot.num-retained.max": "retain_max",
    "snapshot.num-retained.min": "retain_min",
    "snapshot.time-retained": "older_than",
    "snapshot.expire.limit": "max_deletes",
}


def _moment(call: Call, name: str) -> str | int | None:
    """A time, or how long ago: `7 d`."""
    value = call.text(name)
    if value is None or value.lstrip("-").isdigit():
        return None if value is None else int(value)
    try:
        parse_duration_ms(value)
    except (LakelatchError, ValueError):
        return call.time_ms(name)
    return value


# ------------------------------------------------------------------------------------------------------------ rollbacks


def rolled_back(call: Call, **state: Any) -> Rows:
    """The newest snapshot before and after. Nothing is committed where the wanted state is the newest snapshot already."""
    table = call.table.table.refresh()
    newest = table.snapshot()
    if newest is not None and not call.identity and table.at(**state).snapshot() == newest:
        return [(newest.id, newest.id)]
    receipt = table.rollback(**state, **call.identity)
    return [(receipt.snapshot_id - 1, receipt.snapshot_id)]


def rollback(call: Call) -> Rows:
    version, tag, snapshot = call.text("version"), call.text("tag"), call.values["snapshot"]
    if [version, tag, snapshot].count(None) != 2:
        raise InvalidArgument("rollback goes back to one state", next_step="give one of version, snapshot and tag")
    if version is not None:
        snapshot, tag = (int(version), None) if version.isdigit() else (None, version)
    return rolled_back(call, **({"tag": tag} if snapshot is None else {"snapshot": snapshot}))


def rollback_to_timestamp(call: Call) -> Rows:
    return rolled_back(call, timestamp=call.values["timestamp"])


def rollback_to_watermark(call: Call) -> Rows:
    wanted = call.values["watermark"]
    known = [s for s in call.table.table.refresh().snapshots() if s.watermark is not None and s.watermark > -(1 << 63)]
    earlier = [s for s in known if s.watermark is not None and s.watermark <= wanted]
    if not earlier:
        raise InvalidArgument(
            f"no snapshot has a watermark that is not later than {wanted}",
            next_step=f"the earliest is {known[0].watermark}" if known else "no snapshot has a watermark",
        )
    return rolled_back(call, snapshot=earlier[-1].id)


def expire_snapshots(call: Call) -> Rows:
    given = with_options(call, _EXPIRY)
    older = given["older_than"] if call.values["older_than"] is None else _moment(call, "older_than")
    done = call.table.table.expire(
        retain_max=number(given["retain_max"], "retain_max"),
        retain_min=number(given["retain_min"], "retain_min"),
        older_than=older,
        max_deletes=number(given["max_deletes"], "max_deletes"),
    )
    return [(len(done.snapshot_ids),)]


# ----------------------------------------------------------------------------------------------------------------- tags


def create_tag(call: Call) -> Rows:
    name = call.values["tag"]
    try:
        call.table.table.create_tag(name, snapshot=call.values["snapshot"], keep=call.text("time_retained"))
    except InvalidArgument as error:
        if any(tag.name == name for tag in call.table.table.tags()):
            error.next_step = "CALL sys.replace_tag(…) gives it to another snapshot"
        raise
    return DONE


def replace_tag(call: Call) -> Rows:
    name, table = call.values["tag"], call.table.table
    if not any(tag.name == name for tag in table.tags()):
        raise InvalidArgument(f"there is no tag {name!r} to replace", next_step="CALL sys.create_tag(…) makes it")
    table.create_tag(name, snapshot=call.values["snapshot"], keep=call.text("time_retained"), replace=True)
    return DONE


def rename_tag(call: Call) -> Rows:
    call.table.table.rename_tag(call.values["tag"], call.values["target_tag"])
    return DONE


def create_tag_from_timestamp(call: Call) -> Rows:
    table, name, wanted = call.table.table.refresh(), call.values["tag"], call.values["timestamp"]
    found: list[Snapshot] = [
        s for s in [*table.snapshots(), *(tag.snapshot for tag in table.tags())] if s.time_ms >= wanted
    ]
    if not found:
        raise InvalidArgument(f"no snapshot was committed at {wanted} or later")
    first = min(found, key=lambda s: (s.time_ms, s.id))
    table.create_tag(name, snapshot=first.id, keep=call.text("time_retained"))
    return [(name, first.id, first.time_ms, None if first.watermark is None else str(first.watermark))]


def _listed(text: str, known: Iterable[str]) -> list[str]:
    """A name, or several with commas between them."""
    return [text] if text in set(known) else [name.strip() for name in text.split(",") if name.strip()] or [text]


def delete_tag(call: Call) -> Rows:
    table = call.table.table
    known = {tag.name for tag in table.tags()}
    names = _listed(call.values["tag"], known)
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidArgument(
            f"there is no tag {missing[0]!r}", next_step=f"the tags are: {', '.join(sorted(known)) or 'none'}"
        )
    for name in names:
        table.delete_tag(name)
    return DONE


def expire_tags(call: Call) -> Rows:
    done = call.table.table.expire_tags(older_than=_moment(call, "older_than"))
    return [(tag.name,) for tag in done.tags] or [("No expired tags.",)]


def trigger_tag_automatic_creation(call: Call) -> Rows:
    call.table.table.auto_tag()
    return DONE


# ------------------------------------------------------------------------------------------------------------- branches


def create_branch(call: Call) -> Rows:
    ignored = str(call.values["ignoreIfExists"]).lower() == "true"
    try:
        call.table.table.create_branch(call.values["branch"], tag=call.text("tag"))
    except TableExists:
        if not ignored:
            raise
    return DONE


def delete_branch(call: Call) -> Rows:
    table = call.table.table
    known = table.branches()
    names = _listed(call.values["branch"], known)
    missing = [name for name in names if name not in known]
    if missing:
        told = ", ".join(sorted(known)) or "none"
        raise InvalidArgument(f"there is no branch {missing[0]!r}", next_step=f"the branches are: {told}")
    for name in names:
        table.delete_branch(name)
    return DONE


def rename_branch(call: Call) -> Rows:
    call.table.table.rename_branch(call.values["from_branch"], call.values["to_branch"])
    return DONE


def fast_forward(call: Call) -> Rows:
    call.table.table.fast_forward(call.values["branch"])
    return DONE


# ------------------------------------------------------------------------------------------------------------ consumers


def reset_consumer(call: Call) -> Rows:
    name, following = call.values["consumerId"], call.values["nextSnapshotId"]
    if following is None:
        return [(call.table.table.delete_consumer(name),)]
    call.table.table.set_consumer(name, following)
    return DONE


def clear_consumers(call: Call) -> Rows:
    wanted, spared = _pattern(call, "includingConsumers"), _pattern(call, "excludingConsumers")
    table = call.table.table
    for consumer in table.consumers():
        named = wanted is None or wanted.fullmatch(consumer.name)
        if named and not (spared is not None and spared.fullmatch(consumer.name)):
            table.delete_consumer(consumer.name)
    return DONE


def _pattern(call: Call, name: str) -> re.Pattern[str] | None:
    return pattern_of(call.text(name), name)


def pattern_of(text: str | None, name: str) -> re.Pattern[str] | None:
    """A regular expression that a whole name must fit; None for none."""
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"{name} => {text!r} is no regular expression: {error}") from None
