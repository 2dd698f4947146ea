"""A check of a whole table beside expiries: snapshots that expire meanwhile are no damage, and damage is still found."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.maintenance.expiry.expire import expire
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.table.verify import whole
from lakelatch.table.verify.state import StateCheck

SCHEMA = pa.schema([("k", pa.int64())])


def made(path: Path, count: int = 8) -> ll.Table:
    table = ll.create_table(str(path), SCHEMA)
    for n in range(count):
        table.overwrite(pa.table({"k": [n]}))
    table.committer.settle()
    return table


def expired(url: str, keep: int) -> None:
    table = ll.open_table(url)
    retention = Retention.of(table.schema.options, 2**62, retain_max=keep, retain_min=keep)
    expire(table.timeline, table.schema, retention)


def beside(monkeypatch: pytest.MonkeyPatch, url: str, keep: list[int]) -> Any:
    """Before the states of some snapshots are read, others expire. Returns the count of states that were read."""
    state_of, count = StateCheck.state_of, itertools.count()

    def reading(check: StateCheck, key: str, snapshot: Any) -> Any:
        if next(count) % 3 == 1 and keep:
            expired(url, keep.pop(0))
        return state_of(check, key, snapshot)

    monkeypatch.setattr(StateCheck, "state_of", reading)
    return count


def test_snapshots_that_expire_meanwhile_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    keep = [6, 5, 4, 3]
    beside(monkeypatch, table.url, keep)
    assert table.verify("all", data=True) == []
    assert keep == [] and len(table.snapshots()) == 3


def test_damage_is_found_beside_an_expiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    (entry,) = table.entries()
    (tmp_path / "t" / "bucket-0" / entry.file.file_name).unlink()
    beside(monkeypatch, table.url, [5])
    assert [finding.file for finding in table.verify("all")] == [f"bucket-0/{entry.file.file_name}"]


def test_a_check_that_is_overtaken_again_and_again_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", 20)
    rounds, verified = list[int](), whole._verified

    def overtaken(*given: Any) -> Any:
        rounds.append(1)
        roots, findings = verified(*given)
        expired(table.url, 20 - len(rounds))
        findings.error("manifest/x", "", "is missing")
        return roots, findings

    monkeypatch.setattr(whole, "_verified", overtaken)
    assert [finding.file for finding in table.verify("all")] == ["manifest/x"]
    assert len(rounds) == whole._ROUNDS


def test_a_snapshot_that_an_expiry_left_half_deleted_costs_one_more_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t", 4)
    (tmp_path / "t" / "snapshot" / "EARLIEST").write_text("3")
    (tmp_path / "t" / "manifest" / table.snapshots()[0].delta_manifest_list).unlink()
    rounds, verified = list[int](), whole._verified

    def counted(*given: Any) -> Any:
        rounds.append(1)
        return verified(*given)

    monkeypatch.setattr(whole, "_verified", counted)
    assert table.verify("all") != []
    assert len(rounds) == 2
