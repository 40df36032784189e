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
    return _places(log).where(later).groupBy("offsets_partition").agg(F.min("log_offset").alias("end_offset"))


def is_reduced(state_corrections: DataFrame, log_ends: DataFrame) -> bool:
    """Whether one of the partitions' logs, up to its end in `log_ends`, is reduced: below the newest baseline only the
    last record of each key is left. A partition that is not in `log_ends` is wanted as a whole, which is all there."""
    begins = F.max("log_offset").alias("begins")
    baselines = state_corrections.where("correction = 'baseline'").groupBy("offsets_partition").agg(begins)
    return not log_ends.join(F.broadcast(baselines), "offsets_partition").where("end_offset < begins").isEmpty()


def oldest_log_timestamp(log: Sequence[DataFrame]) -> DataFrame:
    """One row with the `oldest_log_timestamp` of the LOG_TABLES; null: there is none."""
    return _places(log).agg(F.min("log_timestamp").alias("oldest_log_timestamp"))


def _places(log: Sequence[DataFrame]) -> DataFrame:
    """Where and when each record stands in the log."""
    places = [table.select("offsets_partition", "log_offset", "log_timestamp") for table in log]
    return reduce(DataFrame.unionByName, places)


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
    """Commits below the committed offset before them: what was read is read again. `offset_before` and `offset_after`
    the move; `was_removed`: the offset had been removed in between; `topic_recreated`: it belongs to another topic id.

    Order is the log's, not the clock's. A value without producer id counts, one of a transaction if it is known to have
    committed (outcome); a tombstone always.
    """
    is_tombstone = F.col("committed_offset").isNull()
    in_effect = F.col("producer_id").isNull() | (F.col("outcome") == "committed") | is_tombstone
    slot = Window.partitionBy("offsets_partition", "group_id", "topic", "partition").orderBy("log_offset")
    before = slot.rowsBetween(Window.unboundedPreceding, -1)
    return (
        offset_commits.where(in_effect)
        .select(
            "*",
            F.last("committed_offset", ignorenulls=True).over(before).alias("offset_before"),
            F.last("topic_id", ignorenulls=True).over(before).alias("topic_id_before"),
            F.lag("committed_offset").over(slot).isNull().alias("was_removed"),
        )
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
            "was_removed",
            F.coalesce(F.col("topic_id") != F.col("topic_id_before"), F.lit(False)).alias("topic_recreated"),
        )
    )
