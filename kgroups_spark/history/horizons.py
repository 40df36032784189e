"""Up to where history may be reduced: per offsets partition a log offset H, older than what is to be kept."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgroups_spark.decoding.log_times import believed_until_ms
from kgroups_spark.history.log_ends import log_ends_as_of
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.times import to_epoch_ms

# offsets partition -> H: history below it is old.
Horizons = Mapping[int, int]


def horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[int, int]:
    """H of every partition that the audit has read: its log before the first record above the moment, but never beyond
    the start of a transaction that is still open there, as Kafka's cleaner stops before one."""
    newest = audit.newest_log_timestamp
    believed = believed_until_ms(None if newest is None else to_epoch_ms(newest), to_epoch_ms(audit.started_at))
    ends = log_ends_as_of([lake.read(name) for name in LOG_TABLES], moment_ms, believed).collect()
    found = {p.offsets_partition: p.end_offset for p in audit.partitions or ()}
    found |= {row.offsets_partition: row.end_offset for row in ends}
    frame = horizons_frame(lake.spark, found)
    for rows in (_spanning(lake.read("transaction_markers"), frame), _open_now(lake.read("open_transactions"), frame)):
        for row in rows.collect():
            found[row.offsets_partition] = min(found[row.offsets_partition], row.start_offset)
    return found


def horizons_frame(spark: SparkSession, of: Horizons) -> DataFrame:
    """The same as columns `offsets_partition` and `horizon`."""
    return spark.createDataFrame(sorted(of.items()), "offsets_partition int, horizon bigint")


def _spanning(transaction_markers: DataFrame, frame: DataFrame) -> DataFrame:
    """Where transactions began that were open at H and have ended since."""
    spans = (F.col("transaction_start_offset") < F.col("horizon")) & (F.col("log_offset") >= F.col("horizon"))
    return _first_start(transaction_markers.join(F.broadcast(frame), "offsets_partition").where(spans))


def _open_now(open_transactions: DataFrame, frame: DataFrame) -> DataFrame:
    began_before = F.col("transaction_start_offset") < F.col("horizon")
    return _first_start(open_transactions.join(F.broadcast(frame), "offsets_partition").where(began_before))


def _first_start(transactions: DataFrame) -> DataFrame:
    start = F.min("transaction_start_offset").alias("start_offset")
    return transactions.groupBy("offsets_partition").agg(start)
