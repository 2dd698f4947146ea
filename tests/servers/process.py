"""Child processes that serve on a port of 127.0.0.1 and die with their parent.

Owns: free ports, start-up waits, the end. Must not know: what is served.
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
    """This machine lacks what a server is built or run with; a server that is there and does not start is no such thing."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on. Another process may take it before you do: be ready to try again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_a_free_port(start: Callable[[], T]) -> T:
    """What `start` answers; tried again where somebody else took its port in between."""
    for _ in range(2):
        try:
            return start()
        except RuntimeError:
            continue
    return start()


def start(
    command: Sequence[str], port: int, *, environment: Mapping[str, str], timeout_s: float = 120.0
) -> subprocess.Popen[bytes]:
    """Starts a server and waits until it accepts connections.

    Args:
        command: program (its path) and arguments.
        port: where it will listen on 127.0.0.1.
        environment: its whole environment.
        timeout_s: how long to wait for the port, seconds.

    Raises:
        RuntimeError: it ended or did not listen in time; the message ends with what it printed.
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
    """Ends the child: asks first, then insists."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()


def _become(command: list[str]) -> None:
    """In the child: asks to be killed when the parent ends (Linux), so that no server outlives its run, and serves."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execv(command[0], command)


if __name__ == "__main__":
    _become(sys.argv[1:])
