"""The methods of `Table` for consumers: which there are, setting, deleting and expiring them.

Owns: these methods. Must not know: how consumers are stored, how changes are read. Source: format/snapshot §5; decision 56.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from ...coordinator.surroundings import MACHINE
from ...core import options as opt
from ...core.arguments import whole_number
from ...core.errors import InvalidArgument
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.maintenance.expiry.consumers import Consumer


class Consumers(OpenTable):
    """The methods of `Table` for consumers."""

    def consumers(self) -> list[Consumer]:
        """The consumers of this branch, by name: readers of changes, and the snapshot that each reads next.

        Expiry keeps all snapshots from the smallest of these on.

        Raises:
            TableCorrupt: a consumer's file cannot be read; names it.
        """
        from ...coordinator.maintenance.expiry.consumers import list_consumers

        return list_consumers(self.timeline)

    def set_consumer(self, name: str, next_snapshot: int | Literal["earliest", "latest"]) -> Consumer:
        """Create a consumer, or let it go on from another snapshot. Expiry keeps that snapshot and all later ones for it.

        Args:
            name: the id that the reader uses.
            next_snapshot: the id of the snapshot whose changes it reads next; "earliest" for the oldest that are still there,
                "latest" for those of the next commit.

        Raises:
            InvalidArgument: the changes of that snapshot have expired, or the name cannot be a file's.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://consumers-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipt = table.append(pa.table({"v": [1]}))
        >>> table.set_consumer("etl", 1).next_snapshot, [c.name for c in table.consumers()], table.delete_consumer("etl")
        (1, ['etl'], True)
        """
        from ...coordinator.maintenance.expiry.consumers import place_consumer

        self._check_not_pinned()
        place_consumer(self.timeline, name, self._next_of(next_snapshot))
        return next(consumer for consumer in self.consumers() if consumer.name == name)

    def _next_of(self, wanted: int | str) -> int:
        from ...coordinator.maintenance.expiry.consumers import oldest_change

        if wanted == "earliest":
            return oldest_change(self.timeline) or 1
        if wanted == "latest":
            newest = self.timeline.latest()
            return 1 if newest is None else newest.id + 1
        if isinstance(wanted, str):
            raise InvalidArgument(
                f"next_snapshot {wanted!r} is not an id", next_step="give an id, 'earliest' or 'latest'"
            )
        return whole_number(wanted, "next_snapshot", 1)

    def delete_consumer(self, name: str) -> bool:
        """Delete a consumer, so that it holds no snapshot back any more. Returns False if there was none."""
        from ...coordinator.maintenance.expiry.consumers import remove_consumer

        self._check_not_pinned()
        return remove_consumer(self.timeline, name)

    def expire_consumers(
        self, *, older_than: str | int | datetime | None = None, dry_run: bool = False
    ) -> list[Consumer]:
        """Delete the consumers that have not moved for a long time, so that they hold no snapshot back any more.

        Args:
            older_than: those that moved last before this, by the store's clock: how long ago (`7 d`), ISO text with a zone,
                milliseconds since 1970, or a datetime. By default as long ago as option `consumer.expiration-time` says;
                without it nothing is deleted.
            dry_run: delete nothing.

        Returns:
            The consumers that were deleted, or with `dry_run` would be.
        """
        from ...coordinator.maintenance.expiry.consumers import expire_consumers, expired_consumers
        from ...coordinator.maintenance.orphans import store_clock_ms
        from ..travel import older_than_millis

        self._check_not_pinned()
        if older_than is not None:
            until_ms = older_than_millis(older_than, MACHINE.wall_ms)
        else:
            idle_ms = self.timeline.latest_schema().options.get(opt.CONSUMER_EXPIRATION)
            if idle_ms is None or not self.consumers():
                return []
            until_ms = store_clock_ms(self.store, MACHINE.new_uuid().hex) - idle_ms
        gone = expired_consumers(self.timeline, until_ms)
        return gone if dry_run else expire_consumers(self.timeline, gone)
