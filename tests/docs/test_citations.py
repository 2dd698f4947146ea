"""What code and pages cite exists: sections of the architecture and of the format, hazards, guarantees, decisions, pages.

The forms are `architecture`, or `format/` and a page's name, followed by a section sign and its numbers; H and a number;
G and a number; `decision` and a number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
FLOORS = ("core", "backends", "coordinator", "table", "spark", "lab", "cli")
FOLDERS = (*FLOORS, "tests", "benchmarks", "examples", "docs")
SIGN = chr(167)
"""The section sign, which stands in this file nowhere else: the file is checked like all others."""
NONE = 99
"""A number that nothing has."""

_CITED = re.compile(rf"\b(architecture|format/[a-z-]+)\s+({SIGN}\d+(?:,\s+{SIGN}\d+)*)")
_LINKED = re.compile(rf"\[[a-z-]+\s+{SIGN}(\d+)\]\(([a-z./-]+\.md)\)")
_HAZARD, _GUARANTEE = re.compile(r"\bH(\d+)\b"), re.compile(r"\bG(\d+)\b")
_DECISION = re.compile(r"\b[Dd]ecisions? (\d+(?:(?:, | and )\d+)*)\b")
_PAGE = re.compile(r"\bdocs/[\w./-]+\.(?:md|svg)\b")
_TEST = re.compile(r"^\* `([\w/]+\.py)::(\w+)`$", re.MULTILINE)
_ELSEWHERE = re.compile(
    "|".join(
        (
            "format" + "-metadata",
            "commit" + "-protocol",
            "data" + "-layer",
            "object" + "-stores",
            r"observed(?:\.md)? \d",
        )
    )
)
"""Notes that are not in the repository."""


@dataclass(frozen=True)
class Library:
    """What can be cited.

    Attributes:
        sections: the section numbers of each page, by its path in `docs/` without the extension.
        hazards, guarantees, decisions: their numbers.
    """

    sections: dict[str, frozenset[int]]
    hazards: frozenset[int]
    guarantees: frozenset[int]
    decisions: frozenset[int]

    def problems(self, text: str, folder: Path = DOCS) -> Iterator[str]:
        """Whatever a text cites and is not there.

        Args:
            folder: where the text is, for links.
        """
        found = list(_CITED.finditer(text))
        for cited in found:
            for number in re.findall(r"\d+", cited[2]):
                if int(number) not in self.sections.get(cited[1], frozenset()):
                    yield f"there is no section {number} in docs/{cited[1]}.md"
        for linked in _LINKED.finditer(text):
            page = (folder / linked[2]).resolve().relative_to(DOCS).with_suffix("").as_posix()
            if int(linked[1]) not in self.sections.get(page, frozenset()):
                yield f"there is no section {linked[1]} in docs/{page}.md"
        spans = [m.span() for m in (*found, *_LINKED.finditer(text))]
        for sign in re.finditer(SIGN, text):
            if not any(start <= sign.start() < end for start, end in spans):
                yield f"a section of nothing: {text[max(0, sign.start() - 30) : sign.end() + 5]!r}"
        yield from self._unnumbered(text)
        for page in _PAGE.findall(text):
            if not (CHECKOUT / page).exists():
                yield f"there is no {page}"
        for elsewhere in _ELSEWHERE.findall(text):
            yield f"{elsewhere} is not in the repository"

    def _unnumbered(self, text: str) -> Iterator[str]:
        for kind, form, numbers in (("hazard H", _HAZARD, self.hazards), ("guarantee G", _GUARANTEE, self.guarantees)):
            for number in form.findall(text):
                if int(number) not in numbers:
                    yield f"there is no {kind}{number}"
        for cited in _DECISION.findall(text):
            for number in re.findall(r"\d+", cited):
                if int(number) not in self.decisions:
                    yield f"there is no decision {number}"


def _numbers(page: Path, form: str) -> list[int]:
    return [int(number) for number in re.findall(form, page.read_text(), re.MULTILINE)]


@pytest.fixture(scope="module")
def library() -> Library:
    pages = [DOCS / "architecture.md", *sorted((DOCS / "format").glob("*.md"))]
    sections = {p.relative_to(DOCS).with_suffix("").as_posix(): frozenset(_numbers(p, r"^## (\d+)\. ")) for p in pages}
    return Library(
        sections,
        frozenset(_numbers(DOCS / "hazards.md", r"^## H(\d+)\. ")),
        frozenset(_numbers(DOCS / "guarantees.md", r"^\| G(\d+) \|")),
        frozenset(int(page.name[:4]) for page in (DOCS / "decisions").glob("[0-9]*.md")),
    )


def _texts() -> Iterator[Path]:
    """Every module and page of the repository."""
    yield from (p for p in CHECKOUT.iterdir() if p.suffix in {".py", ".md", ".toml"} or p.name == "Makefile")
    for folder in FOLDERS:
        yield from (p for p in (CHECKOUT / folder).rglob("*") if p.suffix in {".py", ".md", ".toml"})


def test_every_citation_resolves(library: Library) -> None:
    found = {
        f"{path.relative_to(CHECKOUT)}: {problem}"
        for path in _texts()
        for problem in library.problems(path.read_text(), path.parent)
    }
    assert not found


def test_the_library_is_cited(library: Library) -> None:
    """The forms above match what people write: each page and each hazard is cited by the product's code."""
    code = "\n".join(p.read_text() for floor in FLOORS for p in (CHECKOUT / floor).rglob("*.py"))
    pages = {cited[1] for cited in _CITED.finditer(code)}
    assert pages == library.sections.keys() - {"format/README"}
    assert {int(number) for number in _HAZARD.findall(code)} == library.hazards


