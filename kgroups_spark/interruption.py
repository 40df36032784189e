"""Ctrl-C and SIGTERM: the first one ends the current work with an exception in the main thread, the second the process.

This module imports only the standard library, so that it can handle signals before other modules are loaded. PySpark
installs its own handler, which calls the JVM from within the interrupted call. Ours is therefore installed again
afterwards (session.py).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS_BEFORE_ANOTHER_TRY = 0.05
SECONDS_TO_END_WORK = 10.0


class Terminated(KeyboardInterrupt):
    """SIGTERM. For libraries, which release their resources, it is the same as Ctrl-C."""


class _Signals:
    """The signals that the process has received while a block of `interruptible` runs."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.comes_again = False
        # While the main thread is in C no handler runs, so fewer signals are handled than have arrived.
        self.arrived = 0
        self.handled = 0
        # The work is done and its result printed: a signal from now on ends the process, which is about to end.
        self.process_ends = False
        # on_arrival: called when a signal arrives, each in its own thread, to end the call that the main thread
        # waits for; otherwise its exception would not be raised. at_end: called at the second signal.
        self.on_arrival: list[Callable[[], object]] = []
        self.at_end: list[Callable[[], object]] = []
        # Held by code that acts on an unanswered signal.
        self.lock = threading.Lock()

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.handled += 1
        if self.process_ends or (self.received is not None and not self.comes_again):
            end_at_once(number)
        self.received, self.comes_again = number, False
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    @property
    def is_unanswered(self) -> bool:
        """Whether a signal has arrived whose exception has not been answered yet."""
        return self.received is not None or self.arrived > self.handled


SIGNALS = _Signals()


@contextmanager
def interruptible() -> Iterator[None]:
    """In the block, in the main thread: the first Ctrl-C raises KeyboardInterrupt, the first SIGTERM Terminated, and a
    second signal ends the process immediately. In other threads the block runs without that."""
    if threading.current_thread() is not threading.main_thread() or is_in_force():
        yield
        return
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    wakeup = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reads,), daemon=True).start()
    handlers = {number: signal.signal(number, SIGNALS.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    hook, sys.unraisablehook = sys.unraisablehook, _come_again(sys.unraisablehook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in handlers.items() if not SIGNALS.process_ends else ():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writes)  # ends the watcher
        SIGNALS.received = None


def _watch(pipe: int) -> None:
    """Calls `on_arrival` when a signal arrives. Ends the process at a second one if the main thread has not handled the
    first."""
    while numbers := os.read(pipe, 1):
        if numbers[0] in (signal.SIGINT, signal.SIGTERM):
            SIGNALS.arrived += 1
            if SIGNALS.arrived - SIGNALS.handled > 1:
                end_at_once(numbers[0])
            for act in SIGNALS.on_arrival:
                threading.Thread(target=act, daemon=True).start()
    os.close(pipe)


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


def is_termination(error: BaseException) -> bool:
    """Whether that signal was SIGTERM."""
    return isinstance(error, Terminated) or SIGNALS.received == signal.SIGTERM


def going_on(after: BaseException) -> None:
    """Continues at a prompt after Ctrl-C has ended a statement. Raises Terminated if the signal was SIGTERM."""
    if is_termination(after):
        raise Terminated from after
    with SIGNALS.lock:
        SIGNALS.received = None


def exit_code(number: int) -> int:
    """The exit code of that signal in a shell: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def end_at_once(number: int) -> None:
    """Ends the process without a message, and without waiting for anything."""
    for act in SIGNALS.at_end:
        act()
    os._exit(exit_code(number))


def _come_again(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """A hook for exceptions in finalizers, which Python drops: it sends a dropped signal again a little later."""

    def come_again(lost: Any) -> object:
        if not issubclass(lost.exc_type, KeyboardInterrupt) or SIGNALS.received is None:
            return hook(lost)
        again = threading.Timer(SECONDS_BEFORE_ANOTHER_TRY, _send_again, (SIGNALS.received,))
        again.daemon = True
        again.start()
        return None

    return come_again


def _send_again(number: int) -> None:
    ident = threading.main_thread().ident
    if ident is not None and SIGNALS.received is not None:
        SIGNALS.comes_again = True
        signal.pthread_kill(ident, number)
