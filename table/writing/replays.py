"""A commit that is repeated under its identity, with rows that are evidently others.

Owns: `check_replay`. Must not know: how an identity is looked up. Source: decision 90.
"""

from __future__ import annotations

import logging

from ...coordinator.commit.receipt import Receipt
from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.metadata.schema import TableSchema

_LOG = logging.getLogger("lakelatch")


def check_replay(
    first: Receipt, schema: TableSchema, kind: str, rows: int | None, partitions: tuple[str, ...] | None
) -> None:
    """Compare a commit that was not made, because its identity has landed, with what has landed.

    Args:
        rows: the number of rows that it would have appended; None if it is not known without reading them.
        partitions: the paths of those that it names to be replaced; None for those that its rows are in.

    Raises:
        InvalidArgument: they differ, and the table's option `commit.replay` says `error`.
    """
    known = first.rows is not None or first.kind != "APPEND"
    if not known or first.kind not in ("APPEND", "OVERWRITE"):
        return
    if first.kind != kind:
        told = f"was {first.kind}, and this is {kind}"
    elif rows is not None and first.rows is not None and rows != first.rows and not schema.primary_keys:
        told = f"appended {first.rows} rows, and these are {rows}"
    elif first.partitions is not None and partitions != first.partitions:
        told = f"replaced {_named(first.partitions)}, and this replaces {_named(partitions)}"
    else:
        return
    text = f"{first.commit_user}/{first.identifier} had landed before and {told}: nothing was written now; first receipt: {first}"
    if schema.options.get(opt.COMMIT_REPLAY) == opt.REPLAY_REFUSES:
        raise InvalidArgument(text, next_step="give other rows an identifier of their own")
    _LOG.warning("%s", text)


def _named(partitions: tuple[str, ...] | None) -> str:
    if partitions is None:
        return "the partitions of its rows"
    return ", ".join(path or "the whole table" for path in partitions)
