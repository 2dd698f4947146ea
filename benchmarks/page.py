"""docs/performance.md as text: what the benchmarks told, beside what each is measured against.

Owns: the form of the page, and what it says of the machine. Must not know: which benchmarks there are, how they run.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from recorded import markdown

HEAD = """# Performance

What lakelatch takes beside other libraries and beside its limits. Every figure of this page comes from
`make bench`{size}, which writes it. Times are medians where a benchmark repeats. Compare figures inside one table: they come
from the same run on the same machine, one variant after another. Wall times depend on the neighbours more than CPU times do.
"""


@dataclass(frozen=True)
class Section:
    """What one benchmark told.

    Attributes:
        title, limit: what it measures, and what the figures stand beside.
        command: how to run it alone.
        tables: each a `title` and its `rows`, as `recorded.record` wrote them.
        failure: why figures are missing; "" if it ran to its end.
    """

    title: str
    limit: str
    command: str
    tables: Sequence[Mapping[str, Any]]
    failure: str = ""


def page(sections: Sequence[Section], size: str, began: datetime, facts: Mapping[str, str]) -> str:
    """The whole page.

    Args:
        size: of the run, as `make bench SIZE=…` names it.
        facts: of the machine.
    """
    told = {"date": f"{began:%Y-%m-%d %H:%M} UTC", **facts}
    parts = [HEAD.format(size="" if size == "small" else f" with `SIZE={size}`")]
    parts.append("\n".join(f"* {name}: {value}" for name, value in told.items()) + "\n")
    for section in sections:
        parts.append(f"## {section.title}\n\n{section.limit}\n\n`{section.command}`\n")
        for table in section.tables:
            title = str(table["title"])
            parts.append(f"{title[:1].upper()}{title[1:]}:\n\n{markdown(table['rows'])}\n")
        if section.failure:
            parts.append(f"{'Cut off' if section.tables else 'Left out'}: {_plain(section.failure)}\n")
    return "\n".join(parts)


def _plain(text: str) -> str:
    """A message without what Markdown would take for its own."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join(text.split()))


def machine() -> dict[str, str]:
    """The CPU, its cores, the memory, and how busy they are."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        cpu = named[1] if named else cpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "CPU": cpu,
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "Python": platform.python_version(),
        "processes that were running when it began": f"{os.getloadavg()[0]:.1f} (average of a minute)",
    }
