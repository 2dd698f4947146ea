"""The page on options has each that the code parses, with its kind of value and its default."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from pages import CHECKOUT

from lakelatch.core import options
from lakelatch.core.option_names import ELSEWHERE, HARMLESS, KNOWN
from lakelatch.core.options import ALL_OPTIONS, Option
from lakelatch.core.side_effects import SIDE_EFFECTS

KINDS: dict[Any, str] = {
    int: "number",
    float: "number",
    str: "text",
    options.parse_size: "size",
    options.parse_duration_ms: "duration",
    options.parse_bool: "true or false",
    options.parse_zone: "zone",
    options.parse_levels: "values by level",
}
UNITS = {
    options.parse_size: (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("bytes", 1)),
    options.parse_duration_ms: (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)),
}
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
PAGE = (CHECKOUT / "docs" / "options.md").read_text()


def shown(option: Option[Any]) -> tuple[str, str]:
    """How the page writes the kind of an option's values, and its default."""
    default = option.default
    if default in (None, "", {}):
        text = "not set"
    elif isinstance(default, bool):
        text = str(default).lower()
    elif option.parse in UNITS and default:
        name, factor = next(unit for unit in UNITS[option.parse] if default % unit[1] == 0)
        text = f"{default // factor} {name}"
    else:
        text = "0 ms" if option.parse is options.parse_duration_ms else str(default)
    return KINDS.get(option.parse, "word"), text


def test_each_option_is_listed_with_its_value_and_default() -> None:
    listed = {key: (kind, default) for key, kind, default, _ in ROW.findall(PAGE)}
    assert listed == {option.key: shown(option) for option in ALL_OPTIONS}
    assert len(ROW.findall(PAGE)) == len(listed), "an option is listed twice"


TYPED = {name: value.key for name, value in vars(options).items() if isinstance(value, Option)}


def test_each_option_with_a_typed_value_is_asked_for_by_the_code() -> None:
    floors = ("core", "backends", "coordinator", "table", "spark", "cli", "lab")
    words = Counter(
        w for floor in floors for f in (CHECKOUT / floor).rglob("*.py") for w in re.findall(r"\w+", f.read_text())
    )
    assert {key for name, key in TYPED.items() if words[name] == 1} == set(), "read it, or say why it changes nothing"


def test_each_option_with_a_typed_value_is_set_by_a_test_of_its_effect() -> None:
    """By its name, or in the words of keyword arguments."""
    of_names = {Path(__file__), CHECKOUT / "tests" / "paimon_words.py"}
    code = "\n".join(f.read_text() for f in (CHECKOUT / "tests").rglob("*.py") if f not in of_names)
    written = {key: {key, key.replace(".", "__").replace("-", "_")} for key in TYPED.values()}
    assert {key for key, forms in written.items() if not any(form in code for form in forms)} == SET_IN_PARTS


SET_IN_PARTS = {"partition.mark-done-action.http.params"}
"""Options whose names a test puts together (`tests/unit/table/test_partitions.py`)."""


def test_each_option_that_changes_nothing_is_listed_with_the_reason() -> None:
    section = PAGE.partition("## What changes nothing here")[2]
    listed = {}
    for line in re.findall(r"^\* (.+)\.$", section, re.MULTILINE):
        why, _, names = line.rpartition(": `")
        listed[why.lower()] = tuple(re.findall(r"[^`, ]+", f"`{names}"))
    assert listed == {why.lower(): names for why, names in HARMLESS.items()}


def test_every_known_option_is_in_one_place() -> None:
    """It has a typed value, it is looked for by its name, it is refused or told, or it changes nothing for a reason."""
    typed = {key for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)}
    asking = {effect.option for effect in SIDE_EFFECTS if not effect.is_pattern}
    harmless = [name for names in HARMLESS.values() for name in names]
    places = Counter((*typed, *(asking - typed), *ELSEWHERE, *harmless))
    assert set(places) == KNOWN and {name for name, count in places.items() if count > 1} == set()


def test_the_options_that_have_no_typed_value_are_looked_for_by_the_code() -> None:
    code = "\n".join(
        path.read_text()
        for floor in ("core", "coordinator", "table", "spark")
        for path in (CHECKOUT / floor).rglob("*.py")
        if path.name != "option_names.py"
    )
    assert {name for name in ELSEWHERE if f'"{name}"' not in code} == set()
