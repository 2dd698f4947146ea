"""Runs the code on the page about logs and telemetry, and checks the names on the page against the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from lakelatch.coordinator.watching import telemetry
from lakelatch.coordinator.watching.telemetry import RETRY_REASONS

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"
SOURCE = Path(telemetry.__file__).read_text()


def test_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    lines = done.stdout.splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(line["at"], line.get("outcome")) for line in logged if line["identifier"] == 1] == [
        ("FoundAnother", None),
        ("Ended", "committed"),
    ]
    spans = [line.split(" ")[0] for line in lines if not line.startswith("{")]
    text = PAGE.read_text()
    assert {"lakelatch.commit", "lakelatch.attempt", "lakelatch.verify", "lakelatch.request", "nightly"} <= set(spans)
    assert all(f"  {span}" in text for span in set(spans) - {"nightly"})
    assert "lakelatch.commit committed" in lines


def test_every_reason_is_on_the_page() -> None:
    assert all(f"`{reason}`" in PAGE.read_text() for reason in RETRY_REASONS.values())


def test_every_metric_is_on_the_page() -> None:
    made = re.findall(r'(?:create_counter|create_gauge|_seconds)\(\s*(?:meter, )?"(lakelatch\.[a-z.]+)"', SOURCE)
    assert len(made) == 10
    assert [name for name in made if f"`{name}`" not in PAGE.read_text()] == []
