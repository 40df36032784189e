"""Spark runs the tasks (tasks.py): each is a partition of a frame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from kgroups_spark.sources.files import Task, with_storage
from kgroups_spark.spark.tasks import COLUMNS, Files, Line, lines_in

LINES = StructType([StructField(name, StringType(), False) for name in COLUMNS])
SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class SparkRunner:
    """Tasks in Spark. `reports`: the columns that a task returns."""

    spark: SparkSession
    reports = LINES

    @property
    def slots(self) -> int:
        return max(1, self.spark.sparkContext.defaultParallelism)

    @property
    def is_here(self) -> bool:
        return str(self.spark.sparkContext.master).startswith("local")

    def map(self, task: Task, given: Sequence[pa.Table], files: Files = ()) -> list[Line]:
        return self.collected(self.frame(given, files).mapInArrow(self.function(task), self.reports)) if given else []

    def function(self, task: Task) -> Task:
        return with_storage(task, in_worker=True)

    def collected(self, reports: DataFrame) -> list[Line]:
        return lines_in(reports.collect())

    def frame(self, given: Sequence[pa.Table], files: Files = ()) -> DataFrame:
        """The rows of each table, in their order, in a Spark partition of their own."""
        shards = rows_by_task(self.spark, given)
        if len(given) == 1:
            return shards.coalesce(1)  # keeps the order, without a shuffle
        return shards.repartitionById(len(given), "task").sortWithinPartitions("row")

    @contextmanager
    def watched(self, say: Callable[[str], None], what: str) -> Iterator[None]:
        say(what)
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(self.spark, say, what, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def rows_by_task(spark: SparkSession, given: Sequence[pa.Table]) -> DataFrame:
    """The rows of all tables, each with the number of its table (`task`) and its number there (`row`)."""
    return frame_of(spark, pa.concat_tables(map(_numbered, given, range(len(given)))))


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as a frame. One chunk: Spark 4.2 loses all rows after an empty chunk of a column, without an error."""
    return spark.createDataFrame(rows.combine_chunks())


def _numbered(table: pa.Table, task: int) -> pa.Table:
    tasks, rows = pa.array([task] * len(table), pa.int32()), pa.array(range(len(table)), pa.int64())
    return table.append_column("task", tasks).append_column("row", rows)


def _watch(spark: SparkSession, say: Callable[[str], None], what: str, over: threading.Event) -> None:
    tracker, reported = spark.sparkContext.statusTracker(), 0
    while not over.wait(SECONDS_BETWEEN_LOOKS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        total = sum(stage.numTasks for stage in stages if stage is not None)
        if total > 1 and done != reported:
            reported = done
            say(f"{what}: {done} of {total} tasks done")
