"""Spark runs the tasks (tasks.py): each is a partition of an RDD.

A DataFrame would have the same rows. But for its first plan Spark loads and compiles Catalyst: 1.4 CPU seconds of a
session, in which nothing else needs it when the lake is on a path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import SparkSession

from kgroups_spark.sources.files import Task, with_storage
from kgroups_spark.spark.tasks import Files, Line, lines_in

SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class SparkRunner:
    """Tasks in Spark."""

    spark: SparkSession

    @property
    def slots(self) -> int:
        return max(1, self.spark.sparkContext.defaultParallelism)

    @property
    def is_here(self) -> bool:
        return str(self.spark.sparkContext.master).startswith("local")

    def map(self, task: Task, given: Sequence[pa.Table], files: Files = ()) -> list[Line]:
        return self.collected(self.rows(given, files).mapPartitions(self.function(task))) if given else []

    def function(self, task: Task) -> Any:
        return with_storage(task, in_worker=True)

    def collected(self, reports: RDD[pa.RecordBatch]) -> list[Line]:
        return lines_in(reports.collect())

    def rows(self, given: Sequence[pa.Table], files: Files = ()) -> RDD[Any]:
        """The rows of each table, as record batches in a Spark partition of their own."""
        return self.spark.sparkContext.parallelize(given, len(given)).flatMap(pa.Table.to_batches)

    @contextmanager
    def watched(self, say: Callable[[str], None], what: str) -> Iterator[None]:
        context = self.spark.sparkContext
        description = context.getLocalProperty("spark.job.description")
        say(what)
        context.setJobDescription(what)  # in Spark's pages
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(self.spark, say, what, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            context.setJobDescription(description)  # type: ignore[arg-type]


def _watch(spark: SparkSession, say: Callable[[str], None], what: str, over: threading.Event) -> None:
    tracker, reported = spark.sparkContext.statusTracker(), 0
    while not over.wait(SECONDS_BETWEEN_LOOKS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        total = sum(stage.numTasks for stage in stages if stage is not None)
        if total > 1 and done != reported:
            reported = done
            say(f"{what}: {done} of {total} tasks done")
