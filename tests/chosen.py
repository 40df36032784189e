"""`make test` runs some of many cases, chosen by a printed seed; `make soak` runs all of them.

A test with the fixture `chosen` exists twice: `[some]` is part of `make test`, `[every]` has the marker `soak`. Its
body calls `chosen.some(cases, 3)`: `[some]` gets three of the cases, `[every]` all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    import hypothesis

Case = TypeVar("Case")

# An environment variable: it reaches pytest-xdist's processes, too.
VARIABLE = "KGROUPS_TEST_SEED"


def seed() -> int:
    """The seed of this run: the variable's, or a new one, which is stored there."""
    return int(os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(1 << 32))))


def some_of(count: int, *cases: Any) -> list[Any]:
    """The cases as parameters. `make test` runs `count` of them, chosen by the seed; the others are part of the
    soak."""
    named = [getattr(case, "__name__", case) for case in cases]  # a function's repr has its address
    taken = random.Random(f"{seed()} {named}").sample(range(len(cases)), count)
    return [case if n in taken else pytest.param(case, marks=pytest.mark.soak) for n, case in enumerate(cases)]


def one_of(*cases: Any) -> list[Any]:
    """The same as some_of, with one case."""
    return some_of(1, *cases)


# A soak tries this many times as many examples of a law as `make test`.
SOAK_TIMES = 20


def examples(count: int, **settings: Any) -> hypothesis.settings:
    """Settings for `count` examples of a law, at any speed; in a soak SOAK_TIMES as many."""
    import hypothesis  # a tenth of a second for a process that only distributes tests

    return hypothesis.settings(max_examples=count * (SOAK_TIMES if Laws.in_a_soak else 1), deadline=None, **settings)


class Laws:
    """Settings of laws, set before tests are collected."""

    in_a_soak = False


def marks_of(case: str, *cases: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a case, if `make test` runs one of `cases`, chosen by the seed: none, or the soak's."""
    taken = random.Random(f"{seed()} {cases}").choice(cases)
    return () if case == taken else (pytest.mark.soak,)


# Tests that take long: `make test` runs one of each line, by the seed; a soak runs all of them. A test names its entry
# in `pytest.mark.in_turn`.
IN_TURN = (
    # Nights by Spark: a job on a cluster, its lake on S3; nights on a cluster whose tasks and executors fail; a lake on
    # S3 by a process on this machine; a lake that is also written without Spark; one whose files are carried.
    ("a job on a cluster", "nights that fail on a cluster", "a lake on S3", "a lake of two engines", "carried files"),
    # Brokers of their own, or clients for half a minute: leaders that move, logs that lose their beginning or end, ...
    ("leaders that move", "logs that change", "streams groups", "members that wait"),
    ("dead letters", "lag", "Kafka's tools", "logs of all coordinators"),
    # Each of them starts Spark, or has it rewrite files that an audit wrote.
    ("secrets", "files that others wrote", "upkeep by Delta"),
    # pip builds or installs.
    ("ranges of readers", "files of the wheel"),
    # Views and functions that both engines answer alike, over recorded logs; over Delta's files, or rows made by hand.
    ("recorded logs", "a moment of recorded logs"),
    ("a moment of state logs", "files of nights", "owners in Spark"),
    # A signal to a process with Spark that audits; Ctrl-C at the prompt, while Spark answers; SIGKILL to an audit, to
    # its JVM.
    ("signals in an audit", "Ctrl-C at the prompt", "a killed audit", "a killed JVM"),
    # A notebook in a kernel, with its own process; one in the session of the tests.
    ("a notebook in a kernel", "a notebook on Spark"),
    # Random logs, cut into tiny chunks or into nights and ranges.
    ("tiny chunks", "nights and ranges"),
    ("dense logs in nights", "old formats in nights"),
    # Random logs that the cleaner changes between nights: what it leaves, and what it should have left.
    ("cleaned after a read", "cleaned before a read"),
    ("forgetful logs", "read again in any night"),
    # Random logs that are cut back; a lake of one, reduced.
    ("cut back anywhere", "cut back and cleaned", "cut back into reduced history"),
    # Events of random logs, of many times or of one.
    ("events in nights", "events of one time"),
)


def is_its_turn(what: str) -> bool:
    """Whether `make test` runs this one of its line."""
    (line,) = (each for each in IN_TURN if what in each)
    return not marks_of(what, *line)


class Chosen:
    """The choices of one test: the same for the same seed and the same test."""

    def __init__(self, test: str, every: bool) -> None:
        self.every, self.random = every, random.Random(f"{seed()} {test}")

    def some(self, cases: Iterable[Case], count: int, always: Collection[Case] = ()) -> list[Case]:
        """`count` of the cases and all of `always`, in their order; in a soak all cases."""
        given = list(cases)
        others = [number for number, case in enumerate(given) if case not in always]
        taken = set(self.random.sample(others, min(count, len(others))))
        found = [case for n, case in enumerate(given) if self.every or n in taken or case in always]
        if not self.every:
            print(f"{VARIABLE}={seed()} chose: {found}")  # noqa: T201  pytest shows it if the test fails
        return found

    def takes(self, share: float) -> bool:
        """Whether to take the next case, when the number of cases is not known yet; always true in a soak."""
        return self.random.random() < share or self.every

    def one(self, cases: Iterable[Case]) -> Case:
        """One of the cases, even in a soak: for tests in which each case of another kind needs one of this kind."""
        return self.random.choice(list(cases))
