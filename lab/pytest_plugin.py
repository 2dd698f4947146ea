"""Pytest fixtures for users who test their own jobs: `faulty_store`, `contended_table`, `replayed_batch`.

Owns: the fixtures, and the check that every planned fault has happened. Must not know: how faults are made.
If installed, pytest loads it by itself (entry point group `pytest11`); in a checkout: `pytest -p lakelatch.lab.pytest_plugin`.
Every run of pytest imports this module, so it imports nothing heavy. Source: docs/testing-your-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest

if TYPE_CHECKING:
    from .troubled_tables import ContendedTable, FaultyStore, ReplayedBatch

_PASSED: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Which tests have passed so far, until their fixtures are taken down."""


# The older form of a wrapper, and no stash: this module is imported in every run, also by a pytest of years ago.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, None]:
    report = (yield).get_result()
    if report.when == "call":
        _PASSED[item] = report.passed


@pytest.fixture
def faulty_store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[FaultyStore]:
    """Tables on a store that fails on request: lost answers, killed processes, 503, delays, stale listings.

    `url = faulty_store.create(rows)` makes a table with the columns of these rows. `faulty_store.lose_answer()`,
    `.kill_before_commit()`, `.kill_after_commit()` and `.rough(seed=7, lost=0.1)` plan faults. Give the URL to the job, and
    then call `faulty_store.assert_once(rows)`. When the test ends, every planned fault must have happened.
    """
    from .troubled_tables import FaultyStore

    store = FaultyStore(tmp_path_factory.mktemp("lakelatch-faulty"))
    yield store
    if _PASSED.get(request.node, False):
        store.assert_struck()


@pytest.fixture
def contended_table(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ContendedTable]:
    """A table on which another writer commits at the very moments at which the job commits.

    Call `table = contended_table(rows, rival=rows_of_another, times=2)`, give `table.url()` to the job, and then call
    `table.assert_rivals_survive()`. `url=` and `storage_options=` put the table on a store of yours. Other arguments are
    passed to `lakelatch.create_table` (partition_by, options).
    """
    from .troubled_tables import ContendedTable

    def make(rows: Any, rival: Any, **arguments: Any) -> ContendedTable:
        return ContendedTable(tmp_path_factory.mktemp("lakelatch-contended"), rows, rival, **arguments)

    return make


@pytest.fixture
def replayed_batch(tmp_path_factory: pytest.TempPathFactory) -> ReplayedBatch:
    """Runs a `foreachBatch` function as Spark may: killed before and after its commit, again, once more, the next batch.

    `url = replayed_batch.create(batch)` makes a table with the columns of the batch. `replayed_batch(write_batch, batch)` fails
    unless the batch's rows are in the table once. `write_batch` takes (batch, batch id) and writes to that URL.
    """
    from .troubled_tables import ReplayedBatch

    return ReplayedBatch(tmp_path_factory.mktemp("lakelatch-replayed"))
