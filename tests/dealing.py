"""Deals test files to the processes of a run, so that what takes long to start does not start in each of them.

Owns: which process gets the next file. Must not know: what tests do with what they start.
A Spark session costs half a minute of CPU until it is warm, a JVM with Apache Paimon a quarter. The process that got the
first file of such a room gets the others too; another takes one of them only when nothing else is left.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling

STARTED_FOR = ("tests/spark/", "tests/interop/", "tests/contract/")
"""Rooms whose tests share what takes long to start. They begin early: the last files of a run are short ones."""


def room(file: str) -> str | None:
    """The room that a file belongs to, if it is one of those."""
    return next((folder for folder in STARTED_FOR if file.startswith(folder)), None)


class Dealer(LoadFileScheduling):  # type: ignore[misc]
    """Hands out whole files, in their order but for rooms that a process has begun."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._begun_by: dict[str, Any] = {}

    def remove_node(self, node: Any) -> Any:
        """Forget a process that has ended: its rooms are free again."""
        self._begun_by = {folder: by for folder, by in self._begun_by.items() if by is not node}
        return super().remove_node(node)

    def _assign_work_unit(self, node: Any) -> None:
        file = min(self.workqueue, key=lambda waiting: self._rank(waiting, node))
        begun = room(file)
        if begun is not None:
            self._begun_by.setdefault(begun, node)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _rank(self, file: str, node: Any) -> int:
        """Files of rooms that this process has begun, files of no other process's room, others."""
        by = self._begun_by.get(room(file) or "")
        return 0 if by is node else 1 if by is None else 2
