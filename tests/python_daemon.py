"""Spark's daemon of Python workers, with what tasks import. Each worker is a fork of it, and imports nothing more: with
Spark's own daemon it takes 0.7 s of CPU for that. Spark ends a worker that has had no task for a minute."""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import kgroups_spark.replay.stages
import kgroups_spark.spark.data_sources  # noqa: F401

if __name__ == "__main__":
    manager()
