"""What was, from the history tables: DataFrame -> DataFrame.

"As of T" is the log of each offsets partition before its first record with a log_timestamp above T: the log is ordered
by offset, its times may step back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

LOG_TABLES = ("offset_commits", "group_records", "transaction_markers", "quarantine")


def log_ends_as_of(log: Sequence[DataFrame], as_of_ms: int) -> DataFrame:
    """Per offsets partition the log_offset (`end_offset`) of its first record above the moment, of the LOG_TABLES;
    a partition without a row has no such record."""
    later = F.col("log_timestamp") > F.timestamp_millis(F.lit(as_of_ms))
    places = [table.where(later).select("offsets_partition", "log_offset") for table in log]
    return (
        reduce(DataFrame.unionByName, places).groupBy("offsets_partition").agg(F.min("log_offset").alias("end_offset"))
    )


def groups_as_of(group_versions: DataFrame, log_ends: DataFrame) -> DataFrame:
    """The groups that existed where each partition's log ends: the last version of each, if it did not remove it."""
    within = F.col("end_offset").isNull() | (F.col("log_offset") < F.col("end_offset"))
    version = F.struct(*group_versions.columns)
    return (
        group_versions.join(F.broadcast(log_ends), "offsets_partition", how="left")
        .where(within)
        .groupBy("offsets_partition", "group_id")
        .agg(F.max_by(version, "log_offset").alias("last"))
        .select("last.*")
        .where(~F.col("is_removed"))
        .drop("is_removed")
    )


def rewinds(offset_commits: DataFrame) -> DataFrame:
    """Where a committed offset went back: the commit, `offset_before` it and `offset_after` it.

    Order is the log's, not the clock's. A value without producer id counts, one of a transaction if it is known to have
    committed (outcome), a tombstone always: the first commit after a removal went back from nothing.
    """
    is_tombstone = F.col("committed_offset").isNull()
    in_effect = F.col("producer_id").isNull() | (F.col("outcome") == "committed") | is_tombstone
    slot = Window.partitionBy("offsets_partition", "group_id", "topic", "partition").orderBy("log_offset")
    return (
        offset_commits.where(in_effect)
        .withColumn("offset_before", F.lag("committed_offset").over(slot))
        .where(F.col("committed_offset") < F.col("offset_before"))
        .select(
            "offsets_partition",
            "group_id",
            "topic",
            "partition",
            "log_offset",
            "log_timestamp",
            "offset_before",
            F.col("committed_offset").alias("offset_after"),
        )
    )
