"""A job for spark-submit: nights in which tasks and executors fail, and lakes that tasks do not reach.

Arguments: a folder that all nodes share, with the log of each night, and where the answer goes. Tasks do
what they do in production, and once they fail after they have written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from kgroups_spark.audit import work
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake import writer
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import make_writable
from kgroups_spark.replay import shard_states, sinks
from kgroups_spark.sources.files import Task, file_system
from kgroups_spark.spark.session import PER_SESSION, spark_session

# Each night: how the tasks of the first action are disturbed, and those of the second.
NIGHTS = {0.4: ("fails", "executor dies"), 1.0: ("is slow", "")}
run = sinks.Sink.run


def main(shared: Path) -> dict[str, Any]:
    """Runs the nights; the facts that the tests check, by name."""
    spark = spark_session("disturbed nights")
    # Several tasks for a small log, too.
    work.SMALLEST_TASK_BYTES = shard_states.RECORDS_OF_A_TASK = 1
    facts: dict[str, Any] = {"settings": {name: spark.conf.get(name) for name in PER_SESSION}}
    for share, ways in NIGHTS.items():
        disturb(iter(ways), shared / "marks")
        run_audit(spark, AuditOptions(lake=f"{shared}/lake", segments=[f"{shared}/log-{share}"]))
    facts["reached"] = reached(Lake.open(spark, f"{shared}/lake"), shared)
    spark.stop()
    return facts


def disturb(ways: Iterator[str], marks: Path) -> None:
    """From now on the tasks of actions are disturbed, those of each in the next of these ways."""

    def disturbed(task: Task) -> Task:
        how = next(ways, "")
        if not how:
            return task
        folder = marks / how
        folder.mkdir(parents=True)
        return partial(disturbed_once, task, how, folder)

    def disturbed_run(self: sinks.Sink, given: sinks.Given, work: sinks.Work) -> sinks.Made:
        runner: Any = SimpleNamespace(map=lambda task, *given: self.runner.map(disturbed(task), *given))
        return run(replace(self, runner=runner), given, work)

    sinks.Sink.run = disturbed_run  # type: ignore[method-assign]


def disturbed_once(task: Task, how: str, marks: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that is disturbed once, after it has written what it writes."""
    context = TaskContext.get()
    assert context is not None
    mark(marks, f"attempt-{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}-{executor()}")
    yield from list(task(batches))
    if context.partitionId() == 0 and mark(marks, how):
        fail(how)


def mark(folder: Path, name: str) -> bool:
    """Whether no task has left this mark before."""
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def executor() -> int:
    """The JVM that started this worker's daemon."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def fail(how: str) -> None:
    if how == "fails":
        raise RuntimeError("this attempt fails after it has written")
    if how == "executor dies":
        os.kill(executor(), signal.SIGKILL)
    # Until the copy of this task on the other node is done, and Spark ends this one.
    time.sleep(120)


def reached(lake: Lake, shared: Path) -> dict[str, Any]:
    """The answers of make_writable for the lake as it is, for one that pyarrow cannot reach, and for one that nodes do
    not share."""
    by_hadoop_only = Lake.open(lake.spark, "viewfs://shared/lake")
    said: dict[str, Any] = {"shared": make_writable(lake), "viewfs": make_writable(by_hadoop_only)}

    def elsewhere(uri: str) -> tuple[pa.fs.FileSystem, str]:
        storage, _ = file_system(uri)
        return storage, f"{shared}/disk-of-one-node"

    writer.file_system = elsewhere
    try:
        said["not shared"] = make_writable(lake)
    except KgroupsError as error:
        said["not shared"] = str(error)
    return said


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(Path(sys.argv[1]))))
