"""The search through all states of a model, breadth first: the first broken promise is told by the shortest story.

Owns: `explore`, `Found`. Must not know: what a model is about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)


class Explored(Protocol[State]):
    """A model: its first state, the next steps of each state, and what is wrong in one; empty text if nothing is."""

    def first(self) -> State: ...
    def moves(self, state: State) -> Iterable[tuple[str, State]]: ...
    def broken(self, state: State) -> str: ...
    def broken_end(self, state: State) -> str:
        """What is wrong in a state that has no next step."""
        ...


class Found(NamedTuple):
    """How many states a search has seen, what is broken (empty: nothing), and the shortest story of it."""

    states: int
    broken: str
    story: tuple[str, ...]


def explore(model: Explored[State]) -> Found:
    """Every order of all steps, until a promise is broken."""
    first = model.first()
    came: dict[State, tuple[State, str] | None] = {first: None}
    todo = deque([first])
    while todo:
        state = todo.popleft()
        following = list(model.moves(state))
        broken = "" if following else model.broken_end(state)
        if broken:
            return Found(len(came), broken, _story(came, state))
        for said, after in following:
            if after in came:
                continue
            came[after] = (state, said)
            broken = model.broken(after)
            if broken:
                return Found(len(came), broken, _story(came, after))
            todo.append(after)
    return Found(len(came), "", ())


def _story(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    """The steps that led to a state."""
    lines: list[str] = []
    step = came[state]
    while step is not None:
        lines.append(step[1])
        step = came[step[0]]
    return tuple(reversed(lines))
