"""Prints a path of choices as a readable story, and as an id that replays it.

Owns: the text and the id. Must not know: why the story is of interest. Invariant: an id names its scenario and every choice,
so that it replays the same story with the same version of the product.
"""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable

from ..judging.invariants import Violation
from ..scenarios.scenario import Scenario
from .explorer import Choice, Exploration, Explorer, Step

_QUIET = ("manifest/", "bucket-0/", "schema/")


def tell(found: Exploration) -> str:
    """The shortest story that breaks a guarantee, step by step, with the id that replays it."""
    if found.violation is None:
        return f"{found}: no guarantee was broken"
    lines = [f"{found.scenario.name}: {found.violation}"]
    lines += [
        f"{number:>4}. {text}" for number, text in enumerate(_sentences(Explorer(found.scenario).story(found.path)), 1)
    ]
    return "\n".join([*lines, f"replay: {replay_id(found.scenario, found.path)}"])


def _sentences(steps: Iterable[Step]) -> list[str]:
    said: list[str] = []
    quiet: dict[str, int] = {}
    for step in steps:
        operation, _, key = step.request.partition(" ")
        if not step.fault and not step.told and key.startswith(_QUIET):
            quiet[step.actor] = quiet.get(step.actor, 0) + 1
            continue
        aside = quiet.pop(step.actor, 0)
        before = f"({aside} private requests) " if aside else ""
        fault = f" [{step.fault}]" if step.fault else ""
        reply = f" -> {step.reply}" if step.reply else ""
        told = "".join(f"; reported {t.commit}: {t.outcome}{f' ({t.detail})' if t.detail else ''}" for t in step.told)
        said.append(f"{step.actor}: {before}{operation} {key}{fault}{reply}{told}")
    return said


def replay_id(scenario: Scenario, path: Iterable[Choice]) -> str:
    """The replay id of a path.

    >>> from ..scenarios.catalogue import writers
    >>> parse_replay_id(replay_id(writers(2, 1), [(0, ""), (1, "cut")]))
    ('2 writers, 1 faults', ((0, ''), (1, 'cut')))
    """
    packed = zlib.compress(json.dumps([scenario.name, [list(choice) for choice in path]]).encode(), 9)
    return urlsafe_b64encode(packed).decode().rstrip("=")


def parse_replay_id(text: str) -> tuple[str, tuple[Choice, ...]]:
    """The scenario's name and the choices. Raises ValueError if the text is not a replay id."""
    try:
        name, path = json.loads(zlib.decompress(urlsafe_b64decode(text + "=" * (-len(text) % 4))))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"{text[:20]!r} is not a replay id") from error
    return str(name), tuple((int(actor), str(fault)) for actor, fault in path)


def replay(scenario: Scenario, path: Iterable[Choice]) -> tuple[list[Step], list[Violation]]:
    explorer = Explorer(scenario)
    path = tuple(path)
    world = explorer.first()
    for choice in path:
        world = explorer.moved(world, choice)
    return explorer.story(path), explorer.judge(world)
