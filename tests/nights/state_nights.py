"""Partitions of the other logs, audited in this process, night by night, without Spark."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import orjson

from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS, CoordinatorRecordDecoder
from kgroups_spark.records.segment import scan_batches
from kgroups_spark.replay.ranges import LogRange, ReadContext
from kgroups_spark.replay.state_logs import (
    GONE,
    RECORDS,
    Settings,
    StateRecord,
    StateShard,
    StateShardRead,
    StateShardWork,
)
from kgroups_spark.sources.partition_log import SegmentPiece

NOW = ("share_partitions", "share_batches", "transactional_ids")


@dataclass
class StateNights:
    """Audits of one partition, and the tables that they wrote. `audit` runs one."""

    topic: str
    release: str = "4.4"
    partition: int = 1
    state: list[StateRow] = field(default_factory=list)
    tables: dict[str, list[dict]] = field(default_factory=dict)
    reads: list[StateShardRead] = field(default_factory=list)
    next_offset: int = 0
    settings: Settings = field(default_factory=Settings)

    def audit(self, log, *, again=False, starts_again=False):
        """Reads the new records in the segment's bytes, or (`again`) everything once more; returns the rows it
        added."""
        ranges = [self._range(log, 0, self.next_offset)]
        if again:
            ranges.insert(0, self._range(log, -1, 0, is_reread=True, end_offset=self.next_offset))
        first = int(scan_batches(io.BytesIO(log)).base_offset[0]) if starts_again else None
        return self._run(StateShardWork(self.topic, self.partition, tuple(ranges), first), log, self.state)

    def rebuild(self, release=None):
        """Rewrites the current tables from history alone."""
        self.release = release or self.release
        gone = [row for row in self.state if row.entry_type == GONE]
        return self._run(StateShardWork(self.topic, self.partition), b"", gone, self._history())

    def now(self):
        """The rows of the current tables, sorted."""
        return {name: sorted(map(repr, self.tables.get(name, ()))) for name in NOW}

    def history(self):
        """The rows of all other tables of users."""
        return {name: rows for name, rows in self.tables.items() if name not in NOW}

    def _run(self, work, log, state, history=None):
        read, added = StateShardRead(self.topic), {}
        context = ReadContext(1, self.release, lambda path: io.BytesIO(log))
        for name, rows in StateShard(work, state, context, self.settings, lambda: history).read_on(read):
            added.setdefault(name, []).extend(rows.to_pylist())
        self.state = [StateRow(*(row[k] for k in StateRow._fields)) for row in added.pop("state_log_state", ())]
        for name, rows in added.items():
            self.tables[name] = rows if name in NOW else [*self.tables.get(name, ()), *rows]
        self.reads.append(read)
        self.next_offset = max([self.next_offset, *(each.next_offset for each in read.progress)])
        return added

    def _range(self, log, number, start_offset, **more):
        pieces = (SegmentPiece("00000000000000000000.log", 0, len(log)),)
        return LogRange(self.partition, number, start_offset, pieces, **more)

    def _history(self):
        names = ("transactional_id",) if self.topic == "__transaction_state" else ("group_id", "topic_id", "partition")
        decoder = CoordinatorRecordDecoder(COORDINATOR_LOGS[self.topic])
        assert decoder.log.topic in RECORDS
        for row in self.tables.get(RECORDS[self.topic], ()):
            at = row["log_timestamp"]
            yield StateRecord(
                row["log_offset"],
                None if at is None else int(at.timestamp() * 1000),
                row["record_type"],
                tuple(row[name] for name in names),
                row["value_version"],
                None if row["value"] is None else orjson.loads(row["value"]),
                row.get("layout") or "",
            )


def ends_of_batches(log):
    """The ends of a segment's batches, in bytes from its start."""
    batches = scan_batches(io.BytesIO(log))
    return [int(end) for end in batches.position + batches.size]
