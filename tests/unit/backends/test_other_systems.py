"""Machines that lack what others have: a home, a system like POSIX, a PySpark of today."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pyspark
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.backends.trust import settings_file
from lakelatch.cli.frame.journals import default_journal


def test_a_user_without_a_home_has_the_root_as_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under ids that no file names; `Path.home()` raises for them."""

    def nobody(uid: int) -> Any:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("LAKELATCH_SETTINGS", raising=False)
    assert default_journal() == Path("/.local/state/lakelatch/journal.jsonl")
    assert settings_file() == Path("/.config/lakelatch/settings.json")


def test_a_system_without_positions_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "pread")
    with pytest.raises(ll.Unsupported, match="local folders need Linux or macOS"):
        ll.open_table(str(tmp_path))


@pytest.mark.parametrize("version", ["3.5.5", "4.0.1"])
def test_an_old_pyspark_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    monkeypatch.delitem(vars(lake), "write", raising=False)
    with pytest.raises(ll.Unsupported, match=rf"needs PySpark 4\.1 or newer, and {version} is installed"):
        print(lake.write)
