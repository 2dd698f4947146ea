"""`consumer`: list, set, reset, delete and expire, as text and as JSON."""

from __future__ import annotations

from typing import Any

import lakelatch as ll


def test_consumers_from_the_shell(run: Any, flights: ll.Table) -> None:
    assert run("consumer", flights.url, "--json").out == ""
    made = run("consumer", flights.url, "set", "etl", "--next", 2, "--json").json
    assert (made["consumer"], made["next_snapshot"]) == ("etl", 2) and made["modified_ms"] > 0
    assert run("consumer", flights.url, "reset", "etl", "--latest", "--json").json["next_snapshot"] == 4
    assert run("consumer", flights.url, "reset", "etl", "--json").json["next_snapshot"] == 1
    shown = run("consumer", flights.url).out.splitlines()
    assert shown[0].split() == ["consumer", "next_snapshot", "moved"] and shown[1].split()[:2] == ["etl", "1"]
    assert run("expire", flights.url, "--retain-max", 1, "--json").json["held_by_consumer"] == "etl"
    planned = run("consumer", flights.url, "expire", "--older-than", 2**45)
    assert "etl" in planned.out and "--apply" in planned.err
    assert run("consumer", flights.url, "list", "--json").json["consumer"] == "etl"
    done = run("consumer", flights.url, "expire", "--older-than", 2**45, "--apply", "--json").json
    assert (done["consumer"], done["applied"]) == ("etl", True)
    assert run("consumer", flights.url, "delete", "etl").code == 1
    run("consumer", flights.url, "set", "etl", "--next", 2)
    assert run("consumer", flights.url, "delete", "etl", "--json").json == {"consumer": "etl", "deleted": True}


def test_what_a_consumer_command_lacks_is_said(run: Any, flights: ll.Table) -> None:
    assert run("consumer", flights.url, "set", "etl").code == 2
    assert "--next" in run("consumer", flights.url, "set", "etl").err
    assert run("consumer", flights.url, "delete").code == 2
    assert run("consumer", flights.url, "set", "a/b", "--next", 1).code == 2


def test_the_url_and_the_action_may_change_places(run: Any, flights: ll.Table) -> None:
    """All commands take the URL first; those with commands of their own take it after these, too."""
    run("tag", flights.url, "create", "first", "--snapshot", 1)
    run("tag", "create", flights.url, "second", "--snapshot", 2)
    assert [row["tag"] for row in run("tag", flights.url, "list", "--json").lines] == ["first", "second"]
    run("consumer", "set", flights.url, "etl", "--next", 2)
    for words in (("consumer", flights.url, "list"), ("consumer", "list", flights.url), ("consumer", flights.url)):
        assert run(*words, "--json").json["consumer"] == "etl"
    run("branch", flights.url, "create", "dev")
    assert run("branch", "list", flights.url, "--json").json["branch"] == "dev"
