"""moto's S3 as a process of its own, made honest: a conditional PUT is checked and applied under one lock.

Started by `s3.py` with the port as its only argument. Without the lock several of many simultaneous
`If-None-Match: *` PUTs win (moto checks, then puts), which is the very fault that the product must notice elsewhere.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from typing import Any

import moto.s3.responses
from moto.server import ThreadedMotoServer

LOCK = threading.RLock()


def locked(method: Any) -> Any:
    """The method, one caller at a time."""

    @functools.wraps(method)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with LOCK:
            return method(*args, **kwargs)

    return alone


def main(port: int) -> None:
    """Serves until it is ended."""
    for name in ("put_object", "_key_response_post", "copy_object", "delete_object"):
        setattr(moto.s3.responses.S3Response, name, locked(getattr(moto.s3.responses.S3Response, name)))
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]))
