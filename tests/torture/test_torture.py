"""G1, G2, G3, G5, G6 under SIGKILL at random moments, on a disk and on an S3 server whose answers get lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from figures import NIGHTLY, keep
from report import tell
from servers import FaultProxy, S3Server
from torture.tortured import Torture

import lakelatch as ll
from lakelatch.coordinator.protocol.machine import Phase

KILLS = 500 if NIGHTLY else 20
LOST_ANSWERS = 0.05


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "writers"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def figures() -> Iterator[list[str]]:
    """The results as lines, which are saved in docs/guarantees.md."""
    lines: list[str] = []
    yield lines
    if lines:
        keep("guarantees.md", "torture", "\n".join(f"* {line}" for line in lines))


def check(torture: Torture, what: str, figures: list[str]) -> None:
    """Kill writers, and compare their books with the table."""
    kills, books = torture.torture(KILLS)
    tell(f"torture, {what}: {kills}\ntorture, {what}: {books}")
    assert kills.inside >= kills.all / 3, "too few kills hit a commit"
    assert kills.phases[Phase.PUBLISH.value] > 0
    assert books.replayed > 0, "no restart found that its commit had landed"
    assert books.acknowledged == books.visible > 0
    assert (books.lost, books.doubled, books.errors) == (0, 0, [])
    outcomes = torture.recover()
    recovered = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    assert outcomes["unknown"] + outcomes["in flight"] == 0
    again = torture.audit(books.wall_s)
    assert (again.visible, again.lost, again.doubled) == (books.visible, 0, 0), "recovery changed what had landed"
    table = ll.open_table(torture.url, storage_options=torture.storage_options)
    assert table.verify(data=True) == []
    figures.append(f"{what}: {kills}. {books}. Recovered from the journals: {recovered}; the table verifies clean")


@pytest.mark.timeout(3600)
def test_sigkill_at_random_moments_on_local_disk(tmp_path: Path, folder: Path, figures: list[str]) -> None:
    check(Torture(folder, str(tmp_path / "table"), {}), "local disk", figures)


@pytest.mark.timeout(3600)
def test_sigkill_at_random_moments_on_s3_with_lost_answers(s3_host: S3Server, folder: Path, figures: list[str]) -> None:
    """In addition, the server applies every twentieth PUT, but its answer is cut off (H2, H3, H9)."""
    url, own = f"s3://{s3_host.create_bucket()}/table", s3_host.storage_options()
    with FaultProxy(s3_host.endpoint_url, drop_put_answers=LOST_ANSWERS, seed=7) as proxy:
        torture = Torture(folder, url, own, through=s3_host.storage_options(proxy.url))
        check(torture, f"S3 ({s3_host.name}), {LOST_ANSWERS:.0%} of the answers to PUT cut off", figures)
        assert any(request.fault == "drop_answer" for request in proxy.requests)
