"""The sections of the documentation's site, and the pages of each, in the order in which they are listed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence

SECTIONS: dict[str, list[str]] = {
    "Home": ["index.md"],
    "Start": [
        "quick-start.md",
        "installing.md",
        "concepts.md",
        "naming-commits.md",
        "outcomes.md",
        "rows-in.md",
        "python-tools.md",
        "spark-by-habit.md",
        "clusters.md",
        "coming-from.md",
    ],
    "Guide": [
        "sql.md",
        "row-level.md",
        "streams.md",
        "partitions.md",
        "tags.md",
        "branches.md",
        "catalogs.md",
        "many-writers.md",
        "testing-your-pipeline.md",
    ],
    "Operations": [
        "operations.md",
        "maintenance.md",
        "observability.md",
        "troubleshooting.md",
        "system-tables.md",
        "performance.md",
        "tpcds.md",
    ],
    "Stores": ["stores/README.md", "stores/*.md"],
    "Reference": ["options.md", "compatibility.md", "reference/*.md"],
    "How it works": ["architecture.md", "commit-machine.md", "guarantees.md", "hazards.md"],
    "The format": ["format/README.md", "format/*.md"],
    "Decisions": ["decisions/README.md", "decisions/*.md"],
    "Project": ["contributing.md", "security.md", "changelog.md", "upstream/README.md", "upstream/*.md"],
}
"""Section -> its pages, or patterns of pages in one folder. A page of the top folder is named, so that no guide is lost."""


class PageWithoutSectionError(Exception):
    """A page is in no section, so that readers of the site would not find it."""


def navigation(pages: Iterable[str], sections: Mapping[str, Sequence[str]] = SECTIONS) -> dict[str, list[str]]:
    """The pages of each section.

    Args:
        pages: of the site, relative to its root.

    Raises:
        PageWithoutSectionError: for pages that no section names.

    Example:
        >>> navigation(["b.md", "x/2.md", "x/1.md"], {"Guide": ["b.md"], "All x": ["x/*.md"]})
        {'Guide': ['b.md'], 'All x': ['x/1.md', 'x/2.md']}
    """
    left = sorted(pages)
    found: dict[str, list[str]] = {}
    for section, patterns in sections.items():
        for pattern in patterns:
            named = [page for page in left if _stands_for(pattern, page)]
            left = [page for page in left if page not in named]
            if named:
                found.setdefault(section, []).extend(named)
    if left:
        raise PageWithoutSectionError(f"no section of .ci/navigation.py has {', '.join(left)}")
    return found


def _stands_for(pattern: str, page: str) -> bool:
    return page.count("/") == pattern.count("/") and fnmatch.fnmatch(page, pattern)  # fnmatch's star takes slashes too
