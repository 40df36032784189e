"""`make test` takes some of many cases, by a seed that is printed; `make soak` takes all of them.

A test with the fixture `chosen` exists twice: `[some]` is part of `make test`, `[every]` has the marker `soak`. Its
body asks for `chosen.some(cases, 3)`: `[some]` gets three of the cases, `[every]` all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import hypothesis
import pytest

Case = TypeVar("Case")
# Nights by Spark's writer cost ten times those by parts: one of them is part of `make test` (audit/test_run.py).
by_each_writer = pytest.mark.parametrize(
    "writer", ["parts", pytest.param("spark", marks=[pytest.mark.soak, pytest.mark.spark])]
)

# An environment variable: it reaches pytest-xdist's processes, too.
VARIABLE = "KGROUPS_TEST_SEED"


def seed() -> int:
    """The seed of this run: that of the variable, or a new one, which goes there."""
    return int(os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(1 << 32))))


def some_of(count: int, *cases: Any) -> list[Any]:
    """The cases as parameters, of which `make test` takes so many, by the seed; the others are part of the soak."""
    taken = random.Random(f"{seed()} {cases}").sample(range(len(cases)), count)
    return [case if n in taken else pytest.param(case, marks=pytest.mark.soak) for n, case in enumerate(cases)]


def one_of(*cases: Any) -> list[Any]:
    """The same of one."""
    return some_of(1, *cases)


# A soak tries so many times as many examples of a law as `make test`.
SOAK_TIMES = 20


def examples(count: int, **settings: Any) -> hypothesis.settings:
    """So many examples of a law, at any speed; in a soak, of which laws are part, SOAK_TIMES as many."""
    return hypothesis.settings(max_examples=count * (SOAK_TIMES if Laws.in_a_soak else 1), deadline=None, **settings)


class Laws:
    """Set before tests are read."""

    in_a_soak = False


def marks_of(case: str, *cases: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a case of which `make test` takes one, by the seed: none, or that of the soak."""
    taken = random.Random(f"{seed()} {cases}").choice(cases)
    return () if case == taken else (pytest.mark.soak,)


class Chosen:
    """The choices of one test: the same for the same seed and the same test."""

    def __init__(self, test: str, every: bool) -> None:
        self.every, self.random = every, random.Random(f"{seed()} {test}")

    def some(self, cases: Iterable[Case], count: int, always: Collection[Case] = ()) -> list[Case]:
        """So many of the cases and those of them to be taken always, in their order; in a soak all of them."""
        given = list(cases)
        others = [number for number, case in enumerate(given) if case not in always]
        taken = set(self.random.sample(others, min(count, len(others))))
        found = [case for n, case in enumerate(given) if self.every or n in taken or case in always]
        if not self.every:
            print(f"{VARIABLE}={seed()} chose: {found}")  # noqa: T201  pytest shows it if the test fails
        return found

    def takes(self, share: float) -> bool:
        """Whether a case is taken that comes when nobody knows yet how many there are; in a soak it is."""
        return self.random.random() < share or self.every

    def one(self, cases: Iterable[Case]) -> Case:
        """One of the cases, in a soak as well: where each case of another kind takes one of this kind."""
        return self.random.choice(list(cases))
