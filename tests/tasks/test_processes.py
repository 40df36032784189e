"""Tasks in forked processes: their lines, their errors, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.spark.tasks import Processes, line_batch, numbers, numbers_in

TASKS = 5
RUNNER = Processes(slots=2)


def doing(act: Callable[[int], Any]) -> Any:
    """A task that reports what it does with its number, and its process."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in numbers_in(batches):
            yield line_batch([("made", [number, act(number), os.getpid()])])

    return task


def waits(number: int) -> None:
    """Long enough that one process does not take all tasks."""
    time.sleep(0.05)


def none_left() -> bool:
    return active_children() == []


def test_lines_are_in_the_order_of_tasks_whichever_process_made_them() -> None:
    made = [line for _, line in RUNNER.map(doing(waits), numbers(TASKS))]
    assert [number for number, *_ in made] == list(range(TASKS))
    pids = {pid for *_, pid in made}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert none_left()


@pytest.mark.parametrize(("slots", "tasks"), [(2, 1), (1, TASKS), (2, 0)])
def test_one_task_at_a_time_needs_no_other_process(slots: int, tasks: int) -> None:
    made = [line for _, line in Processes(slots).map(doing(str), numbers(tasks))]
    assert made == [[number, str(number), os.getpid()] for number in range(tasks)]


def refuses(number: int) -> None:
    if number == 3:
        raise KgroupsError("partition 3", "cannot be read")
    waits(number)


def test_an_error_in_a_task_is_raised_as_it_is() -> None:
    with pytest.raises(KgroupsError) as raised:
        RUNNER.map(doing(refuses), numbers(TASKS))
    assert raised.value.lines == ("partition 3", "cannot be read")
    assert none_left()


def breaks(number: int) -> None:
    raise ZeroDivisionError(number)


def test_a_defect_in_a_task_shows_where_it_is() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        RUNNER.map(doing(breaks), numbers(TASKS))
    assert "in breaks" in "".join(raised.value.__notes__)


def is_killed(number: int) -> None:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_the_system_has_killed_is_named() -> None:
    with pytest.raises(KgroupsError, match=r"a process that ran tasks has ended \(exit code -9"):
        RUNNER.map(doing(is_killed), numbers(TASKS))
    assert none_left()


def test_finished_tasks_are_counted() -> None:
    said: list[str] = []
    with RUNNER.watched(said.append, "reading"):
        RUNNER.map(doing(str), numbers(3))
    RUNNER.map(doing(str), numbers(3))
    assert said == ["reading", *(f"reading: {done} of 3 tasks done" for done in (1, 2, 3))]


def test_an_interruption_ends_all_processes_at_once() -> None:
    def interrupted(text: str) -> None:
        if "tasks done" in text:
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), RUNNER.watched(interrupted, "reading"):
        RUNNER.map(doing(lambda number: time.sleep(60 * number)), numbers(TASKS))
    assert time.monotonic() - begun < 30
    assert none_left()


DIES = r"""
import os, signal, time
from tests.tasks.test_processes import RUNNER, doing, numbers

def act(number):
    os.write(1, f"{os.getpid()}\n".encode())
    time.sleep(600)

RUNNER.map(doing(act), numbers(2))
"""


def test_a_process_dies_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", DIES], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as said:
        pids = [int(next(said)) for _ in range(2)]
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 60
        while any(_runs(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _runs(pid: int) -> bool:
    """A process that has died may still be in the table, until somebody asks for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
