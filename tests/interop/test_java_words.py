"""The words that Apache Paimon parses strictly, in the classes of its releases: 1.4.2, and 2.0.0 where its jar is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.java.class_words import constant_text, enum_words
from interop.java.jvm import VERSION, bundle_jar
from interop.spark_env import connector
from paimon_words import ENUMS, TEXTS, constants

pytestmark = [pytest.mark.java, pytest.mark.given]


def test_the_recorded_words_are_those_of_the_jars() -> None:
    newer = connector()
    jars: dict[str, Path] = {VERSION: bundle_jar()} | ({} if newer is None else {"2.0.0": newer})
    for release, jar in jars.items():
        for enum in ENUMS:
            assert (enum_words(jar, enum) or []) == constants(enum, release), (release, enum)
        for (name, field), text in TEXTS.items():
            assert constant_text(jar, name, field) == text, (release, name)
