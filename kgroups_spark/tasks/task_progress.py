"""The progress of a Spark action, reported while it runs: else the driver would be silent for minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

SECONDS_BETWEEN_LOOKS = 1.0


@contextmanager
def tasks_reported(spark: SparkSession, say: Callable[[str], None], what: str) -> Iterator[None]:
    """Says `what`, and while the block runs how many tasks of its running stages are done."""
    say(what)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, say, what, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(spark: SparkSession, say: Callable[[str], None], what: str, over: threading.Event) -> None:
    tracker, reported = spark.sparkContext.statusTracker(), 0
    while not over.wait(SECONDS_BETWEEN_LOOKS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        total = sum(stage.numTasks for stage in stages if stage is not None)
        if total > 1 and done != reported:
            reported = done
            say(f"{what}: {done} of {total} tasks done")
