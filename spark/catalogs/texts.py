"""Names, texts and paths as Spark's SQL writes them.

Owns: quoting. Must not know: statements, tables.
"""

from __future__ import annotations

import os

from ...backends.registry import scheme_of, url_text


def absolute(url: str) -> str:
    """A relative path from the working directory of this process; Spark would take it from its warehouse."""
    url = url_text(url)
    return url if scheme_of(url) != "file" or url.startswith("file:") else os.path.abspath(url)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
