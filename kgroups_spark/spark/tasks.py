"""One shape for all work of tasks: each task gets a table, and returns lines; all code that reads or writes files in
tasks uses a Runner. Without Spark, processes of this machine run the tasks."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from kgroups_spark.errors import KgroupsError
from kgroups_spark.sources.files import Task, with_storage

# (kind, a value of JSON)
Line: TypeAlias = "tuple[str, Any]"
Files: TypeAlias = "Sequence[Collection[str]]"
COLUMNS = ("kind", "payload")


class Runner(Protocol):
    """Runs tasks. `slots`: how many at the same time; `is_here`: on this machine, so that they see its folders."""

    @property
    def slots(self) -> int: ...

    @property
    def is_here(self) -> bool: ...

    def map(self, task: Task, given: Sequence[pa.Table], files: Files = ()) -> list[Line]:
        """The lines (`line_batch`) that the task makes from each table, each table in a task of its own. `files`: for
        each table the URIs of stored files that the task may read."""

    def watched(self, say: Callable[[str], None], what: str) -> AbstractContextManager[None]:
        """Reports `what`, and during the block the number of finished tasks."""


def lines_in(batches: Iterable[pa.RecordBatch]) -> list[Line]:
    """The lines in what tasks have returned (`line_batch`)."""
    pairs = (pair for batch in batches for pair in zip(*(batch[name].to_pylist() for name in COLUMNS), strict=True))
    return [(kind, json.loads(payload)) for kind, payload in pairs]


def line_batch(lines: Sequence[Line]) -> pa.RecordBatch:
    kinds = pa.array([kind for kind, _ in lines], pa.string())
    payloads = pa.array([json.dumps(payload) for _, payload in lines], pa.string())
    return pa.RecordBatch.from_arrays([kinds, payloads], names=COLUMNS)


def numbers(tasks: int) -> list[pa.Table]:
    """A table for each task, with its number. The work of each task is in the function that is sent to it."""
    return [pa.table({"number": pa.array([number], pa.int64())}) for number in range(tasks)]


def numbers_in(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


# Processes of this machine. A process that is forked has all modules and the task, so it begins at once. Elsewhere than
# on Linux, system libraries may not survive a fork: there the tasks run in this process, one after the other.

# Each process needs as much memory as a worker of Spark.
MOST_PROCESSES = 8
DIE_WITH_PARENT = 1  # prctl(2): PR_SET_PDEATHSIG


def _processes() -> int:
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1


@dataclass(frozen=True)
class Processes:
    """Tasks in forked processes of this machine, `slots` at the same time; a single task in this process."""

    slots: int = field(default_factory=_processes)
    is_here: bool = True
    # Called with the numbers of finished and of all tasks.
    _watchers: list[Callable[[int, int], None]] = field(default_factory=list)

    def map(self, task: Task, given: Sequence[pa.Table], files: Files = ()) -> list[Line]:
        run = with_storage(task)
        if min(self.slots, len(given)) < 2:
            return [line for rows in given for line in _lines(run, rows)]
        found = dict[int, list[Line]]()
        for number, lines in self._forked(run, given):
            found[number] = lines
            for tell in self._watchers:
                tell(len(found), len(given))
        return [line for number in range(len(given)) for line in found[number]]

    @contextmanager
    def watched(self, say: Callable[[str], None], what: str) -> Iterator[None]:
        say(what)
        self._watchers.append(lambda done, total: say(f"{what}: {done} of {total} tasks done"))
        try:
            yield
        finally:
            self._watchers.pop()

    def _forked(self, run: Task, given: Sequence[pa.Table]) -> Iterator[tuple[int, list[Line]]]:
        """The number and lines of each task, as they end. Raises the first error; no process is left then."""
        from multiprocessing import connection, get_context

        import numpy.ma  # noqa: F401  NumPy and pyarrow load it late: each process would for itself

        fork, children = get_context("fork"), dict[Any, Any]()
        taken, pipes = fork.Value("i", 0), list[Any]()
        try:
            for _ in range(min(self.slots, len(given))):
                here, there = fork.Pipe(duplex=False)
                children[here] = fork.Process(target=_work, args=(run, given, taken, there, os.getpid()), daemon=True)
                children[here].start()
                there.close()
                pipes.append(here)
            while pipes:
                for pipe in connection.wait(pipes):
                    try:
                        answer: Any = pipe.recv()  # type: ignore[union-attr, call-arg]
                    except EOFError:
                        raise _ended(children[pipe]) from None
                    if answer is None:
                        pipes.remove(pipe)
                    elif isinstance(answer, Exception):
                        raise answer
                    else:
                        yield answer
        finally:
            for child in children.values():
                child.kill()
                child.join()


def _ended(child: Any) -> KgroupsError:
    child.join()
    return KgroupsError(
        f"a process that ran tasks has ended (exit code {child.exitcode}; -9: killed, as for lack of memory): "
        "taskset -c 0 makes do with one process"
    )


def _work(run: Task, given: Sequence[pa.Table], taken: Any, there: Any, parent: int) -> None:
    """A process takes tasks until there are none; it ends with its parent, which answers signals."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    try:
        while os.getppid() == parent:
            with taken.get_lock():
                number = taken.value
                taken.value += 1
            if number >= len(given):
                break
            there.send((number, _lines(run, given[number])))
        there.send(None)
    except Exception as error:
        if not isinstance(error, KgroupsError):
            error.add_note(traceback.format_exc())
        there.send(error)


def _lines(run: Task, rows: pa.Table) -> list[Line]:
    return lines_in(run(iter(rows.to_batches())))
