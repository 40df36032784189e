"""Ctrl-C and SIGTERM: the work in hand ends by an exception in the main thread, and a second signal ends the process.

Nothing but the standard library is imported here, so that this is in force before the rest is loaded. PySpark puts a
handler of its own in place, which talks to the JVM inside whatever call was interrupted: ours goes back after it
(session.py).
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
    """SIGTERM; to libraries, which let go of what they hold, the same as Ctrl-C."""


class _Signals:
    """The signals that have come to this process while a block of `interruptible` runs."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.comes_again = False
        # While the main thread is in C no handler runs, and fewer are handled than have arrived.
        self.arrived = 0
        self.handled = 0
        # The work is done, and all is said: what comes now ends the process, which is about to end.
        self.process_ends = False
        # When the first signal has arrived, each in a thread of its own: what the main thread waits for is to end, else
        # it does not get to its exception. At the second signal.
        self.on_arrival: list[Callable[[], object]] = []
        self.at_end: list[Callable[[], object]] = []
        # Held while something acts on an unanswered signal.
        self.lock = threading.Lock()

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.handled += 1
        if self.process_ends or (self.received is not None and not self.comes_again):
            end_at_once(number)
        self.received, self.comes_again = number, False
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    @property
    def is_unanswered(self) -> bool:
        """Whether a signal has come, and the work goes on or ends because of it."""
        return self.received is not None or self.arrived > self.handled


SIGNALS = _Signals()


@contextmanager
def interruptible() -> Iterator[None]:
    """In the block, in the main thread: the first Ctrl-C raises KeyboardInterrupt, SIGTERM Terminated, and a second one
    ends the process at once. Elsewhere the block runs as it is."""
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
    """Has done what is to be done when a signal arrives, and ends the process at a second one of which the main thread
    does not get to see the first."""
    while numbers := os.read(pipe, 1):
        if numbers[0] in (signal.SIGINT, signal.SIGTERM):
            SIGNALS.arrived += 1
            if SIGNALS.arrived - SIGNALS.handled > 1:
                end_at_once(numbers[0])
            for act in SIGNALS.on_arrival:
                threading.Thread(target=act, daemon=True).start()
    os.close(pipe)


def run_interruptibly(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """The result of the work, or its exception. It runs in a thread, because no handler runs while the main thread is
    in C: where a signal comes, `interrupt` ends the work, and the signal's exception is raised after it."""
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
    """Whether Ctrl-C comes here."""
    return signal.getsignal(signal.SIGINT) == SIGNALS.handle


@contextmanager
def still_in_force() -> Iterator[None]:
    """A handler that the block puts in place of ours goes again."""
    before = is_in_force()
    try:
        yield
    finally:
        if before:
            signal.signal(signal.SIGINT, SIGNALS.handle)


def is_interruption(error: BaseException) -> bool:
    """Whether that was raised by a signal, or by what a signal has ended."""
    return isinstance(error, KeyboardInterrupt) or SIGNALS.received is not None


def going_on(after: BaseException) -> None:
    """Ctrl-C has done what it was typed for, at a prompt; raises Terminated where it was SIGTERM."""
    if isinstance(after, Terminated) or SIGNALS.received == signal.SIGTERM:
        raise Terminated from after
    with SIGNALS.lock:
        SIGNALS.received = None


def exit_code(number: int) -> int:
    """The exit code that a shell gives that signal: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def end_at_once(number: int) -> None:
    """Without a word, and without waiting for anything."""
    for act in SIGNALS.at_end:
        act()
    os._exit(exit_code(number))


def _come_again(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """A hook for exceptions in finalizers, which are lost: a lost interruption comes again a little later."""

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
