"""A job asks whether its identity has landed before it does its work: what it is told, and what it must not go on with."""

from __future__ import annotations

import pytest
from steps import World

from lakelatch.core.errors import InvalidArgument


def test_where_identifiers_come_in_order_one_below_the_last_is_refused() -> None:
    """Its batch came too late, or another job uses the same commit user. Elsewhere they may land in any order."""
    world = World(0)
    world.append("a", identifier=3)
    asked = world.another()
    with pytest.raises(InvalidArgument, match="identifier 2 of 'etl' is not above 3"):
        asked.lookup("etl", 2, in_order=True)
    assert asked.lookup("etl", 2) is None
    assert asked.lookup("etl", 4, in_order=True) is None
    assert asked.lookup("other", 2, in_order=True) is None, "nothing of this user has landed"
    again = asked.lookup("etl", 3, in_order=True)
    assert again is not None and again.snapshot_id == 1


def test_the_identifiers_of_another_query_are_refused() -> None:
    """Two streams must not take each other's batches for their own."""
    world = World(0)
    world.append("a", identifier=3, query="stream-1")
    asked = world.another()
    found = asked.lookup("etl", 3, query="stream-1")
    assert found is not None and found.replayed
    with pytest.raises(InvalidArgument, match="stream-1"):
        asked.lookup("etl", 3, query="stream-2")
    with pytest.raises(InvalidArgument, match="stream-1"):
        asked.lookup("etl", 4, query="stream-2")


def test_a_batch_of_another_query_is_refused_at_its_commit_too() -> None:
    """The other query's first batch may land after the look-up."""
    world = World(0)
    assert world.committer.lookup("etl", 4, query="stream-2") is None
    world.append("a", world.another(), identifier=3, query="stream-1")
    with pytest.raises(InvalidArgument, match="stream-1"):
        world.append("b", identifier=4, query="stream-2")
    world.append("c", identifier=4, query="stream-1")
    assert world.committer.lookup("etl", 4, query="stream-1") is not None


def test_a_lookup_alone_leaves_nothing_for_the_next_commit() -> None:
    """Others may commit for hours before it does; only who commits at once builds on the snapshot that was found."""
    world = World(1)
    for commits_next, looks in ((True, False), (False, True)):
        asked = world.another()
        assert asked.lookup("etl", 9, commits_next=commits_next) is None
        assert (asked._knows.newest.get() is None) is looks
