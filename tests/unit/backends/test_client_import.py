"""H23: the import of a store's client loses no interrupt. Each case runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakelatch.backends.client_import import import_client
from lakelatch.backends.registry import open_store

DROPS = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
except BaseException:
    pass
whole = True
"""
STOPS = """
import signal, sys
from lakelatch.backends.client_import import import_client
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    import_client("drops_interrupts")
finally:
    print(sys.modules["drops_interrupts"].whole, flush=True)
"""


def test_an_interrupt_that_the_client_would_drop_ends_the_process_after_the_import(tmp_path: Path) -> None:
    (tmp_path / "drops_interrupts.py").write_text(DROPS)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", STOPS],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert (done.returncode, done.stdout) == (-2, "True\n"), done.stderr


def test_a_client_that_is_there_is_returned_and_a_missing_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_client("xml.dom") is sys.modules["xml.dom"]
    monkeypatch.setitem(sys.modules, "xml.dom", None)
    with pytest.raises(ImportError):
        import_client("xml.dom")
    with pytest.raises(ImportError, match="no_such_client"):
        import_client("no_such_client")


def test_a_thread_that_cannot_be_interrupted_imports_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tells_its_thread.py").write_text("import threading\nname = threading.current_thread().name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found: list[str] = []
    worker = threading.Thread(target=lambda: found.append(import_client("tells_its_thread").name), name="worker")
    worker.start()
    worker.join()
    assert found == ["worker"]


def test_the_client_is_imported_before_a_commit_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("s3://bucket/t", {"key": "k", "secret": "s", "transport": "fsspec"})
    imported: list[object] = []
    monkeypatch.setattr(type(store), "_import_client", lambda of: imported.append(of))
    store.warm_up()
    assert imported == [store]
