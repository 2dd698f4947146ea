"""The real Apache Paimon (Java) in a JVM inside the test process, through JPype.

from interop.java import PaimonJava
java = PaimonJava()
java.rows(path, snapshot=3)
"""

from __future__ import annotations

from .paimon import PaimonJava

__all__ = ["PaimonJava"]
