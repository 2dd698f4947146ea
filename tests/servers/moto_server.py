"""moto's S3 in a separate process, with a lock under which a conditional PUT is checked and applied.

`s3.py` starts it with the port as its only argument. moto checks a condition before it stores the object. So without the
lock, several of many simultaneous `If-None-Match: *` PUTs would win, which is a fault that lakelatch must detect in stores.
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
    """The method, called under the lock."""

    @functools.wraps(method)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with LOCK:
            return method(*args, **kwargs)

    return alone


def main(port: int) -> None:
    """Serve until the process is stopped."""
    for name in ("put_object", "_key_response_post", "copy_object", "delete_object"):
        setattr(moto.s3.responses.S3Response, name, locked(getattr(moto.s3.responses.S3Response, name)))
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]))
