"""`alter` shows the difference first and makes one new schema with --apply, also in JSON."""

from __future__ import annotations

from typing import Any

import pytest

import lakelatch as ll
from lakelatch.core.rows.types import sql


def test_alter_shows_first_and_changes_with_apply(run: Any, flights: ll.Table) -> None:
    """All changes of a run become one schema, in the order in which they are given."""
    before = flights.schema
    words = ("alter", flights.url, "--add-column", "late:ARRAY<INT>", "--rename", "late=delays",
             "--rename", "carrier=airline", "--column-comment", "airline=who flies", "--default", "airline=AA",
             "--set", "target-file-size=256 mb", "--comment", "all flights", "--move", "delays=first")  # fmt: skip
    shown = run(*words)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines() == [
        "column name carrier: carrier -> airline",
        "column comment carrier: none -> who flies",
        "column default carrier: none -> AA",
        "added column delays: ARRAY<INT>",
        "option target-file-size: none -> 256 mb",
        "table comment: none -> all flights",
    ]
    assert "use --apply to make this schema 1" in shown.err
    assert ll.open_table(flights.url).schema == before
    planned = run(*words, "--json").json
    assert (planned["applied"], planned["before"], planned["schema_id"]) == (False, 0, 1)
    done = run(*words, "--apply", "--json").json
    assert {**done, "time_ms": 0, "applied": False} == {**planned, "time_ms": 0}
    after = ll.open_table(flights.url)
    assert after.schema.id == 1
    assert next(iter(after.schema.by_name)) == "delays" and sql(after.schema.by_name["delays"].type) == "ARRAY<INT>"
    assert (after.schema.comment, after.options["target-file-size"]) == ("all flights", "256 mb")
    assert after.to_arrow(columns=["airline"]).num_rows == flights.count()


def test_every_change_can_be_taken_back(run: Any, flights: ll.Table) -> None:
    url = flights.url
    done = run("alter", url, "--add-column", "n:INT", "--add-column", "st:ROW<a INT>", "--set", "target-file-size=1 gb",
               "--comment", "x", "--default", "n=1", "--column-comment", "n=y", "--apply")  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"{url}: schema 1"
    done = run("alter", url, "--type", "n:BIGINT", "--add-column", "st.b:STRING", "--drop", "st.a", "--unset",
               "target-file-size", "--comment", "", "--default", "n=", "--column-comment", "n=",
               "--move", "n=before:month", "--apply", "--json")  # fmt: skip
    assert done.code == 0, done.err
    schema = ll.open_table(url).schema
    field = schema.by_name["n"]
    assert (sql(field.type), field.description, field.default_value) == ("BIGINT", None, None)
    assert sql(schema.by_name["st"].type) == "ROW<b STRING>"
    assert "target-file-size" not in schema.option_texts and not schema.comment
    names = list(schema.by_name)
    assert names.index("n") == names.index("month") - 1
    kinds = {change["what"] for change in done.json["changes"]}
    assert kinds == {
        "column type", "column comment", "column default", "added column", "dropped column", "option", "column order",
        "table comment",
    }  # fmt: skip
    assert run("alter", url, "--move", "n=last", "--nullable", "n", "--drop", "st", "--apply").code == 0
    assert list(ll.open_table(url).schema.by_name)[-1] == "n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no change is given"),
        (["--add-column", "x"], "--add-column 'x' is not NAME:TYPE"),
        (["--add-column", "x:INTS"], "column 'x': unknown type 'INTS'"),
        (["--rename", "carrier"], "--rename 'carrier' is not OLD=NEW"),
        (["--rename", "carier=x"], "there is no column 'carier'"),
        (["--rename", "month=x"], "partition column 'month' cannot be renamed"),
        (["--drop", "month"], "part of the partition key"),
        (["--move", "carrier=up"], "'up' is no place"),
        (["--set", "bucket=4"], "option 'bucket' cannot change"),
        (["--not-null", "carrier"], "may already have nulls"),
        (["--type", "carrier:INT"], "which is no INT, so every read of it would fail"),
        (["--type", "carrier:INT"], "--force"),
        (["--set", "snapshot.time-retaned=1 h"], "did you mean 'snapshot.time-retained'?"),
        (["--set", "team.owner=air"], "--allow-unknown"),
        (["--add-column", "x:INT", "--drop", "y"], "there is no column 'y'"),
    ],
)
def test_what_is_refused_changes_nothing(run: Any, flights: ll.Table, words: list[str], said: str) -> None:
    """The same answer with and without --apply."""
    for apply in ([], ["--apply"]):
        answer = run("alter", flights.url, *words, *apply)
        assert answer.code == 2, answer
        assert said in answer.err
    assert ll.open_table(flights.url).schemas() == flights.schemas()


def test_force_and_unknown_options_are_said_in_so_many_words(run: Any, flights: ll.Table) -> None:
    words = ("--type", "carrier:INT", "--force", "--set", "team.owner=air", "--allow-unknown", "--apply")
    done = run("alter", flights.url, *words)
    assert done.code == 0, done.err
    after = ll.open_table(flights.url)
    assert (sql(after.schema.by_name["carrier"].type), after.options["team.owner"]) == ("INT", "air")
