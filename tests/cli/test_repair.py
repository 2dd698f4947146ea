"""`repair`: the plan, what needs --accept-loss, and tables that cannot be opened."""

from __future__ import annotations

from typing import Any

import damage
from planted import Planted

import lakelatch as ll


def test_a_plan_then_its_steps(run: Any, flights: ll.Table) -> None:
    sound = run("repair", flights.url)
    assert (sound.code, sound.out) == (0, "nothing to repair\n")
    planted = Planted(flights)
    damage.missing_data_file(planted)
    damage.high_hint(planted)
    shown = run("repair", flights.url)
    assert shown.code == 1
    assert shown.out.startswith("1. write 3 into snapshot/LATEST, which says '12'\n2. take 1 files that cannot be read")
    assert "month=1: 2 rows in 1 files" in shown.out
    assert "nothing was changed" in shown.err
    assert run("repair", flights.url, "--accept-loss").code == 2
    done = run("repair", flights.url, "--apply")
    assert done.code == 1
    assert "1 of 2 steps were carried out; 1 need --accept-loss; 1 errors are left in the newest state" in done.err
    told = run("repair", flights.url, "--apply", "--accept-loss", "--json").json
    assert (told["applied"], told["done"], told["errors_left"]) == (True, [0], 0)
    assert told["steps"][0]["gives_up"] == "2 rows"
    assert flights.to_arrow().num_rows == 3


def test_a_table_that_cannot_be_opened(run: Any, flights: ll.Table) -> None:
    damage.empty_snapshot(Planted(flights))
    assert run("read", flights.url).code != 0
    assert run("repair", flights.url, "--apply", "--accept-loss").code == 0
    assert run("read", flights.url, "--json").code == 0
    assert run("repair", flights.url + "-not-there").code == 2
