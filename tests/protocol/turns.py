"""Threads that run one at a time, each until its next step. A function chooses the next thread, and so the
interleaving."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

# Chooses the next thread: takes the names of the threads that have not ended, and returns one of them.
Choose = Callable[[list[str]], str]


class Turns:
    """Runs functions as threads with these names; a thread waits for its next turn in `step`."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._turn: dict[str, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self.steps: dict[str, int] = {}
        self.failed: dict[str, BaseException] = {}
        self.answers: dict[str, Any] = {}

    def step(self) -> None:
        """Waits for the next turn; does nothing in any other thread."""
        name = threading.current_thread().name
        if name in self._turn:
            self.steps[name] += 1
            self._back.release()
            self._turn[name].acquire()

    def run(self, **functions: Callable[[], Any]) -> Turns:
        """Runs the functions until all have ended; keeps the results and exceptions by name."""
        alive = list(functions)
        for name, function in functions.items():
            self._turn[name], self.steps[name] = threading.Semaphore(0), 0
            threading.Thread(target=self._whole, args=(name, function), name=name, daemon=True).start()
        while alive:
            name = self._choose(alive)
            self._turn[name].release()
            self._back.acquire()
            if name in self.answers or name in self.failed:
                alive.remove(name)
        return self

    def _whole(self, name: str, function: Callable[[], Any]) -> None:
        self._turn[name].acquire()
        try:
            self.answers[name] = function()
        except Exception as error:
            self.failed[name] = error
        finally:
            self._back.release()


def by_stretches(*stretches: tuple[str, int]) -> Choose:
    """The given number of steps of each named thread, in this order; then each runs to its end."""
    plan: list[list[Any]] = [[name, steps] for name, steps in stretches]

    def choose(alive: list[str]) -> str:
        while plan and (plan[0][0] not in alive or plan[0][1] == 0):
            plan.pop(0)
        if not plan:
            return alive[-1]
        plan[0][1] -= 1
        return plan[0][0]

    return choose


TO_ITS_END = 1 << 20
