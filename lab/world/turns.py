"""Functions that stop in the middle and go on later, each in a thread of its own, of which only one ever runs.

Owns: `Turn`. Must not know: what the functions do, why they wait. Invariant: nothing depends on how threads are scheduled: a
function runs only while its caller waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .stage import Died


class Turn:
    """A function that runs in a thread of its own, and only while another thread waits for it.

    >>> turn = Turn(lambda: print("got", turn.ask("a question")))
    >>> turn.resume(None), turn.over
    ('a question', False)
    >>> turn.resume("an answer"), turn.over
    got an answer
    (None, True)
    """

    def __init__(self, play: Callable[[], None]) -> None:
        self._play = play
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._given: Any = None
        self._asked: Any = None
        self.failure: BaseException | None = None
        self.over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resume(self, given: Any) -> Any:
        """Run the function until it asks for something, which is returned; None if it has ended. `given` is the answer
        to what it asked for; an instance of `Died` is raised in the function, and ends it.
        """
        self._given, self._asked = given, None
        self._go.release()
        self._back.acquire()
        if self.over:
            self._thread.join()
        if self.failure is not None:
            raise self.failure
        return self._asked

    def ask(self, what: Any) -> Any:
        """Called by the function: hand over control, and wait for an answer."""
        self._asked = what
        self._back.release()
        self._go.acquire()
        if isinstance(self._given, Died):
            raise self._given
        return self._given

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not isinstance(self._given, Died):
                self._play()
        except Died:
            pass
        except BaseException as failure:
            self.failure = failure
        self.over = True
        self._back.release()
