"""Builds releases with setuptools. Their description is README.md with absolute links: a registry shows it without our files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import links
from setuptools import build_meta
from setuptools.compat.py310 import tomllib

CHECKOUT = Path(__file__).resolve().parent.parent
DESCRIPTION = CHECKOUT / "build" / "description.md"


def description() -> str:
    source = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    return links.replaced((CHECKOUT / "README.md").read_text(), lambda link: f"{source}/{link}")


def _after_description(hook: Any) -> Any:
    def described(*about: Any, **more: Any) -> Any:
        DESCRIPTION.parent.mkdir(exist_ok=True)
        DESCRIPTION.write_text(description())
        return hook(*about, **more)

    return described


for name in build_meta.__all__:
    if name.startswith(("build_", "prepare_", "get_requires_")):
        globals()[name] = _after_description(getattr(build_meta, name))