@pytest.mark.parametrize(
    ("planted", "problem"),
    [
        (f"Source: format/manifests {SIGN}{NONE}.", f"no section {NONE}"),
        (f"Source: format/manifests {SIGN}1,\n{SIGN}{NONE}.", f"no section {NONE}"),
        (f"(architecture {SIGN}{NONE})", f"no section {NONE}"),
        (f"see format/nothing {SIGN}1", "no section 1"),
        (f"see [manifests {SIGN}{NONE}](format/manifests.md)", f"no section {NONE}"),
        (f"as of {SIGN}4", "a section of nothing"),
        (f"format/manifests {SIGN}1 and {SIGN}2", "a section of nothing"),
        (f"design {SIGN}3", "a section of nothing"),
        (f"hazards H1 and H{NONE}", f"no hazard H{NONE}"),
        (f"it keeps G{NONE}", f"no guarantee G{NONE}"),
        (f"decisions 1, 3 and {NONE}", f"no decision {NONE}"),
        (f"see docs/page-{NONE}.md", f"there is no docs/page-{NONE}.md"),
        ("Source: data" + "-layer", "is not in the repository"),
        ("(observed" + " 3)", "is not in the repository"),
    ],
)
def test_a_missing_target_is_found(library: Library, planted: str, problem: str) -> None:
    assert [p for p in library.problems(planted) if problem in p]


@pytest.mark.parametrize(
    "page", ["architecture.md", *sorted(f"format/{p.name}" for p in (DOCS / "format").glob("*.md"))]
)
def test_sections_are_numbered_without_a_gap(page: str) -> None:
    numbers = _numbers(DOCS / page, r"^## (\d+)\. ")
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers or page == "format/README.md"


def _entries() -> dict[int, str]:
    """The hazards' entries by number, in the page's order."""
    parts = re.split(r"^## H(\d+)\. .+\n", (DOCS / "hazards.md").read_text(), flags=re.MULTILINE)[1:]
    return {int(number): entry for number, entry in zip(parts[::2], parts[1::2], strict=True)}


def test_every_hazard_has_an_entry() -> None:
    entries = _entries()
    assert list(entries) == list(range(1, len(entries) + 1))
    for number, entry in entries.items():
        for part in (r"^\*\*Failure\.\*\* \S", r"^\*\*Answer\.\*\* \S", r"^\*\*Held by\*\*$"):
            assert re.search(part, entry, re.MULTILINE), f"H{number} lacks {part}"


@pytest.mark.parametrize("number", _entries())
def test_a_hazard_is_held_by_tests_that_exist(number: int) -> None:
    held_by = _TEST.findall(_entries()[number])
    assert held_by
    for path, name in held_by:
        tree = ast.parse((CHECKOUT / path).read_text())
        found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        assert found, f"there is no {path}::{name}"
        assert name.startswith("test_")


def test_every_named_test_is_read() -> None:
    """A line of a hazard's list that has another form would be left unchecked."""
    text = (DOCS / "hazards.md").read_text()
    assert len(re.findall(r"^\* ", text, re.MULTILINE)) == len(_TEST.findall(text))
