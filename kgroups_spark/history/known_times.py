"""The newest log times that the ledger knows, without those that cannot be (decoding/log_times.py)."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.times import to_epoch_ms


def known_times(lake: Lake, audit: AuditRow | None, clock_ms: int) -> dict[int, int]:
    """The newest plausible time (ms) of each offsets partition as the ledger has it; without those that have none.

    Earlier versions took every time for true: of a partition whose time is ahead of the clock history is asked.
    """
    partitions = (audit.partitions or ()) if audit else ()
    known = {p.offsets_partition: to_epoch_ms(p.newest_log_timestamp) for p in partitions if p.newest_log_timestamp}
    latest = clock_ms + CLOCKS_DIFFER_MS
    ahead = {number for number, ms in known.items() if ms > latest}
    if not ahead or (len(ahead) > 1 and ahead == known.keys()):
        return known  # where all are ahead it is this machine's clock that is wrong
    return {number: ms for number, ms in known.items() if number not in ahead} | newest_in_history(lake, ahead, latest)


def newest_in_history(lake: Lake, offsets_partitions: Collection[int], latest_ms: int) -> dict[int, int]:
    """By offsets partition the newest log time that is not behind `latest_ms`, ms; without those that have none."""
    columns = ("offsets_partition", "log_timestamp")
    places = reduce(DataFrame.unionByName, [lake.read(name).select(*columns) for name in LOG_TABLES])
    counts = F.col("offsets_partition").isin(sorted(offsets_partitions))
    counts &= F.col("log_timestamp") <= F.timestamp_millis(F.lit(latest_ms))
    newest = F.max(F.unix_millis("log_timestamp")).alias("newest_ms")
    rows = places.where(counts).groupBy("offsets_partition").agg(newest).collect()
    return {row.offsets_partition: row.newest_ms for row in rows}
