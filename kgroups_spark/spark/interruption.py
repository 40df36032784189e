"""Ctrl-C and SIGTERM: the first ends the work with an exception in the main thread, the second the process. Imports
only the standard library, to handle signals early. PySpark installs its own handler, which calls the JVM from within
the interrupted call, so ours is installed again afterwards (session.py)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

SECONDS_TO_END_WORK = 10.0


class _Signals:
    """The signals that the process has received while a block of `interruptible` runs."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.are_held_back = False  # by uninterrupted
        # The work is done and its result printed: a signal from now on ends the process, which is about to end.
        self.process_ends = False
        # on_arrival: called at the first signal, each in its own thread, to end what a `finally` of the main thread
        # waits for. at_end: called at the second signal.
        self.on_arrival: list[Callable[[], object]] = []
        self.at_end: list[Callable[[], object]] = []
        # Held by code that acts on an unanswered signal.
        self.lock = threading.Lock()

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.process_ends or self.received is not None:
            end_at_once(number)
        self.received = number
        for act in self.on_arrival:
            threading.Thread(target=act, daemon=True).start()
        if not self.are_held_back:
            raise KeyboardInterrupt


SIGNALS = _Signals()


@contextmanager
def interruptible() -> Iterator[None]:
    """In the block, in the main thread alone: the first Ctrl-C or SIGTERM raises KeyboardInterrupt, for which libraries
    release their resources, a second one ends the process. No handler runs while it is in C (run_interruptibly helps).
    Python drops an exception in a finalizer: then the second signal ends the process."""
    if threading.current_thread() is not threading.main_thread() or is_in_force():
        yield
        return
    handlers = {number: signal.signal(number, SIGNALS.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items() if not SIGNALS.process_ends else ():
            signal.signal(number, handler)
        SIGNALS.received = None


def run_interruptibly(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """The result of the work, or its exception. The work runs in a thread, because no handler runs while the main
    thread is in C. If a signal arrives, `interrupt` ends the work, and then the signal's exception is raised."""
    if not is_in_force() or threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        interrupt()
        thread.join(SECONDS_TO_END_WORK)
        raise
    if errors:
        raise errors[0]
    return results[0]


def uninterrupted(work: Callable[[], T]) -> T:
    """The result of the work, or its exception; after a signal, KeyboardInterrupt once the work is done. For short work
    of DuckDB in the main thread: it turns an exception of the handler into an error of its own; its import aborts or
    drops it."""
    SIGNALS.are_held_back = True
    try:
        return work()
    finally:
        SIGNALS.are_held_back = False
        if SIGNALS.received is not None:
            raise KeyboardInterrupt


def is_in_force() -> bool:
    """Whether our handler is installed for Ctrl-C."""
    return signal.getsignal(signal.SIGINT) == SIGNALS.handle


@contextmanager
def still_in_force() -> Iterator[None]:
    """Installs our handler again after the block, if the block has replaced it."""
    before = is_in_force()
    try:
        yield
    finally:
        if before:
            signal.signal(signal.SIGINT, SIGNALS.handle)


def is_interruption(error: BaseException) -> bool:
    """Whether the error was raised by a signal, or in work that a signal has ended."""
    return isinstance(error, KeyboardInterrupt) or SIGNALS.received is not None


def how_it_ended() -> tuple[str, int]:
    """The word of a command that a signal has ended, and its exit code, as in a shell."""
    return ("terminated", 143) if SIGNALS.received == signal.SIGTERM else ("interrupted", 130)


def going_on(after: BaseException) -> None:
    """Continues at a prompt after Ctrl-C has ended a statement. Raises KeyboardInterrupt if the signal was SIGTERM."""
    if SIGNALS.received == signal.SIGTERM:
        raise KeyboardInterrupt from after
    with SIGNALS.lock:
        SIGNALS.received = None


def end_at_once(number: int) -> None:
    """Ends the process without a message, and without waiting for anything."""
    for act in SIGNALS.at_end:
        act()
    os._exit(128 + number)
