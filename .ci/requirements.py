"""Prints what pyproject.toml asks for, one requirement a line: the base and the extras that are named as arguments.

The checkout itself is never installed: tools see it through the link `.tools/lakelatch`. Runs with the standard
library of Python >= 3.10 and pip.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def expand(requirements: list[str]) -> Iterator[str]:
    """The requirements, with `lakelatch[a,b]` replaced by what the extras a and b hold."""
    for requirement in requirements:
        own = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", requirement)
        if own is None:
            yield requirement
        else:
            for extra in own[1].split(","):
                yield from expand(PROJECT["optional-dependencies"][extra.strip()])


if __name__ == "__main__":
    print("\n".join(expand([*PROJECT["dependencies"], *(f"{PROJECT['name']}[{extra}]" for extra in sys.argv[1:])])))
