"""Scenarios of processes that use a table around a fork and at their end. Each scenario runs as one process.

Run as a program: `python -m processes.lives SCENARIO URL STORAGE_OPTIONS`. The table at the URL has one column, `v`. A scenario
ends with status 0 if all its checks pass. `NEVER` is a row that no scenario may leave behind.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import lakelatch as ll

CHILD_SECONDS = 60
NEVER = -1


def append(table: ll.Table, *values: int) -> ll.Receipt:
    return table.append(pa.table({"v": pa.array(values, pa.int64())}))


def child(table: ll.Table, does: Callable[[], None], leave: Callable[[int], Any] = os._exit) -> int:
    """Fork a child that calls `does`, and return its process id. An alarm ends a child that hangs."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(CHILD_SECONDS)
    try:
        does()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    leave(0)
    raise AssertionError("the child should have ended")


def ended_well(*children: int) -> None:
    for pid in children:
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"child {pid} ended with {status}"


def with_a_client_of_its_own(table: ll.Table) -> ll.Table:
    """The same table with a new client, which has no connections yet."""
    given = json.loads(sys.argv[3])
    return ll.open_table(table.url, storage_options={**given, "request_timeout": 29} if given else {})


# -------------------------------------------------------------------------------------------------------------- forks


def children_append_and_read(table: ll.Table) -> None:
    append(table, 0)
    table.committer.settle()
    table.to_arrow()

    def in_child() -> None:
        append(table, 1)
        append(table, 2)
        table.committer.settle()
        assert sorted(table.to_arrow()["v"].to_pylist()) == [0, 1, 2]

    ended_well(child(table, in_child))
    append(table, 3)
    assert sorted(table.to_arrow()["v"].to_pylist()) == [0, 1, 2, 3]
    table.committer.settle()


def a_forked_pool_of_four(table: ll.Table) -> None:
    append(table, 0)
    global held
    held = table
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert sorted(pool.map_async(_append_held, range(1, 13)).get(timeout=CHILD_SECONDS)) == list(range(1, 13))
    append(table, 13)


def _append_held(value: int) -> int:
    append(held, value)
    assert value in held.to_arrow()["v"].to_pylist()
    return value


held: ll.Table


def forks_while_a_thread_appends(table: ll.Table) -> None:
    append(table, 0)
    forked = threading.Event()
    told: list[int] = []

    def work() -> None:
        value = 100
        while value < 110 or (value < 200 and not forked.is_set()):
            append(table, value)
            told.append(value)
            value += 1

    thread = threading.Thread(target=work)
    thread.start()
    children = []
    for number in range(1, 7):
        time.sleep(0.02)
        leave = os._exit if number % 2 else sys.exit
        children.append(child(table, lambda number=number: append(table, number), leave))  # type: ignore[misc]
    ended_well(*children)
    forked.set()
    thread.join(CHILD_SECONDS)
    assert not thread.is_alive(), "the parent's own append hangs"
    append(table, *(-value for value in told))


def a_child_forks_again(table: ll.Table) -> None:
    append(table, 0)

    def in_child() -> None:
        append(table, 1)
        ended_well(child(table, lambda: append(table, 2)))  # type: ignore[arg-type,return-value]
        append(table, 3)

    ended_well(child(table, in_child))
    append(table, 4)


def children_leave(table: ll.Table) -> None:
    """Children end by `os._exit` or `sys.exit`, with or without using the table; the parent's table still works."""
    append(table, 0)
    value = 1
    for leave in (os._exit, sys.exit):
        for uses in (True, False):
            ended_well(child(table, lambda value=value, uses=uses: uses and append(table, value), leave))  # type: ignore[misc]
            began = time.monotonic()
            append(table, value + 1)
            assert table.count() > 0
            assert time.monotonic() - began < 10, "the end of the child broke something of the parent"
            value += 2


# --------------------------------------------------------------------------------------------------------------- ends


def append_in_an_exit_handler(table: ll.Table) -> None:
    append(table, 0)

    def last() -> None:
        append(table, 1)
        assert table.count() == 2
        append(with_a_client_of_its_own(table), 2)
        print("acknowledged", flush=True)

    atexit.register(last)


def first_append_in_an_exit_handler(table: ll.Table) -> None:
    atexit.register(lambda: (append(table, 0), append(table, 1), print("acknowledged", flush=True)))


def a_thread_outlives_main(table: ll.Table) -> None:
    append(table, 0)

    def work() -> None:
        threading.main_thread().join()
        time.sleep(0.1)  # by now the interpreter has shut its executors down
        for value in (1, 2, 3):
            append(table, value)
        assert table.to_arrow().num_rows == 4
        print("acknowledged", flush=True)

    threading.Thread(target=work).start()


def a_daemon_appends_while_the_interpreter_ends(table: ll.Table) -> None:
    """All commits are whole, and the only error is that the interpreter ended the thread."""

    under_way = threading.Event()

    def work() -> None:
        value = 0
        while True:
            append(table, value, value)
            under_way.set()
            value += 1

    threading.Thread(target=work, daemon=True).start()
    assert under_way.wait(CHILD_SECONDS)


def no_thread_can_be_had(table: ll.Table) -> None:
    """The system refuses new threads, because their stacks exceed the memory limit."""
    threading.stack_size(1 << 40)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 38, resource.RLIM_INFINITY))
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        assert "can't start new thread" in str(error)
    else:
        raise AssertionError("a thread could be started")
    for value in range(3):
        append(table, value)
    assert sorted(table.to_arrow()["v"].to_pylist()) == [0, 1, 2]


def interrupt_again(lost: Any) -> None:
    """Python drops an interrupt that arrives in a destructor (pyarrow's writers have one), and says so here."""
    if lost.exc_type is KeyboardInterrupt:
        os.kill(os.getpid(), signal.SIGINT)


def interrupted(table: ll.Table) -> None:
    """Fork children that append until they are interrupted, and print how each one ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with interrupts ignored
    append(table, 0, 0, 0)
    for number in range(int(os.environ["INTERRUPTS"])):
        begun, begins = os.pipe()
        pid = os.fork()
        if pid == 0:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  fifty tracebacks are expected
            sys.unraisablehook = interrupt_again
            os.write(begins, b"!")  # Python loses an interrupt that arrives while it resumes after the fork
            while True:
                append(table, number, number, number)
        os.read(begun, 1)
        time.sleep((number * 7919 % 97) / 400)
        os.kill(pid, signal.SIGINT)
        began = time.monotonic()
        while not (gone := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() - began > CHILD_SECONDS:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("an interrupted process does not end")
            time.sleep(0.005)
        os.close(begun)
        os.close(begins)
        print("ended by", os.waitstatus_to_exitcode(gone[1]), flush=True)


SCENARIOS: dict[str, Callable[[ll.Table], None]] = {
    scenario.__name__: scenario
    for scenario in (
        children_append_and_read,
        a_forked_pool_of_four,
        forks_while_a_thread_appends,
        a_child_forks_again,
        children_leave,
        append_in_an_exit_handler,
        first_append_in_an_exit_handler,
        a_thread_outlives_main,
        a_daemon_appends_while_the_interpreter_ends,
        no_thread_can_be_had,
        interrupted,
    )
}

if __name__ == "__main__":
    _, name, url, given = sys.argv
    SCENARIOS[name](ll.open_table(url, storage_options=json.loads(given)))
