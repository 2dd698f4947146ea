"""The description of a release is README.md with absolute links: on a registry's page no file lies beside it."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.compat.py310 import tomllib

CHECKOUT = Path(__file__).resolve().parent
sys.path.insert(0, str(CHECKOUT / ".ci"))
import links  # noqa: E402

source = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
setup(
    script_name="setup.py",  # which is no module of the package, although it lies in the package's folder
    long_description=links.replaced((CHECKOUT / "README.md").read_text(), lambda link: f"{source}/{link}"),
    long_description_content_type="text/markdown",
)
