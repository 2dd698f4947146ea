"""Another release of Apache Paimon in a process of its own, because a process has one JVM: `PaimonJava` from afar.

Owns: `OtherRelease`, and the process that answers it. Must not know: what is asked. Arguments and answers are JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import java_home


class OtherRelease:
    """Has the methods of `PaimonJava` whose arguments and answers JSON can say."""

    def __init__(self, jar: Path) -> None:
        command = [sys.executable, "-m", "interop.java.release_child", str(jar)]
        env = {**os.environ, "JAVA_HOME": str(java_home.wire()), "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._ask([method, arguments, named])

    def _ask(self, what: list[Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what, default=str) + "\n")
        self._process.stdin.flush()
        found, error = json.loads(self._process.stdout.readline())
        if error is not None:
            raise RuntimeError(error)
        return found

    def close(self) -> None:
        self._process.communicate()


def main(jar: str) -> None:
    from . import PaimonJava, jvm

    jvm.start(Path(jar))
    java = PaimonJava()
    for line in sys.stdin:
        method, arguments, named = json.loads(line)
        try:
            answer = [getattr(java, method)(*arguments, **named), None]
        except Exception as error:
            answer = [None, f"{method}: {error}"[:2000]]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
