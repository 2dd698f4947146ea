"""Which texts are blank to Java, and what `listagg` makes of them."""

from __future__ import annotations

import sys
import unicodedata

from lakelatch.table.merging.aggregates.texts import is_blank

NO_BREAK = {"\u00a0", "\u2007", "\u202f"}
CONTROLS = {chr(code) for code in (9, 10, 11, 12, 13, 28, 29, 30, 31)}


def test_a_character_is_blank_if_java_calls_it_white_space() -> None:
    """`Character.isWhitespace`: a space, line or paragraph separator of Unicode that may break, or one of a few controls."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        separates = unicodedata.category(character) in ("Zs", "Zl", "Zp") and character not in NO_BREAK
        assert is_blank(character) == (separates or character in CONTROLS), hex(code)
    assert is_blank("") and is_blank(" \t\u3000") and not is_blank(" a ") and not is_blank("\u00a0 ")
