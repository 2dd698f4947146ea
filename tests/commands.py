"""The commands of the shell as its parser has them, and the page of the reference that is made of them.

Owns: walking the parser, `page`. Must not know: what a command does. As a program (`PYTHONPATH=.tools .venv/bin/python
tests/commands.py`) it writes the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from lakelatch.cli.frame.exit_codes import MEANINGS
from lakelatch.cli.main import build_parser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"
_HEAD = """# Commands

What `lakelatch` can do in a shell, as its help says it. `lakelatch COMMAND --help` lists the arguments of a command. Each takes
`--json`, which prints JSON with stable keys: one object, or one for each line. Commands that delete something show what would go,
and do it with `--apply`.

| exit code | meaning |
|---|---|
"""


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its words, those of commands within commands too. Other names of one are left out."""
    return {" ".join(words): parser for words, parser in _walk(build_parser(), ())}


def page() -> str:
    """The text of the page: what each command does, with its example."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in MEANINGS.items())
    parts = (f"\n## lakelatch {name}\n\n{_about(p)}\n\n```sh\n{_example(p)}\n```\n" for name, p in commands().items())
    return _HEAD + codes + "".join(parts)


def _walk(
    parser: argparse.ArgumentParser, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield words, parser
    for group in groups:
        first_names = {id(inner): word for word, inner in reversed(group.choices.items())}
        for word, inner in group.choices.items():
            if first_names[id(inner)] == word:
                yield from _walk(inner, (*words, word))


def _about(parser: argparse.ArgumentParser) -> str:
    return " ".join((parser.description or "").split())


def _example(parser: argparse.ArgumentParser) -> str:
    lines = (parser.epilog or "").splitlines()
    return "\n".join(line.strip() for line in lines if line.startswith("  "))


if __name__ == "__main__":
    PAGE.write_text(page())
