"""Links and headings of Markdown pages, as the site and the tests of the docs see them. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Callable

_CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1`*~*[ \t]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\(\s*)([^\s()]+(?:\([^\s()]*\)[^\s()]*)*)((?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\))")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


def replaced(text: str, change: Callable[[str], str]) -> str:
    """The page with each relative link changed. Code, and links to other hosts, stay.

    >>> replaced("[a](b.md#c) `[d](e)` [f](https://g.example)", str.upper)
    '[a](B.MD#C) `[d](e)` [f](https://g.example)'
    """

    def changed(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        return link[0] if _ELSEWHERE.match(target) else f"{before}{change(target)}{after}"

    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(changed, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(changed, text[end:])])


def relative_links(text: str) -> list[str]:
    """The targets of a page's relative links, with their anchors.

    >>> relative_links("[a](b.md#c), ![d](e.svg) and [f](#g)")
    ['b.md#c', 'e.svg', '#g']
    """
    found: list[str] = []
    replaced(text, lambda target: found.append(target) or target)  # type: ignore[func-returns-value]
    return found


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them.

    >>> sorted(anchors("# A store of your own\\n## `a_b`: what?\\n## `a_b`: what?"))
    ['a-store-of-your-own', 'a_b-what', 'a_b-what-1']
    """
    found: dict[str, int] = {}
    fences_gone = _CODE.sub(lambda code: "" if code[0].startswith(("```", "~~~")) else code[0].strip("`"), text)
    for heading in _HEADING.findall(fences_gone):
        words = re.sub(r"\]\([^)]*\)", "", heading.replace("[", "")).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    repeated = {f"{slug}-{n}" for slug, times in found.items() for n in range(1, times + 1)}
    return {*found, *repeated, *re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)}
