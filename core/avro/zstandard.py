"""zstd: from Python 3.14 on of the standard library, before that of `backports.zstd`, which has the same names.

Owns: which of the two. Must not know: what is compressed. Import it where it is used: not every process needs zstd.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
