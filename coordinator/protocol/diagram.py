"""Draws the commit machine from its transition table.

Owns: the Mermaid text in docs/commit-machine.md. Must not know: anything but the table.
Invariant: the page equals this module's output; a test compares the two.
"""

from __future__ import annotations

from .machine import TRANSITIONS, Phase


def mermaid() -> str:
    """The state diagram, one arrow per pair of phases, labelled with the events that take it.

    >>> mermaid().splitlines()[0]
    'stateDiagram-v2'
    """
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, event), transition in TRANSITIONS.items():
        for after in transition.leads_to:
            arrows.setdefault((phase, after), []).append(event.__name__)
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.COLLECT.name}"]
    lines += [f'    state "{phase.value}" as {phase.name}' for phase in Phase]
    lines += [f"    {a.name} --> {b.name}: {', '.join(events)}" for (a, b), events in arrows.items()]
    return "\n".join([*lines, f"    {Phase.DONE.name} --> [*]"])


def page() -> str:
    rows = [
        f"| {phase.value} | {event.__name__} | {', '.join(p.value for p in transition.leads_to)} |"
        for (phase, event), transition in TRANSITIONS.items()
    ]
    table = "\n".join(["| in phase | the event | leads to |", "|---|---|---|", *rows])
    intro = "Generated from the transition table: `make diagram`. The prose is in `coordinator/protocol/machine.py`."
    legend = "*publish* is what the format calls the atomic rename: one atomic create of the snapshot file."
    return f"# The commit machine\n\n{intro} {legend}\n\n```mermaid\n{mermaid()}\n```\n\n{table}\n"
