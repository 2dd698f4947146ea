"""The pages of the documentation: every relative link leads to a file and a heading, and the reference lists every public name.

`make docs` builds the site itself, and checks what only the built site shows.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from pages import CHECKOUT

import lakelatch
import lakelatch.spark


def tool(name: str):
    """A module of the folder with what builds the site, which is no package."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links = tool("links")
navigation = tool("navigation")

PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])


def broken(page: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading of one."""
    found = []
    for link in links.relative_links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            found.append(f"{link}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in links.anchors(target.read_text()):
            found.append(f"{link}: {target.name} has no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    """The test above would notice a missing file, a missing heading, and both in a link with a title."""
    (tmp_path / "b.md").write_text("# One\n\n## Two, and `three`\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# Four\n[1](b.md) [2](b.md#one) [3](b.md#two-and-three) [4](#four) [5](https://example.com/x)\n"
        "[6](c.md) [7](b.md#four) [8](#one) [9](c.md 'x') `[10](c.md)`\n```sh\n[11](c.md)\n```\n![12](d.svg)\n"
    )
    assert [problem.partition(":")[0] for problem in broken(page)] == ["c.md", "b.md#four", "#one", "c.md", "d.svg"]


@pytest.mark.parametrize("package", [lakelatch, lakelatch.spark])
def test_the_reference_lists_every_public_name(package) -> None:
    pages = "\n".join(page.read_text() for page in (CHECKOUT / "docs" / "reference").glob("*.md"))
    listed = re.findall(rf"^::: {re.escape(package.__name__)}\.(\w+)$", pages, re.MULTILINE)
    assert sorted(listed) == sorted(package.__all__)


@pytest.mark.parametrize("module", [links, navigation])
def test_the_examples_of_the_tools_hold(module) -> None:
    import doctest

    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


def test_every_page_is_in_a_section() -> None:
    """Guides at the top of `docs/` are named one by one: a new one is red here until a section has it."""
    docs = CHECKOUT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    sections = navigation.navigation(pages)
    assert sorted(page for section in sections.values() for page in section) == sorted(pages)
    with pytest.raises(navigation.PageWithoutSectionError, match=r"a-new-guide\.md"):
        navigation.navigation([*pages, "a-new-guide.md"])


def test_every_named_page_is_there() -> None:
    made = {"index.md", "contributing.md", "security.md", "changelog.md"}  # the site makes these
    named = {page for section in navigation.SECTIONS.values() for page in section if "*" not in page} - made
    assert [page for page in sorted(named) if not (CHECKOUT / "docs" / page).is_file()] == []


def test_help_lists_every_target() -> None:
    """`make help` shows the text after `##`; a target without one would not be found."""
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split()
    for target in targets:
        assert re.search(rf"^{target}:.*## \w+", makefile, re.MULTILINE), target


def test_the_list_of_decisions_has_each_by_its_title() -> None:
    folder = CHECKOUT / "docs" / "decisions"
    listed = re.findall(r"^\* \[(.+)\]\((\d+-.+\.md)\) \((\d+)\)$", (folder / "README.md").read_text(), re.MULTILINE)
    titles = [(note.read_text().splitlines()[0], note.name) for note in sorted(folder.glob("0*.md"))]
    assert sorted((f"# {number}. {title}", name) for title, name, number in listed) == sorted(titles)
