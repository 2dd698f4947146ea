"""Which Java the tests use: the one that set-up chose (`.venv/java-home`), else `JAVA_HOME`.

Spark's launcher, JPype and child processes all read `JAVA_HOME`, so `wire` sets it once for the whole run. Every Java that
the `java` command starts, also the one of a page's script, skips the slow compiler: it never pays off in a test's seconds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def wire() -> Path:
    """Sets `JAVA_HOME`, and the options of a short-lived Java, for this process and its children.

    Raises:
        RuntimeError: set-up was not run and `JAVA_HOME` is not set.
    """
    chosen = Path(sys.prefix) / "java-home"
    home = chosen.read_text().strip() if chosen.exists() else os.environ.get("JAVA_HOME", "")
    if not home:
        raise RuntimeError("no Java was chosen: run `make setup`, or set JAVA_HOME to a Java 17 to 21")
    os.environ["JAVA_HOME"] = home
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)
    return Path(home)
