"""What is asked of a write of a DataFrame, as one value, whichever way it was asked.

Owns: `Asked`, and the check that its parts fit each other. Must not know: how a frame is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from ...coordinator.commit.request import Grouping, Isolation
from ...core.errors import InvalidArgument
from ...core.paths import DEFAULT_BRANCH
from ...core.rows.partition import closest

Mode = Literal["append", "overwrite", "overwrite-partitions"]
Cluster = Literal["auto", "none"]
_MODES = ("append", "overwrite", "overwrite-partitions")
_OF_COMMIT = ("commit_user", "identifier", "isolation", "properties", "group", "in_order", "query")


@dataclass(frozen=True)
class Asked:
    """What is asked of a write. The attributes are the arguments of `lakelatch.spark.write`, and two that only streams have.

    Attributes:
        in_order: the identity is that of a batch: one below the last of its user is refused.
        query: the id of the stream's query, where the commit user is another name; empty where it is not known.
    """

    url: str
    mode: Mode = "append"
    partition: Mapping[str, Any] | None = None
    commit_user: str | None = None
    identifier: int | None = None
    isolation: Isolation = "snapshot"
    read_snapshot: int | None = None
    properties: Mapping[str, str] | None = None
    storage_options: Mapping[str, Any] | None = None
    partition_by: Sequence[str] | str | None = None
    primary_key: Sequence[str] | str | None = None
    options: Mapping[str, Any] | None = None
    allow_unknown: bool = False
    evolve: bool = False
    cluster: Cluster = "auto"
    row_kind: str | None = None
    branch: str = DEFAULT_BRANCH
    group: Grouping | None = None
    in_order: bool = False
    query: str = ""

    @property
    def of_commit(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _OF_COMMIT}

    def check(self, df: Any) -> None:
        """Refuse what does not fit (`InvalidArgument`, which names the argument), or a `df` that is no frame of Spark."""
        if not hasattr(df, "mapInArrow"):
            kind = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}"
            raise InvalidArgument(
                f"df is a {kind}, and lakelatch.spark.write takes a DataFrame of Spark",
                next_step="write it without Spark, with lakelatch.open_table(url).append(df), or pass"
                " spark.createDataFrame(df)",
            )
        if self.cluster not in ("auto", "none"):
            raise InvalidArgument(f"cluster {self.cluster!r}: use auto or none")
        if self.mode not in _MODES:
            raise InvalidArgument(f"mode {self.mode!r}: use one of {', '.join(_MODES)}")
        if self.partition is not None and self.mode != "overwrite":
            raise InvalidArgument("partition= goes with mode='overwrite' only")
        if self.read_snapshot is not None and self.mode == "append":
            raise InvalidArgument("read_snapshot= goes with an overwrite only")
        if self.row_kind is not None and self.mode != "append":
            raise InvalidArgument("row_kind= goes with mode='append' only: an overwrite has nothing to delete by key")


ARGUMENTS = frozenset(field.name for field in fields(Asked)) - {"in_order", "query"}
"""The arguments that users may give."""


def check_arguments(given: Mapping[str, Any], what: str, own: Collection[str]) -> None:
    """Refuse arguments of `what` that nobody knows, or that it sets by itself, before rows come."""
    for name in given:
        if name in own:
            raise InvalidArgument(f"{what} sets {name} itself", next_step="leave it out")
        if name not in ARGUMENTS:
            raise InvalidArgument(
                f"{what} has no argument '{name}'", next_step=closest(name, sorted(ARGUMENTS - set(own)))
            )
