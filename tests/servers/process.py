"""Child processes that serve on a port of 127.0.0.1 and die with their parent.

Owns: free ports, waiting for the start, the end. Must not know: what is served.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1


class NotInstalled(RuntimeError):
    """This machine lacks a program to build or run a server. A server that fails to start is a different error."""


def free_port() -> int:
    """A free port of 127.0.0.1. Another process may take it before the caller, so callers must be ready to try again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_a_free_port(start: Callable[[], T]) -> T:
    """The result of `start`, which is called again if another process has taken the port in the meantime."""
    for _ in range(2):
        try:
            return start()
        except RuntimeError:
            continue
    return start()


def start(
    command: Sequence[str], port: int, *, environment: Mapping[str, str], timeout_s: float = 120.0
) -> subprocess.Popen[bytes]:
    """Start a server and wait until it accepts connections.

    Args:
        command: the path of the program, and its arguments.
        port: the port of 127.0.0.1 on which it will listen.
        environment: the complete environment of the process.
        timeout_s: how many seconds to wait for the port.

    Raises:
        RuntimeError: The server ended or did not listen in time. The message ends with its output.
    """
    output = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the child
    child = subprocess.Popen(
        [sys.executable, "-I", __file__, *command],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
            continue
        if child.poll() is None:
            return child
    stop(child)
    output.seek(0)
    raise RuntimeError(f"{command[0]} did not start on port {port}: {output.read()[-2000:].decode(errors='replace')}")


def stop(child: subprocess.Popen[bytes]) -> None:
    """Stop the child with SIGTERM, and with SIGKILL if it does not end."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()


def _become(command: list[str]) -> None:
    """Run the server in the child, which Linux kills when the parent ends, so that no server outlives its run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execv(command[0], command)


if __name__ == "__main__":
    _become(sys.argv[1:])
