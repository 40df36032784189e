"""Tasks in forked processes: their lines, their errors, and no process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay import sinks
from kgroups_spark.replay.sinks import (
    AGAIN,
    PASSED_ON,
    ROWS,
    Fact,
    ForReplay,
    Given,
    ShardBegins,
    ShardLost,
    sink_of,
    written,
)
from kgroups_spark.replay.stored_history import PartReader
from kgroups_spark.spark.tasks import Processes, line_batch, numbers, numbers_in
from kgroups_spark.tables.definitions import NIGHT, REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS
from tests.lake.table_rows import rows_of

TASKS = 5
RUNNER = Processes(slots=2)


def doing(act):
    """A task that reports what it does with its number, and its process."""

    def task(batches):
        for number in numbers_in(batches):
            yield line_batch([("made", [number, act(number), os.getpid()])])

    return task


def waits(number):
    """Long enough that one process does not take all tasks."""
    time.sleep(0.05)


def none_left():
    return active_children() == []


def test_lines_are_in_the_order_of_tasks_whichever_process_made_them():
    made = [line for _, line in RUNNER.map(doing(waits), numbers(TASKS))]
    assert [number for number, *_ in made] == list(range(TASKS))
    pids = {pid for *_, pid in made}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert none_left()


@pytest.mark.parametrize(("slots", "tasks"), [(2, 1), (1, TASKS), (2, 0)])
def test_one_task_at_a_time_needs_no_other_process(slots, tasks):
    made = [line for _, line in Processes(slots).map(doing(str), numbers(tasks))]
    assert made == [[number, str(number), os.getpid()] for number in range(tasks)]


def refuses(number):
    if number == 3:
        raise KgroupsError("partition 3", "cannot be read")
    waits(number)


def test_an_error_in_a_task_is_raised_as_it_is():
    with pytest.raises(KgroupsError) as raised:
        RUNNER.map(doing(refuses), numbers(TASKS))
    assert raised.value.lines == ("partition 3", "cannot be read")
    assert none_left()


def breaks(number):
    raise ZeroDivisionError(number)


def test_a_defect_in_a_task_shows_where_it_is():
    with pytest.raises(ZeroDivisionError) as raised:
        RUNNER.map(doing(breaks), numbers(TASKS))
    assert "in breaks" in "".join(raised.value.__notes__)


def is_killed(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_the_system_has_killed_is_named():
    with pytest.raises(KgroupsError, match=r"a process that ran tasks has ended \(exit code -9"):
        RUNNER.map(doing(is_killed), numbers(TASKS))
    assert none_left()


def test_finished_tasks_are_counted():
    said = []
    with RUNNER.watched(said.append, "reading"):
        RUNNER.map(doing(str), numbers(3))
    RUNNER.map(doing(str), numbers(3))
    assert said == ["reading", *(f"reading: {done} of 3 tasks done" for done in (1, 2, 3))]


def test_an_interruption_ends_all_processes_at_once():
    def interrupted(text):
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


def test_a_process_dies_with_its_parent():
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


def _runs(pid):
    """A process that has died may still be in the table, until somebody asks for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


# The outputs of tasks by both sinks: which rows count if a shard is lost in the middle of its outputs.


def test_nothing_of_a_lost_shard_counts(tmp_path, local):
    lake = Lake.create(local, str(tmp_path / "lake"))
    writes = LakeWriter(lake, 1, lambda: None)
    with sink_of(writes, for_replay=True) as sink:
        made = sink.run(Given(numbers(1)), three_shards())
        assert (made.facts, made.rows) == (["1 is read", "2 is lost", "3 is read"], {"offset_commits": 4})
        assert sorted(sink.table(writes, "offset_commits")["offsets_partition"].to_pylist()) == [1, 1, 3, 3]
        reader, found = PartReader((1, 2, 3)), {}
        for is_again, kinds in ((False, (ROWS, PASSED_ON)), (True, (AGAIN,))):
            for name, table in sink.tables(kinds, ("offset_commits", "transaction_markers")).items():
                for number in (1, 2, 3):
                    found[number, name, is_again] = reader.rows(table, number).num_rows
    assert {place: rows for place, rows in found.items() if rows} == {
        (1, "offset_commits", False): 2,
        (1, "transaction_markers", False): 1,
        (1, "offset_commits", True): 1,
        (3, "offset_commits", False): 2,
        (3, "transaction_markers", False): 1,
        (3, "offset_commits", True): 1,
    }


def test_a_task_gives_its_facts_in_lots(monkeypatch):
    monkeypatch.setattr(sinks, "LINES_AT_ONCE", 3)
    assert lots_of(map(Fact, range(8))) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_task_holds_back_the_facts_of_a_shard_until_it_ends(monkeypatch):
    monkeypatch.setattr(sinks, "LINES_AT_ONCE", 3)
    outputs = [ShardBegins("0"), *map(Fact, range(4)), ShardBegins("1"), *map(Fact, range(4, 8)), ShardLost(), Fact(8)]
    assert lots_of(outputs) == [[0, 1, 2, 3], [8]]


def lots_of(outputs):
    lots = written(lambda _: outputs, {}, iter(()))
    return [list(map(json.loads, lot["payload"].to_pylist())) for lot in lots]


def three_shards():
    """The work of a task that loses the second of three shards."""
    commits = {number: rows_of("offset_commits", *[{"offsets_partition": number}] * 2) for number in (1, 2, 3)}
    markers = {number: rows_of("transaction_markers", {"offsets_partition": number}) for number in (1, 2, 3)}

    def work(batches):
        for _ in batches:
            for number in (1, 2, 3):
                yield ShardBegins(str(number))
                yield "offset_commits", commits[number]
                yield ForReplay("transaction_markers", markers[number])
                yield ForReplay("offset_commits", commits[number].slice(1), is_again=True)
                yield Fact(f"{number} is read")
                if number == 2:
                    yield ShardLost()
                    yield Fact("2 is lost")

    return work


@pytest.mark.spark
def test_the_states_of_a_night_in_one_task_go_into_other_files_than_corrections(spark, tmp_path):
    lake = Lake.create(spark, str(tmp_path / "lake"))
    writes = LakeWriter(lake, 1, lambda: None)

    def work(batches):
        for _ in batches:
            for reason in (NIGHT, REREAD):
                yield CHECKPOINTS, rows_of(CHECKPOINTS, {"audit_id": 1, "reason": reason})

    with sink_of(writes, for_replay=False) as sink:
        sink.run(Given(numbers(1)), work)
        sink.replace(writes, CHECKPOINTS)
    reasons = [
        [file.bound(which, "reason") for which in ("minValues", "maxValues")]
        for file in lake.table(CHECKPOINTS).files()
    ]
    assert sorted(reasons) == [[NIGHT, NIGHT], [REREAD, REREAD]]
