"""Figures of the last whole run, kept where readers look for them: marked blocks of the pages in docs/.

Owns: `keep`, which replaces one block. Must not know: what was measured. Only nightly runs keep figures: a daily one must
leave the checkout as it found it.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from report import tell

DOCS = Path(__file__).resolve().parent.parent / "docs"
NIGHTLY = bool(os.environ.get("LAKELATCH_NIGHTLY"))


def keep(page: str, block: str, text: str) -> None:
    """Replace what stands between `<!-- block -->` and `<!-- /block -->` of a page, where this is a nightly run.

    Args:
        page: name of a file in docs/.
        text: Markdown.
    """
    tell(text)
    if NIGHTLY:
        with (DOCS / page).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            page_text = replaced(file.read(), block, text)
            file.seek(0)
            file.truncate()
            file.write(page_text)


def replaced(page_text: str, block: str, text: str) -> str:
    """The page with the block's new text. Raises LookupError where the page lacks the block."""
    marks = re.compile(rf"(<!-- {block} -->\n).*?(<!-- /{block} -->)", re.DOTALL)
    changed, count = marks.subn(lambda found: f"{found[1]}{text.rstrip()}\n{found[2]}", page_text)
    if count != 1:
        raise LookupError(f"the page has {count} blocks '{block}'")
    return changed
