"""Audits in which every task fails once, after it has written everything; a program of its own.

    python -m tests.crash.flaky_tasks LOG MARKS LAKE

The session of the tests does not try a task again, this one does so three times. Spark may also take a task that still
runs for dead and start a second attempt (a speculative double). The result is the same: a file of the attempt that does
not count.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.replay import sinks
from kgroups_spark.spark.session import spark_session


def first_attempt_fails(write: Callable[..., Any], marks: str) -> Callable[..., Any]:
    """The function, failing the first time that each task of each stage has called it and has used up its answer."""
    # Functions of the main program travel to the tasks by value: so does this, and what it replaces is looked up there.

    def flaky(*arguments: Any) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from write(*arguments)
        task = TaskContext.get()
        if task is not None and task.attemptNumber() == 0:
            Path(f"{marks}/{task.stageId()}-{task.partitionId()}-{os.getpid()}-{threading.get_ident()}").touch()
            raise OSError("this attempt failed after it had written")

    return flaky


def main(log: str, marks: str, lake: str) -> None:
    spark = spark_session("flaky tasks", {"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"})
    one_batch = sinks.line_batch
    batches = first_attempt_fails(lambda lines: iter([one_batch(lines)]), marks)
    sinks.line_batch = lambda lines: next(_whole(batches(lines)))  # type: ignore[assignment]
    run_audit(spark, AuditOptions(lake=lake, segments=[log]))
    spark.stop()


def _whole(batches: Iterator[Any]) -> Iterator[Any]:
    return iter(list(batches))


if __name__ == "__main__":
    main(*sys.argv[1:])
