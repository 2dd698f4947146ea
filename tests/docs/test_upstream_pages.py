"""docs/upstream: the bytes of each report are the ones that our own check of ORC files refuses."""

from __future__ import annotations

from typing import Any

import pytest
from pages import CHECKOUT, blocks

from lakelatch.core.orc.streams import check_file

FOLDER = "docs/upstream"
REPORTS = sorted(page.name for page in (CHECKOUT / FOLDER).glob("*.md") if page.name != "README.md")


@pytest.mark.parametrize("report", REPORTS)
def test_the_bytes_of_a_report_are_refused(report: str) -> None:
    """H11: none of them reaches Arrow. The examples themselves are not run: most of them end the process."""
    examples = blocks(f"{FOLDER}/{report}", "python")
    assert examples
    for example in examples:
        seen: list[tuple[bytes, bytes]] = []
        names: dict[str, Any] = {}
        exec("\n".join(blocks(f"{FOLDER}/README.md", "python")), names)
        replace = names["damaged"]

        def damaged(data: bytes, *change: str) -> bytes:
            seen.append((data, replace(data, *change)))  # noqa: B023  called inside of this round
            return seen[-1][1]  # noqa: B023

        exec(example, names | {"damaged": damaged, "read": lambda data, **_: None})
        for sound, broken in seen:
            check_file(sound)
            with pytest.raises(ValueError, match=r"."):
                check_file(broken)
        assert seen


def test_every_report_is_listed() -> None:
    page = (CHECKOUT / FOLDER / "README.md").read_text()
    for report in REPORTS:
        assert f"({report})" in page
