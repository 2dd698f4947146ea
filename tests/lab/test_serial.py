"""The search for a serial order, and seeded histories that it judges."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import permutations

import pytest

from lakelatch.lab.actors.undoing import UNDOS
from lakelatch.lab.bugs.clones import CLONES
from lakelatch.lab.bugs.keys import KEYS
from lakelatch.lab.judging.contradictions import contradiction
from lakelatch.lab.judging.serial import Op, State, Undecided, closest_before, kept_by, order_of
from lakelatch.lab.seeded.histories import run_history

SEEDS = 2_000 if os.environ.get("LAKELATCH_NIGHTLY") else 40


def ops(*said: tuple[str, str] | tuple[str, str, str]) -> list[Op]:
    return [
        Op(name, tuple(puts.split()), frozenset(*[after[0].split()] if after else [])) for name, puts, *after in said
    ]


def test_a_change_shows_what_it_has_read() -> None:
    """Key 1 of A; the change lost what B wrote, in whichever order the two were."""
    history = ops(("A", "1"), ("B", "1", "A"), ("M", "+1", "A"))
    assert order_of(history, {"1": "M_B"}) == ("A", "B", "M")
    assert order_of(history, {"1": "B"}) == ("A", "M", "B")
    assert order_of(history, {"1": "M_A"}) is None


def test_an_order_respects_the_time() -> None:
    assert order_of(ops(("A", "1"), ("B", "1")), {"1": "A"}) == ("B", "A")
    assert order_of(ops(("A", "1"), ("B", "1", "A")), {"1": "A"}) is None


def test_all_rows_go_at_once() -> None:
    history = ops(("A", "1 2"), ("D", "* 2", "A"), ("B", "1 3"))
    assert order_of(history, {"1": "B", "2": "D", "3": "B"}) == ("A", "D", "B")
    assert order_of(history, {"2": "D"}) == ("A", "B", "D") or order_of(history, {"2": "D"}) == ("B", "A", "D")
    assert order_of(history, {"1": "B", "2": "D"}) is None, "of B's rows one is there"


def test_a_change_of_a_key_that_is_not_there_changes_nothing() -> None:
    assert order_of(ops(("D", "-1"), ("M", "+1")), {}) == ("D", "M")
    history = [Op("A", ("1",)), Op("M", ("+1",), found={"1": ""})]
    assert order_of(history, {"1": "A"}) == ("M", "A")
    assert order_of(history, {"1": "M_A"}) is None


def test_a_rollback_brings_values_back() -> None:
    history = [*ops(("A", "1"), ("B", "1 2", "A")), Op("R", (), frozenset("AB"), keeps=frozenset("A"))]
    assert order_of(history, {"1": "A"}) == ("A", "B", "R")
    assert order_of(history, {"1": "A", "2": "B"}) is None
    later = Op("C", ("2",), frozenset("R"))
    assert order_of([*history, later], {"1": "A", "2": "C"}) == ("A", "B", "R", "C")


def test_an_undo_takes_one_commit_back_and_leaves_the_others() -> None:
    history = [*ops(("A", "1"), ("M", "+1 2", "A"), ("B", "3", "A")), Op("U", (), frozenset("M"), undoes="M")]
    assert order_of(history, {"1": "A", "3": "B"}) is not None
    assert order_of(history, {"1": "A"}) is None, "what rode with it is gone"
    assert order_of(history, {"1": "M_A", "3": "B"}) is None
    over = [*ops(("A", "1"), ("D", "* 2", "A"), ("B", "2", "D")), Op("U", (), frozenset("DB"), undoes="D")]
    assert order_of(over, {"1": "A", "2": "B"}) == ("A", "D", "B", "U")
    assert order_of(over, {"2": "B"}) is None
    told = contradiction(over, {"2": "B"})
    assert [line.strip() for line in told.splitlines()] == [
        "no serial order of 3 commits leaves no rows:",
        "A: 1",
        "D: *, after A",
        "U: undo of D, after D",
    ]


def test_what_counts_after_each_commit() -> None:
    """C takes A back; R goes back to the snapshot of B, and E to the empty table."""
    done = [("A", "", -1), ("B", "", -1), ("C", "A", -1), ("R", "", 1), ("E", "", -2)]
    assert [" ".join(sorted(kept)) for kept in kept_by(done)] == ["A", "A B", "B C", "A B", ""]
    beside = {"R": frozenset("X")}
    more = [*done[:3], ("X", "", -1), ("R", "", 0), ("S", "", 4)]
    assert [" ".join(sorted(kept)) for kept in kept_by(more, beside)][3:] == ["B C X", "A X", "A X"]


def test_a_long_history_is_judged_by_the_order_of_its_snapshots() -> None:
    """Each commit comes as much earlier as its snapshot shows: 400 jobs at once, whose older rows land later."""
    dice, history, number = random.Random(3), list[Op](), dict[str, int]()
    newest: dict[str, str] = {}
    for n in range(400):
        name, keys = f"A{n}", dice.sample("123", dice.choice((1, 2)))
        number[name] = n - dice.choice((0, 0, 5))
        newest |= {key: name for key in keys if number[name] >= number.get(newest.get(key, ""), 0)}
        history.append(Op(name, tuple(keys), shows=dict(newest)))
    assert len(order_of(history, newest) or ()) == 400


def test_a_contradiction_of_several_keys_is_found_near_the_commit_that_has_no_place() -> None:
    """U has a row of key 1 that is older than that of V, and one of key 2, which Z, after V, did not find."""
    history = [Op(f"E{n}", ("1", "2"), shows={"1": f"E{n}", "2": f"E{n}"}) for n in range(2_000)]
    history += [
        Op("D", ("-2",), shows={"1": "E1999", "2": ""}),
        Op("V", ("1",), frozenset("D"), shows={"1": "V", "2": ""}),
        Op("Z", ("+2",), frozenset({"D", "V"}), found={"2": ""}, shows={"1": "V", "2": ""}),
        Op("U", ("1", "2"), frozenset("D"), shows={"1": "V", "2": "U"}),
    ]
    told = contradiction(history, {"1": "V", "2": "U"})
    assert told.splitlines()[0] == "no serial order of 5 commits leaves 1 = V, 2 = U:"
    history[-1] = replace(history[-1], puts=("2",))
    assert contradiction(history, {"1": "V", "2": "U"}) == ""


def test_a_key_that_was_not_shown_before_is_no_contradiction() -> None:
    """U, whose snapshot shows another commit, is older than V; N writes a key of its own."""
    history = [Op(f"E{n}", ("1", "2"), shows={"1": f"E{n}", "2": f"E{n}"}) for n in range(40)]
    history += [
        Op("V", ("1",), frozenset({"E39"}), shows={"1": "V", "2": "E39"}),
        Op("U", ("1",), frozenset({"E39"})),
        Op("N", ("9",), frozenset({"V"}), shows={"1": "V", "2": "E39"}),
    ]
    assert contradiction(history, {"1": "V", "2": "E39", "9": "N"}) == ""


def test_commits_that_show_nothing_are_no_contradiction_where_an_order_explains_them() -> None:
    """Q and R come long before the snapshot in which L carries them: what was shown right before it is not what Q has read."""
    history = [
        Op(f"E{n}", ("1", "2"), frozenset({f"E{n - 1}"} if n else ()), shows={"1": f"E{n}", "2": f"E{n}"})
        for n in range(10)
    ]
    carried = [
        Op("Q", ("+2",), frozenset({"E1"}), found={"2": "E2"}),
        Op("R", ("1",), frozenset({"E1"})),
        Op("L", ("3",), frozenset({"E9"}), shows={"1": "E9", "2": "E9", "3": "L"}),
    ]
    left = {"1": "E9", "2": "E9", "3": "L"}
    assert contradiction([*history, *carried], left) == ""
    lost = replace(carried[0], after=frozenset({"E3"}))
    assert contradiction([*history, lost, *carried[1:]], left) != ""


def test_a_contradiction_in_a_long_history_is_found_near_the_commit_that_has_no_place() -> None:
    """All at once, so that there are very many orders; M and N have both changed what one commit wrote."""
    before = [Op(f"A{n}", ("1", f"{n % 3 + 2}"), shows={"1": f"A{n}"}) for n in range(150)]
    lost = [
        Op("M", ("+1",), found={"1": "A149"}, shows={"1": "M_A149"}),
        Op("N", ("+1",), found={"1": "A149"}, shows={"1": "N_A149"}),
    ]
    later = [Op(f"B{n}", ("1", f"{n % 3 + 2}"), shows={"1": f"B{n}"}) for n in range(150)]
    left = {"1": "B149", "2": "B147", "3": "B148", "4": "B149"}
    told = contradiction([*before, *lost, *later], left)
    assert [line.strip() for line in told.splitlines()] == [
        "no serial order of 4 commits leaves 1 = N_A149:",
        "earlier: =1:A147",
        "A149: 1",
        "M: +1, found key 1 of A149",
        "N: +1, found key 1 of A149",
    ]


def test_a_deletion_that_explains_what_is_missing_stays_in_what_is_told() -> None:
    told = contradiction(ops(("D", "-1"), ("A", "1", "D")), {})
    assert [line.strip() for line in told.splitlines()[1:]] == ["D: -1", "A: 1, after D"]


def test_the_search_finds_what_trying_all_orders_finds() -> None:
    dice, found = random.Random(1), set[bool]()
    for _ in range(400):
        history = [
            Op(name, tuple(dice.choice(("", "", "+", "-")) + key for key in dice.sample("12", dice.choice((1, 2)))))
            for name in "ABCD"
        ]
        names = [op.commit for op in history]
        later = [frozenset(name for name in names[:n] if dice.random() < 0.3) for n in range(len(names))]
        history = [replace(op, after=after) for op, after in zip(history, later, strict=True)]
        outcomes = []
        for order in permutations(history):
            if all(o.after <= {p.commit for p in order[:n]} for n, o in enumerate(order)):
                state = State()
                for o in order:
                    state = o.on(state) or State()
                outcomes.append(state.values)
        values = dice.choice(outcomes) if dice.random() < 0.5 else {"1": dice.choice("ABCD"), "2": dice.choice("ABCD")}
        possible = values in outcomes
        assert (order_of(history, values) is not None) == possible == (not contradiction(history, values))
        found.add(possible)
    assert found == {True, False}


def test_a_contradiction_is_told_with_as_few_commits_as_it_needs() -> None:
    others = ops(*((f"X{n}", "2 3", f"X{n - 1}" if n else "") for n in range(30)))
    lost = ops(("A", "1"), ("B", "1", "A"), ("M", "+1", "A"))
    told = contradiction([*others[:15], *lost, *others[15:]], {"1": "M_A", "2": "X29", "3": "X29"})
    assert told.splitlines()[0] == "no serial order of 3 commits leaves 1 = M_A:"
    assert [line.strip() for line in told.splitlines()[1:]] == ["A: 1", "B: 1, after A", "M: +1, after A"]


def test_a_search_without_end_is_given_up() -> None:
    history = ops(*((f"A{n}", f"{n}") for n in range(24)))
    with pytest.raises(Undecided):
        order_of(history, {"0": "nobody"}, most=1_000)


def test_only_the_latest_commits_that_had_ended_count() -> None:
    times = {"A": (0.0, 1.0), "B": (2.0, 3.0), "C": (2.5, 6.0), "D": (4.0, 5.0)}
    found = closest_before(times)
    assert found == {"A": frozenset(), "B": frozenset("A"), "C": frozenset("A"), "D": frozenset("B")}


def test_seeded_histories_have_a_serial_order() -> None:
    runs = [run_history(seed) for seed in range(SEEDS)]
    assert [f"seed {run.seed}: {run.wrong}" for run in runs if run.wrong] == []
    assert [run.seed for run in runs if run.undecided] == []
    assert sum(run.commits for run in runs) > 5 * SEEDS


PLANTED = {
    "an older job under a change of rows": 0,
    "removed rows come back": 0,
    "no numbers are compared": 5,
    "snapshots have room for all numbers": 5,
    "an undo takes back whoever rode with its commit": 60,
    "an undo takes the whole snapshot back": 150,
    "a clone carries the intents of its source": 99,
    "a clone is recovered from its source's journal": 150,
}
"""Bugs, each with the first seed that is tried: a bug that needs riders shows in one seed of a hundred."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_shows_in_a_seeded_history(name: str) -> None:
    (mutant,) = (m for m in (*KEYS, *UNDOS, *CLONES) if m.name == name)
    with mutant.planted():
        runs = map(run_history, range(PLANTED[name], PLANTED[name] + 400))
        wrong = next((run.wrong for run in runs if run.wrong), "")
    assert wrong.startswith("no serial order of ") or "which nobody brought there" in wrong


def test_a_seed_replays() -> None:
    assert run_history(11) == run_history(11)


def test_time_passes_through_commits_of_other_keys() -> None:
    """A, then X, then B: what is found of key 1 says that B came first, and X does nothing to it."""
    told = contradiction(ops(("A", "1"), ("X", "2", "A"), ("B", "1", "X")), {"1": "A", "2": "X"})
    assert [line.strip() for line in told.splitlines()[1:]] == ["A: 1", "B: 1, after A"]
