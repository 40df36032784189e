"""When a partition must be read again from its start, because the log may have forgotten what ended something (R6).

Kafka's cleaner drops a tombstone, or the marker of a transaction without records, `delete.retention.ms` after it has
first cleaned it (LogCleaner, `deleteHorizonMs`; before 3.1 as long after its segment was last written). One that was
written after our last read can only be gone if that read is longer ago. Whether one is gone nobody can see; but where
no offset is missing, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.durations import UNITS_MS, format_duration
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.ledger_rows import Reading
from kgroups_spark.times import to_epoch_ms

# Kafka's default of delete.retention.ms; __consumer_offsets is made without one of its own.
DEFAULT_DELETE_RETENTION_MS = UNITS_MS["d"]


class LastReads:
    """Which audit last read something of a partition.

    `readings`: what finished audits read of, the newest first. It is asked for only if that was not the audit `last`,
    and gone through only as far as needed.
    """

    def __init__(self, last: AuditRow, readings: Callable[[], Iterable[Reading]]) -> None:
        self._last = last
        self._readings = readings
        self._found: dict[int, Reading] = {}

    def of(self, offsets_partition: int) -> AuditRow | Reading | None:
        """None: the ledger knows of none."""
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
    """A partition whose last read is longer ago (`age`, ms) than `delete.retention.ms`: if offsets are missing in what
    is new of it, tombstones may be among them."""

    offsets_partition: int
    age: int
    delete_retention_ms: int

    def why_read_again(self, gone: int, span: int) -> str | None:
        """A sentence, or None where nothing is `gone` of the `span` of new offsets."""
        if gone <= 0:
            return None
        return (
            f"partition {self.offsets_partition} was read again from its start: last read {format_duration(self.age)} "
            f"ago, longer than delete.retention.ms ({format_duration(self.delete_retention_ms)}), and {gone:,} of "
            f"{span:,} offsets were gone"
        )


@dataclass(frozen=True)
class DeleteRetention:
    """`delete.retention.ms` of the topic, and what it is measured against. `now` is the ledger's clock, ms."""

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
        """None where what is new in the partition is enough, whatever is missing.

        `before`: how far it was read; `end_offset` and `newest`: where its log ends now, and the timestamp of its last
        batch (None: not known).
        """
        is_new = end_offset > before.end_offset
        age = self._last_read_ago(before.offsets_partition, newest) if is_new else 0
        too_old = age > self.delete_retention_ms
        return TooOld(before.offsets_partition, age, self.delete_retention_ms) if too_old else None

    def _last_read_ago(self, offsets_partition: int, newest: int | None) -> int:
        """By the ledger's clock or by the log's, which is the longer: copies of a log may be read long after.

        A time more than a day ahead of the ledger's clock is not the log's (decoding/log_times.py), unless both are:
        then the clock is wrong. A broken time that is not ahead counts: to read a partition again without need loses
        nothing.
        """
        read = self.last_reads.of(offsets_partition)
        if read is None:
            return 0
        ages, latest = [self.now - to_epoch_ms(read.started_at)], self.now + CLOCKS_DIFFER_MS
        if newest is not None and read.newest_log_timestamp is not None:
            then = to_epoch_ms(read.newest_log_timestamp)
            if newest <= latest or then > latest:
                ages.append(newest - then)
        return max(ages)
