"""What `make docs` adds to MkDocs: the pages outside `docs/`, the pages of linked source files, and the order of pages.

The pages are written to be read in the repository, where a link may lead to any file of it. In the site,

* README.md is the front page; CHANGELOG.md, CONTRIBUTING.md and SECURITY.md are pages;
* a link to another file of the repository leads to a page that shows the file;
* a link to a folder leads to its README.md, to a list of its pages, or to its `__init__.py`.

A link that leads nowhere stays as it is, so that `--strict` reports it.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import links
import navigation

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = CHECKOUT / "build" / "reference"
"""The shipped packages alone: the whole checkout as a package would bring the tests and the virtual environment along."""

ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_DOCSTRING = re.compile(r'"""(?!\n).*?"""', re.DOTALL)
_SHARED = re.compile(r"^( +)(\w+(?:, \w+)+): (.*\n(?:\1 +\S.*\n)*)", re.MULTILINE)
"""A description that several parameters share: `snapshot, tag, timestamp: at which point`. mkdocstrings wants one for each."""

_EXAMPLE = re.compile(r"^( +)>>> .*\n(?:\1(?!\"\"\")\S.*\n)*", re.MULTILINE)

origins: dict[str, str] = {}
"""Page of the site -> its file in the checkout."""

shown: dict[str, str] = {}
"""Page of the site -> the source file or folder that it shows."""


def on_startup(command: str, dirty: bool) -> None:
    """Copies the packages to where mkdocstrings reads them; before it looks there, so not later than here."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    shipped = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for package in shipped:
        inside = Path(*package.split(".")[1:])
        target = PACKAGES / "lakelatch" / inside
        target.mkdir(parents=True)
        for module in (CHECKOUT / inside).glob("*.py"):
            (target / module.name).write_text(_DOCSTRING.sub(_as_mkdocstrings_reads_it, module.read_text()))


def _as_mkdocstrings_reads_it(docstring: re.Match[str]) -> str:
    text = _SHARED.sub(_each_alone, docstring[0])
    return _EXAMPLE.sub(r"\1```pycon\n\g<0>\1```\n", text)


def _each_alone(described: re.Match[str]) -> str:
    indent, names, text = described.groups()
    return "".join(f"{indent}{name}: {text}" for name in names.split(", "))


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are not in `docs/`, then the order of all."""
    origins.clear()
    for file in files:
        origins[file.src_uri] = f"docs/{file.src_uri}"
    for source, page in ROOT_PAGES.items():
        if (CHECKOUT / source).exists():
            origins[page] = source
            files.append(File.generated(config, page, content=(CHECKOUT / source).read_text()))
    for page in [page for page in origins if page.endswith(".md")]:
        for target in links.relative_links((CHECKOUT / origins[page]).read_text()):
            _add(target.partition("#")[0], page, files, config)
    config.nav = _nav([file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Relative links, from the repository's to the site's."""
    own = page.file.src_uri
    if own not in origins:
        return markdown

    def change(target: str) -> str:
        path, hash_, anchor = target.partition("#")
        found = _page_of(path, own) if path else None
        if found is None:
            return target
        kept = "" if found.startswith("source/") else f"{hash_}{anchor}"  # a line of code is not an anchor of its page
        return posixpath.relpath(found, posixpath.dirname(own) or ".") + kept

    return links.replaced(markdown, change)


def _source(path: str, page: str) -> str:
    """What a link of a page leads to, from the top of the checkout."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origins[page]), path))


def _page_of(path: str, page: str) -> str | None:
    source = _source(path, page)
    full = CHECKOUT / source
    if source.startswith("..") or not full.exists():
        return None
    if source in ROOT_PAGES:
        return ROOT_PAGES[source]
    if full.is_dir():
        if (full / "README.md").exists():
            source, full = f"{source}/README.md", full / "README.md"
        elif source.startswith("docs/"):
            return f"{source.removeprefix('docs/')}/index.md"
        elif (full / "__init__.py").exists():
            source = posixpath.normpath(f"{source}/__init__.py")
        else:
            return _shown_at(f"{source}/index.md", source)
    return source.removeprefix("docs/") if source.startswith("docs/") else _shown_at(f"{source}.md", source)


def _shown_at(page: str, source: str) -> str:
    """MkDocs leaves out what begins with a dot."""
    page = "source/" + re.sub(r"(^|/)\.", r"\1_", page)
    shown[page] = source
    return page


def _add(path: str, page: str, files: Any, config: Any) -> None:
    """The page that shows what a link leads to, where `docs/` has none."""
    found = _page_of(path, page) if path else None
    if found is None or files.get_file_from_path(found) is not None:
        return
    source = CHECKOUT / shown.get(found, _source(path, page))
    content = _listing(source) if source.is_dir() else _shown(source)
    files.append(File.generated(config, found, content=content))


def _shown(file: Path) -> str:
    language = {".py": "python", ".toml": "toml", ".yml": "yaml", ".md": "markdown"}.get(file.suffix, "text")
    name = file.relative_to(CHECKOUT).as_posix()
    return f"---\nsearch:\n  exclude: true\n---\n# {name}\n\n``````{language}\n{file.read_text()}\n``````\n"


def _listing(folder: Path) -> str:
    lines = [f"# {folder.name.capitalize()}", ""]
    in_docs = folder.is_relative_to(CHECKOUT / "docs")
    for each in sorted(folder.glob("*.md" if in_docs else "*")):
        title = re.search(r"^# (.+)$", each.read_text(), re.MULTILINE) if in_docs else None
        lines.append(f"* [{title[1]}]({each.name})" if title else f"* `{each.name}`")
    return "\n".join(lines) + "\n"


def _nav(pages: list[str]) -> list[dict[str, Any]]:
    sections = navigation.navigation(page for page in pages if not page.startswith("source/"))
    return [{title: found[0] if found == ["index.md"] else found} for title, found in sections.items()]
