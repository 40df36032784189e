"""When a partition must be read again from its start, because the log may have lost tombstones or markers (R6).

Kafka's cleaner drops a tombstone, or the marker of a transaction without records, `delete.retention.ms` after it has
first cleaned it (LogCleaner, `deleteHorizonMs`; before 3.1 that long after its segment was last written). One that was
written after our last read can only be gone if that read is longer ago. The log does not show whether one is gone; but
if no offset is missing, none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.durations import DAY_MS, format_duration
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.ledger_rows import Reading
from kgroups_spark.times import to_epoch_ms

# Kafka's default of delete.retention.ms; __consumer_offsets is created without its own value.
DEFAULT_DELETE_RETENTION_MS = DAY_MS


class LastReads:
    """The last audit that read records of a partition.

    `readings`: finished audits with the partitions that they read, the newest first. It is called only if that was not
    the audit `last`, and is read only as far as needed.
    """

    def __init__(self, last: AuditRow, readings: Callable[[], Iterable[Reading]]) -> None:
        self._last = last
        self._readings = readings
        self._found: dict[int, Reading] = {}

    def of(self, offsets_partition: int) -> AuditRow | Reading | None:
        """The last audit that read records of the partition; None: the ledger has none."""
        if _has_read(self._last, offsets_partition):
            return self._last
        while offsets_partition not in self._found:
            reading = next(self._backwards, None)
            if reading is None:
                return None
            self._found = dict.fromkeys(reading.offsets_partitions, reading) | self._found
        return self._found[offsets_partition]

    @cached_property
    def _backwards(self) -> Iterator[Reading]:
        return iter(self._readings())


def _has_read(row: AuditRow, offsets_partition: int) -> bool:
    progress = row.progress(offsets_partition)
    return progress is not None and bool(progress.records or progress.bytes)


@dataclass(frozen=True)
class TooOld:
    """A partition with a last read longer ago (`age`, ms) than `delete.retention.ms`: if offsets are missing in its new
    span, tombstones may be among them."""

    offsets_partition: int
    age: int
    delete_retention_ms: int

    def why_read_again(self, gone: int, span: int) -> str | None:
        """The reason as a sentence; None if no record is missing (`gone`) of the `span` of new offsets."""
        if gone <= 0:
            return None
        return (
            f"partition {self.offsets_partition} was read again from its start: last read {format_duration(self.age)} "
            f"ago, longer than delete.retention.ms ({format_duration(self.delete_retention_ms)}), and {gone:,} of "
            f"{span:,} offsets were gone"
        )


@dataclass(frozen=True)
class DeleteRetention:
    """`delete.retention.ms` of the topic, with the last reads and the clock. `now`: the audit's clock, epoch ms."""

    delete_retention_ms: int
    last_reads: LastReads
    now: int

    @classmethod
    def since(
        cls, last: AuditRow, readings: Callable[[], Iterable[Reading]], delete_retention_ms: int
    ) -> DeleteRetention:
        """Measured now, after the audit `last`; `readings` as LastReads has them."""
        return cls(delete_retention_ms, LastReads(last, readings), to_epoch_ms(datetime.now(UTC)))

    def too_old(self, before: PartitionProgress, end_offset: int, newest: int | None) -> TooOld | None:
        """None if reading the new span of the partition is enough, even with missing offsets.

        `before`: how far it was read. `end_offset` and `newest`: the present end of its log, and the timestamp of its
        last batch (epoch ms; None: unknown).
        """
        is_new = end_offset > before.end_offset
        age = self._last_read_ago(before.offsets_partition, newest) if is_new else 0
        too_old = age > self.delete_retention_ms
        return TooOld(before.offsets_partition, age, self.delete_retention_ms) if too_old else None

    def _last_read_ago(self, offsets_partition: int, newest: int | None) -> int:
        """Milliseconds since the last read, by the ledger's clock or by log time, whichever is longer: a copy of a log
        may be read long after it was made.

        A log time more than a day ahead of the ledger's clock does not count (decoding/log_times.py). A wrong time
        that is not ahead counts, because reading a partition again without need does no harm.
        """
        read = self.last_reads.of(offsets_partition)
        if read is None:
            return 0
        ages, latest = [self.now - to_epoch_ms(read.started_at)], self.now + CLOCKS_DIFFER_MS
        if newest is not None and newest <= latest and read.newest_log_timestamp is not None:
            ages.append(newest - to_epoch_ms(read.newest_log_timestamp))
        return max(ages)
