"""One range of `__share_group_state` or `__transaction_state` -> rows of history, and the records for the replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator.releases import release
from kgroups_spark.decoding.log_times import LogTimes
from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext
from kgroups_spark.decoding.range_reader import RangeReader
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.messages.coordinator_logs import SHARE_LOG, CoordinatorLog
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, CoordinatorRecordDecoder
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.state_logs.replay import StateRecord, rules_of, state_record
from kgroups_spark.tables.rows import table_batch

# Replays a record; returns the reason if a load fails at it, None if it does not.
Take = Callable[[StateRecord], str | None]
Output = tuple[str, pa.RecordBatch]

RECORDS = {"__share_group_state": "share_group_state_records", "__transaction_state": "transaction_state_records"}
QUARANTINE = "state_quarantine"


class StateRangeDecoder:
    """Reads one range: `outputs()` yields (table name, rows); `progress` is complete when it has ended."""

    def __init__(
        self, log: CoordinatorLog, log_range: LogRange, context: ReadContext, records: CoordinatorRecordDecoder
    ) -> None:
        self.is_reread = log_range.is_reread
        self.progress = RangeProgress.of(log_range, log_times=LogTimes(context.latest_ms))
        self._log = log
        self._audit_id = context.audit_id
        self._reader = RangeReader(log_range, context, log.topic, self.progress)
        self._records = records
        self._rules = rules_of(log, release(context.release_version))
        detail = f"A control record: nobody writes to {log.topic} in transactions"
        self._control = Undecodable("unknown_record_type", detail)

    def outputs(self, take: Take) -> Iterator[Output]:
        """Rows of the log's records and of state_quarantine, chunk by chunk; none for a range that is read again.
        `take` gets each record in log order."""
        for path, item in self._reader.items():
            rows = self._corrupt(item, path) if isinstance(item, CorruptBatch) else self._chunk(item, path, take)
            if not self.is_reread:
                yield from rows

    def _chunk(self, records: RecordColumns, path: str | None, take: Take) -> list[Output]:
        self.progress.note(records)
        sound, bad = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        # Read once: these properties compute whole columns on each access.
        facts = (records.offset, records.timestamp, records.is_control, records.batches.position[records.batch])
        for row, (offset, timestamp, is_control, position) in enumerate(zip(*(f.tolist() for f in facts), strict=True)):
            key, value = records.key(row), records.value(row)
            place = (offset, None if timestamp < 0 else timestamp)
            where = (path, None if path is None else position)
            record = self._control if is_control else self._records.decode(key, value)
            if isinstance(record, Undecodable):
                self.progress.quarantined[record.reason] += 1
                bad.append((*place, *self._undecodable(record), *where, key, value))
                continue
            raw = (key, value) if record.keeps_raw else (None, None)
            sound.append((*place, *self._columns(record), *raw))
            if why := take(state_record(*place, record)):
                self.progress.quarantined["load_would_fail"] += 1
                bad.append((*place, *_load_failure(record, why), *where, None, None))
        return [self._rows(RECORDS[self._log.topic], sound), self._rows(QUARANTINE, bad, log=self._log.topic)]

    def _undecodable(self, what: Undecodable) -> tuple[Any, ...]:
        kind = (what.record_type, what.record_name, what.group_id, what.topic_id, what.partition, what.transactional_id)
        return (1, *kind, what.value_version, what.reason, what.detail, self._rules.fails_at(what.reason))

    def _columns(self, record: CoordinatorRecord) -> tuple[Any, ...]:
        value = (record.value_version, record.value_json())
        layout = (record.layout or None,) if self._log is SHARE_LOG else ()
        return (record.record_type, record.record_name, *record.key.values(), *value, *layout)

    def _corrupt(self, batch: CorruptBatch, path: str | None) -> list[Output]:
        log_offset = self._reader.place_of(batch, path)
        if log_offset is None:
            return []
        position = None if path is None else batch.position
        unknown = (None,) * 7  # type and name of the record, its key, the version of its value
        why = ("corrupt_batch", batch.detail, True)
        row = (log_offset, None, batch.record_count, *unknown, *why, path, position, None, batch.raw)
        return [self._rows(QUARANTINE, [row], log=self._log.topic)]

    def _rows(self, name: str, rows: list[tuple[Any, ...]], **more: Any) -> Output:
        place = {"audit_id": self._audit_id, "state_partition": self.progress.offsets_partition}
        return name, table_batch(name, None, rows, **place, **more)


def _load_failure(record: CoordinatorRecord, why: str) -> tuple[Any, ...]:
    """The middle columns of quarantine's row for a record that is in its own table, which has its bytes and counts
    it."""
    key = [record.key.get(name) for name in ("groupId", "topicId", "partition", "transactionalId")]
    return (0, record.record_type, record.record_name, *key, record.value_version, "load_would_fail", why, True)
