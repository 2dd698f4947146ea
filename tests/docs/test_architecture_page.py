"""docs/architecture.md: its listing names every room and every module that lies directly on a floor, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "architecture.md"
FLOORS = ("core", "backends", "coordinator", "table", "spark", "lab", "cli")
_LINE = re.compile(r"^(?P<indent> *)(?P<names>[\w/]+(?:, [\w/]+)*) {2,}(?P<what>\S.*)$")


def listed(text: str) -> dict[str, list[str]]:
    """What the listing names, by floor; folders end in a slash.

    Raises:
        ValueError: a line of another form.
    """
    _, _, after = text.partition("<!-- listing -->\n```\n")
    found: dict[str, list[str]] = {}
    floor = ""
    for line in after.partition("```\n<!-- /listing -->")[0].splitlines():
        match = _LINE.match(line)
        if match is None:
            raise ValueError(line)
        if not match["indent"]:
            floor = match["names"].rstrip("/")
            found[floor] = []
        else:
            found[floor] += match["names"].split(", ")
    return found


def there(floor: str) -> list[str]:
    """What lies on a floor."""
    folder = CHECKOUT / floor
    rooms = [f"{path.parent.name}/" for path in folder.glob("*/__init__.py")]
    return sorted(rooms + [path.stem for path in folder.glob("*.py") if path.stem != "__init__"])


def test_the_listing_has_every_floor() -> None:
    assert tuple(listed(PAGE.read_text())) == FLOORS


@pytest.mark.parametrize("floor", FLOORS)
def test_the_listing_is_true(floor: str) -> None:
    assert sorted(listed(PAGE.read_text())[floor]) == there(floor)


@pytest.mark.parametrize(
    ("line", "floor"),
    [("  folding/              something", "core"), ("  pages, places_of_pages    something", "cli")],
)
def test_a_name_that_is_not_there_is_found(line: str, floor: str) -> None:
    text = PAGE.read_text()
    planted = re.sub(rf"^({floor}/ .*)$", rf"\1\n{line}", text, count=1, flags=re.MULTILINE)
    assert sorted(listed(planted)[floor]) != there(floor)


def test_a_line_that_is_gone_is_found() -> None:
    text = re.sub(r"^  metadata/ .*\n", "", PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(listed(text)["core"]) != there("core")


def test_links_lead_to_files() -> None:
    """The walks through the code follow it where it moves."""
    links = re.findall(r"\]\(([^)#]+)", PAGE.read_text())
    assert len(links) > 30
    assert not [link for link in links if not (PAGE.parent / link).exists()]
