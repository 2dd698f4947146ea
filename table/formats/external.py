"""Files outside a table's folder, as readers find them.

Owns: nothing; the store of such a file is found by `backends.elsewhere`. Must not know: which locations are allowed.
"""

from __future__ import annotations

from ...backends.elsewhere import located

__all__ = ["located"]
