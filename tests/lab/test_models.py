"""The model of commits by key that ride (decision 120): its rules hold, and each tempting variant breaks a promise."""

from __future__ import annotations

import pytest

from lakelatch.lab.models.riding import Model
from lakelatch.lab.models.riding_stories import SCENARIOS, VARIANTS, main
from lakelatch.lab.models.riding_table import SAFE, Job, apart, parsed
from lakelatch.lab.models.search import explore


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_order_of_steps_keeps_the_promises(scenario: str) -> None:
    found = explore(Model(SCENARIOS[scenario]))
    assert (found.broken, found.story) == ("", ())
    assert found.states > 100


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_tempting_variant_breaks_a_promise_within_a_few_steps(variant: str) -> None:
    scenario, rules = VARIANTS[variant]
    found = explore(Model(SCENARIOS[scenario], rules))
    assert found.broken
    assert 0 < len(found.story) <= 15


def test_every_rule_has_a_variant_that_needs_it() -> None:
    changed = {
        name for _, rules in VARIANTS.values() for name, value in vars(rules).items() if value != getattr(SAFE, name)
    }
    assert changed == {*vars(SAFE)}


def test_riders_do_ride() -> None:
    """What holds only because nobody is ever carried would prove nothing."""
    jobs = (Job("write", "a+", (0,), rides=True, first=True), Job("write", "a+", (2,), leads=True))
    said = _said(Model(jobs))
    assert [what for what in said if what.endswith("with A")] == ["B builds on 1 with A"]
    assert "A looks, and was carried" in said


def _said(model: Model) -> list[str]:
    """Everything that anybody ever does."""
    seen, todo, said = {model.first()}, [model.first()], set[str]()
    while todo:
        for what, after in model.moves(todo.pop()):
            said.add(what)
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return sorted(said)


def test_whole_commits_are_compared() -> None:
    """One of them is older in one bucket, and newer in another."""
    model = Model((Job("write", "a+ b+"), Job("write", "a+ b+")))
    one, other = (model._part(model.first().history[0], who, 1 + 5 * who) for who in (0, 1))
    assert apart(one, other) and apart(other, one)
    mixed = other._replace(spans=(other.spans[0]._replace(first=0, last=0), other.spans[1]))
    assert not apart(one, mixed) and not apart(mixed, one)
    touching = other._replace(spans=(other.spans[0]._replace(first=1), other.spans[1]))
    assert not apart(one, touching)
    assert [row for row, _, _ in parsed("a+ c-")] == ["a", "c"]


def test_the_stories_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (SCENARIOS, VARIANTS):
        for title in [*table][:-1]:
            monkeypatch.delitem(table, title)
    monkeypatch.setitem(
        SCENARIOS,
        "a rider that gives up",
        (Job("write", "a+", rides=True, first=True, gives_up=True), Job("write", "b+", leads=True)),
    )
    main()
    said = capsys.readouterr().out
    assert "watermarks: holds, " in said
    assert "was told not committed, and its rows are there" in said and "  1. A begins on snapshot 1" in said
