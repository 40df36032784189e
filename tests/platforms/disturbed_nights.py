"""A job for spark-submit: nights in which tasks and executors fail, by both writers, and lakes that tasks do not reach.

Arguments: a folder that all nodes share, with the log of each night, where the answer goes, and the writers. Tasks do
what they do in production. Only the frame that starts them is another one: its tasks fail once, after they have
written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from kgroups_spark.audit import work
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.errors import KgroupsError
from kgroups_spark.history import stored
from kgroups_spark.lake import reach
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts_writer import lake_file_system
from kgroups_spark.lake.writer_choice import choose_writer
from kgroups_spark.session import PER_SESSION, spark_session
from kgroups_spark.storage.s3 import Task
from kgroups_spark.tasks import read_stage as stages
from kgroups_spark.tasks import replay_stage as shard_stage

# Each night: how the first frame of tasks is disturbed, and the second.
NIGHTS = {0.4: ("fails", "executor dies"), 1.0: ("is slow", "")}
read, replay = stages._one_per_task, shard_stage.by_task


def main(shared: Path, writers: list[str]) -> dict[str, Any]:
    """Runs the nights; the facts that the tests check, by name."""
    spark = spark_session("disturbed nights")
    # Several tasks for a small log, too.
    work.SMALLEST_TASK_BYTES = stored.RECORDS_OF_A_TASK = 1
    facts: dict[str, Any] = {"writers": {}, "settings": {name: spark.conf.get(name) for name in PER_SESSION}}
    for writer in writers:
        for share, ways in NIGHTS.items():
            disturb(iter(ways), shared / "marks", writer)
            options = {"lake": f"{shared}/lake-{writer}", "segments": [f"{shared}/log-{share}"], "writer": writer}
            facts["writers"][f"{writer} {share}"] = run_audit(spark, AuditOptions(**options)).writer
    facts["choices"] = choices(Lake.open(spark, f"{shared}/lake-parts"), shared)
    spark.stop()
    return facts


def disturb(ways: Iterator[str], marks: Path, writer: str) -> None:
    """From now on frames of tasks are disturbed, each in the next of these ways."""

    def disturbed(frame: DataFrame) -> Any:
        how = next(ways, "")
        if not how:
            return frame
        (marks / f"{writer}-{how}").mkdir(parents=True)
        return Disturbed(frame, how, marks / f"{writer}-{how}")

    stages._one_per_task = lambda *arguments: disturbed(read(*arguments))  # type: ignore[assignment]
    shard_stage.by_task = lambda *arguments: disturbed(replay(*arguments))  # type: ignore[assignment]


class Disturbed:
    """A frame whose tasks are disturbed once, after they have written what they write."""

    def __init__(self, frame: DataFrame, how: str, marks: Path) -> None:
        self.frame, self.how, self.marks = frame, how, marks

    def mapInArrow(self, task: Task, schema: StructType | str) -> DataFrame:
        how, marks = self.how, self.marks

        def disturbed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            mark(marks, f"attempt-{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}-{executor()}")
            yield from list(task(batches))
            if context.partitionId() == 0 and mark(marks, how):
                fail(how)

        return self.frame.mapInArrow(disturbed, schema)


def mark(folder: Path, name: str) -> bool:
    """Whether nobody has left this mark before."""
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


def choices(lake: Lake, shared: Path) -> dict[str, Any]:
    """The answers of choose_writer for the lake as it is, for one that pyarrow cannot reach, and for one that nodes do
    not share."""
    by_hadoop_only = Lake.open(lake.spark, "viewfs://shared/lake-parts")
    said: dict[str, Any] = {"shared": choose_writer(lake, "auto"), "viewfs": choose_writer(by_hadoop_only, "auto")}

    def elsewhere(uri: str) -> tuple[pa.fs.FileSystem, str]:
        file_system, _ = lake_file_system(uri)
        return file_system, f"{shared}/disk-of-one-node"

    reach.lake_file_system = elsewhere
    for writer in ("auto", "parts", "spark"):
        try:
            said[f"not shared, {writer}"] = choose_writer(lake, writer)
        except KgroupsError as error:
            said[f"not shared, {writer}"] = str(error)
    return said


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(Path(sys.argv[1]), sys.argv[3:])))
