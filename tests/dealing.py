"""Deals test files to the processes of a run, so that what takes long to start does not start in each of them.

Owns: which process gets the next file. Must not know: what tests do with what they start.
A Spark session costs half a minute of CPU until it is warm, an HDFS ten seconds. The process that got the first file that
needs such a thing gets the others too; another takes one of them only when nothing else is left.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling

STARTED_FOR = {
    "tests/interop/test_connector_upserts.py": "Spark",
    "tests/docs/test_system_tables_page.py": "Spark",
    "tests/docs/test_streams_page.py": "Spark",
    "tests/spark/": "Spark",
    "tests/interop/": "Apache Paimon",
    "tests/contract/": "stores",
    "tests/contention/": "stores",
    "tests/docs/test_stores_pages.py": "stores",
}
"""What takes long to start, by how the names of the files that share it begin; the first that fits counts. These files come
early: the last ones of a run are short."""


def shared(file: str) -> str | None:
    """What takes long to start for a file, if anything does."""
    return next((what for begins, what in STARTED_FOR.items() if file.startswith(begins)), None)


class Dealer(LoadFileScheduling):  # type: ignore[misc]
    """Hands out whole files, in their order but for those that share what a process has started."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._started_by: dict[str, Any] = {}

    def remove_node(self, node: Any) -> Any:
        """Forget a process that has ended: another may start what it had, and does the tests that it had left. The test that
        ended it has failed, and is not given to another."""
        self._started_by = {what: by for what, by in self._started_by.items() if by is not node}
        files = self.assigned_work.pop(node)
        left = [(file, test) for file, tests in files.items() for test, is_done in tests.items() if not is_done]
        if not left:
            return None
        file, fatal = left[0]
        files[file][fatal] = True
        self.workqueue.update({file: tests for file, tests in files.items() if not all(tests.values())})
        for other in self.nodes:
            self._reschedule(other)
        return fatal

    def _reschedule(self, node: Any) -> None:
        """Give a process more, but for one that is still collecting. A process begins a test only when it knows the next one, or
        that there is none."""
        if node in self.registered_collections:
            super()._reschedule(node)
            if self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        file = min(self.workqueue, key=lambda waiting: self._rank(waiting, node))
        what = shared(file)
        if what is not None:
            self._started_by.setdefault(what, node)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _rank(self, file: str, node: Any) -> int:
        """Files that share what this process has started, files for which no other has, the others."""
        by = self._started_by.get(shared(file) or "")
        return 0 if by is node else 1 if by is None else 2
