"""Where the log ended at a moment: that of each offsets partition ends before its first record with a log_timestamp
above it. The log is ordered by offset, its times may step back.

Times that no clock can have shown yet end nothing (log_times.believed_until_ms): one record stamped 2040 would end the
log at its place as of every moment. In SQL: the view last_audit and the function log_ends_as_of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def log_ends_as_of(log: Sequence[DataFrame], as_of_ms: int, believed_until_ms: int) -> DataFrame:
    """Per offsets partition the log_offset (`end_offset`) of its first record above the moment, of the LOG_TABLES;
    a partition without a row has no such record. Times above `believed_until_ms` do not count."""
    places = [table.select("offsets_partition", "log_offset", "log_timestamp") for table in log]
    time = F.col("log_timestamp")
    later = (time > F.timestamp_millis(F.lit(as_of_ms))) & (time <= F.timestamp_millis(F.lit(believed_until_ms)))
    first = F.min("log_offset").alias("end_offset")
    return reduce(DataFrame.unionByName, places).where(later).groupBy("offsets_partition").agg(first)
