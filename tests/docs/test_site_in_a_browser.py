"""The site in Chromium: search finds, every page is two clicks away, and nothing is cut on a wide window or on a telephone.

By night: the site and the browser's driver have an environment of their own. The browser is Debian's `chromium` and
`chromium-driver`.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from environments import clean_environment, environment
from report import not_here

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
LOOK = Path(__file__).with_name("site_child.py")


def _install(python: Path, folder: Path) -> None:
    wanted = folder / "requirements.txt"
    command = [sys.executable, str(ROOT / ".ci" / "requirements.py"), "--only", "docs"]
    wanted.write_bytes(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    pip = [str(python), "-m", "pip", "install", "-q", "-r", str(wanted), "selenium"]
    subprocess.run(pip, check=True, env=clean_environment())


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's name
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The URL of the site, made from this checkout."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        not_here("a browser", "install Debian's chromium and chromium-driver")
    python = environment("site-in-a-browser", _install)
    command = [str(python), "-m", "mkdocs", "build", "-q", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, env={**clean_environment(), "NO_MKDOCS_2_WARNING": "1"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_the_site_is_whole_in_a_browser(site: str) -> None:
    python = environment("site-in-a-browser", _install)
    command, child = [str(python), str(LOOK), site], {**os.environ, "SE_OFFLINE": "true"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=child)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["guides"] >= 25 and found["far"] == [], "pages that are not two clicks away"
    assert found["found"] > 0, "search finds nothing"
    assert found["wide"] == {"1280": [], "390": []}, "pages that are wider than the window"
    assert found["code"] == [], "blocks of code that are wider than their column, in a window of 1280 pixels"
