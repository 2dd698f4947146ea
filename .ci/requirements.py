"""Prints what pyproject.toml asks for, one requirement a line: the base and the extras that are named as arguments.

`test:boto3` is one package of the extra `test`. With `--only` the base is left out.
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


def wanted(extra: str) -> list[str]:
    """The requirements of `extra`, or those for one package of it where it is `extra:package`."""
    name, _, package = extra.partition(":")
    found = list(expand([f"{PROJECT['name']}[{name}]"]))
    if package:
        found = [each for each in found if re.split(r"[^\w.-]", each)[0] == package]
        if not found:
            raise SystemExit(f"the extra {name} of pyproject.toml has no package {package}")
    return found


if __name__ == "__main__":
    base = [] if "--only" in sys.argv else PROJECT["dependencies"]
    print("\n".join([*base, *(each for extra in sys.argv[1:] if extra != "--only" for each in wanted(extra))]))
