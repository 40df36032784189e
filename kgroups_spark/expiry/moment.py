"""Epoch milliseconds, in which expiry is computed, to and from what is given and stored."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as F

from kgroups_spark.times import to_epoch_ms

LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


def epoch_ms(moment: datetime | int) -> int:
    """Epoch milliseconds of a datetime with a zone, or of what is that already."""
    return moment if isinstance(moment, int) else to_epoch_ms(moment)


def timestamp(time_ms: Column) -> Column:
    """The TIMESTAMP; null stays null. What lies behind the year 9999 becomes its last millisecond: few readers of a
    table can show more, and a sum of two times would not fit at all."""
    return F.timestamp_millis(F.when(time_ms > LAST_MS, F.lit(LAST_MS)).otherwise(time_ms))
