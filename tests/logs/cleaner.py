"""Kafka's log cleaner over the bytes of segments, by the rules of `Cleaner`, `CleanedTransactionMetadata` and
`MemoryRecords.filterTo` of Kafka 4.x, and a log that grows, rolls and is cleaned.

It shares no code with the readers, and is for sound logs only. Files are those of `tests/logs/log_files.py`.
"""

from __future__ import annotations

import itertools
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from tests.logs.log_files import Files, segments_of
from tests.records.build import compress, nullable, varint
from tests.slow_records import SlowRecord, read_batch, read_message

TIMESTAMP_TYPE, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
NO_TIMESTAMP = -1
ABORT, COMMIT = 0, 1
DAY_MS = 24 * 3600 * 1000  # delete.retention.ms
NOW_MS = 4 * 10**12  # later than anything that tests write


class Batch(NamedTuple):
    """A batch of magic 2, or a message of magic 0 or 1 (compressed or not), with its bytes."""

    data: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def records(self) -> list[SlowRecord]:
        return list(read_batch(self.data)) if self.magic == 2 else read_message(self.data)

    def control_type(self) -> int | None:
        """The type of the control record: 0 ABORT, 1 COMMIT, others; None: the batch no longer has a record."""
        keys = [record.key for record in self.records()]
        return struct.unpack_from(">h", keys[0], 2)[0] if keys and keys[0] else None


def clean(files: Files, *, drop_tombstones: bool = False) -> dict[str, bytes]:
    """The segments after a round of cleaning. Cleaned ones become one, under the first one's name.

    Every partition is cleaned below its active segment and its first open transaction. `drop_tombstones`: also rounds
    one and two `delete.retention.ms` later, which remove tombstones and the markers of transactions without records; by
    then the state of all producers has expired on the broker.
    """
    for number in range(3 if drop_tombstones else 1):
        files = {
            path: data
            for paths in segments_of(files).values()
            for path, data in _clean_partition(files, paths, NOW_MS + number * DAY_MS, drop_tombstones).items()
        }
    return dict(files)


def batches_of(segment: bytes) -> list[Batch]:
    """The batches of a segment; a cut one at its end is left out."""
    found, pos = [], 0
    while pos + 17 <= len(segment):
        (length,) = struct.unpack_from(">i", segment, pos + 8)
        data = segment[pos : pos + 12 + length]
        if len(data) < 12 + length:
            break
        found.append(_batch(data))
        pos += len(data)
    return found


def _batch(data: bytes) -> Batch:
    if data[16] == 2:
        base, _, epoch, magic, _, attributes, delta, *rest = struct.unpack(">qiibIhiqqqhi", data[:57])
        return Batch(data, base, base + delta, epoch, magic, attributes, *rest)
    records = read_message(data)
    times = [record.timestamp for record in records]
    kind = data[17] & 7 | (data[17] & TIMESTAMP_TYPE if data[16] else 0)
    first, last = records[0].offset, records[-1].offset
    return Batch(data, first, last, -1, data[16], kind, times[0], max(times), -1, -1, -1)


@dataclass
class Transactions:
    """The transactions of a log. `aborted`: batches of aborted transactions. `empty`: markers of transactions without
    batches. `open_at`: the start of each producer's open transaction. `last_of_producer`: the batch with each
    producer's state. Batches and markers are named by their base offsets."""

    aborted: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    open_at: dict[int, int] = field(default_factory=dict)
    last_of_producer: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(batches: list[Batch]) -> Transactions:
        found, held, epochs = Transactions(), defaultdict[int, list[int]](list), dict[int, int]()
        for batch in batches:
            producer = batch.producer_id
            if batch.is_control:
                found._marker(batch, held)
            elif batch.is_transactional:
                held[producer].append(batch.base_offset)
            # A marker has a producer's state only if it raised the epoch (transactions of version 2).
            if producer >= 0 and (not batch.is_control or epochs.get(producer) != batch.producer_epoch):
                found.last_of_producer[producer] = batch.base_offset
            epochs[producer] = batch.producer_epoch
        found.open_at = {producer: offsets[0] for producer, offsets in held.items() if offsets}
        return found

    def _marker(self, batch: Batch, held: dict[int, list[int]]) -> None:
        outcome = batch.control_type()
        if outcome not in (ABORT, COMMIT, None):
            return
        offsets = held.pop(batch.producer_id, []) if outcome is not None else []
        if not offsets:
            self.empty.add(batch.base_offset)
        if outcome == ABORT:
            self.aborted.update(offsets)


def _clean_partition(files: Files, paths: list[str], now: int, producers_expired: bool) -> dict[str, bytes]:
    """One round over the segments of one partition. It ends where the active segment or the first open transaction
    begins, whichever comes first."""
    batches = {path: batches_of(files[path]) for path in paths}
    whole = list(itertools.chain.from_iterable(batches.values()))
    transactions = Transactions.of(whole)
    end = min([int(Path(paths[-1]).stem), *transactions.open_at.values()])
    cleanable = [batch for batch in whole if batch.last_offset < end]
    if not cleanable:
        return {path: files[path] for path in paths}
    last_offsets = _last_offsets(cleanable, transactions.aborted)
    cleaning = _Round(now, producers_expired, transactions, last_offsets, cleanable[-1].last_offset)
    touched = [path for path in paths if batches[path] and batches[path][0].last_offset < end]
    kept = {path: files[path] for path in paths if path not in touched}
    cleaned = b"".join(
        cleaning.cleaned(batch) if batch.last_offset < end else batch.data
        for path in touched
        for batch in batches[path]
    )
    return dict(sorted({**kept, touched[0]: cleaned}.items()))


def _last_offsets(batches: list[Batch], aborted: set[int]) -> dict[bytes, int]:
    """The last offset of every key; aborted records hide no others."""
    return {
        record.key: record.offset
        for batch in batches
        if not batch.is_control and batch.base_offset not in aborted
        for record in batch.records()
        if record.key is not None
    }


@dataclass(frozen=True)
class _Round:
    now: int
    producers_expired: bool
    transactions: Transactions
    last_offsets: dict[bytes, int]
    last_offset: int

    def cleaned(self, batch: Batch) -> bytes:
        """The remaining bytes of the batch: all of it, a batch with fewer records, its header alone, or nothing."""
        records = batch.records()
        retained = [record for record in records if self._retains(batch, record)]
        if not retained:
            return _only_header(batch) if self._retains_empty(batch) else b""
        horizon = batch.delete_horizon
        needs_horizon = horizon is None and (self._is_empty_marker(batch) or any(r.value is None for r in retained))
        if len(retained) == len(records) and not needs_horizon and batch.magic == 2:
            return batch.data
        return _rewritten(batch, retained, self.now + DAY_MS if needs_horizon else horizon)

    def _retains(self, batch: Batch, record: SlowRecord) -> bool:
        past_horizon = batch.delete_horizon is not None and batch.delete_horizon <= self.now
        if batch.is_control:
            return not (self._is_empty_marker(batch) and past_horizon)
        if batch.base_offset in self.transactions.aborted or record.key is None:
            return False
        return record.offset >= self.last_offsets[record.key] and not (record.value is None and past_horizon)

    def _retains_empty(self, batch: Batch) -> bool:
        """Whether to keep the empty batch: an active producer's last one, for its epoch and sequence, or the last one
        of the round, for its offset."""
        last = self.transactions.last_of_producer.get(batch.producer_id)
        holds_state = last == batch.base_offset and not self.producers_expired
        return batch.magic == 2 and (holds_state or batch.last_offset == self.last_offset)

    def _is_empty_marker(self, batch: Batch) -> bool:
        return batch.is_control and batch.base_offset in self.transactions.empty


def _only_header(batch: Batch) -> bytes:
    kept = batch.attributes & (TIMESTAMP_TYPE | TRANSACTIONAL | CONTROL)
    return _written(batch, kept, batch.last_offset, (NO_TIMESTAMP, batch.max_timestamp), 0, b"")


def _rewritten(batch: Batch, retained: list[SlowRecord], delete_horizon: int | None) -> bytes:
    """The batch with these records: offsets of magic 2 stay, and a delete horizon replaces the base timestamp."""
    attributes = batch.attributes & ~DELETE_HORIZON
    base = retained[0].timestamp if delete_horizon is None else delete_horizon
    times = [record.timestamp for record in retained]
    max_timestamp = batch.max_timestamp if attributes & TIMESTAMP_TYPE else max(times)
    batch = batch if batch.magic == 2 else batch._replace(base_offset=retained[0].offset)
    body = b"".join(
        _record(record.offset - batch.base_offset, record.timestamp - base, record.key, record.value)
        for record in retained
    )
    return _written(
        batch,
        attributes if delete_horizon is None else attributes | DELETE_HORIZON,
        batch.last_offset if batch.magic == 2 else retained[-1].offset,
        (base, max_timestamp),
        len(retained),
        compress(attributes & 7, body),
    )


def _record(offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + nullable(key) + nullable(value) + varint(0)
    return varint(len(body)) + body


def _written(batch: Batch, attributes: int, last_offset: int, times: tuple[int, int], count: int, body: bytes) -> bytes:
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset - batch.base_offset,
        *times,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    covered += body
    head = struct.pack(">qiibI", batch.base_offset, 9 + len(covered), batch.leader_epoch, 2, crc32c(covered))
    return head + covered


class GrowingLog:
    """A log that is written batch by batch, rolled and cleaned, as a reader finds it on a broker's disk.

    `written`: the log without any cleaning; its leader epochs never decrease. Every partition begins with one empty
    segment.
    """

    def __init__(self, written: Files) -> None:
        self.files: dict[str, bytes] = {}
        self._to_come = {
            partition: _of_rising_epochs([batch for path in paths for batch in batches_of(written[path])])
            for partition, paths in segments_of(written).items()
        }
        for partition, batches in self._to_come.items():
            self.files[_path(partition, batches[0].base_offset if batches else 0)] = b""

    @property
    def partitions(self) -> list[int]:
        return list(self._to_come)

    def left(self, partition: int) -> int:
        """The number of batches that are not written yet."""
        return len(self._to_come[partition])

    def append(self, partition: int, batches: int) -> None:
        """Writes the next `batches` batches to the active segment."""
        path = segments_of(self.files)[partition][-1]
        written, self._to_come[partition] = self._to_come[partition][:batches], self._to_come[partition][batches:]
        self.files[path] += b"".join(batch.data for batch in written)

    def roll(self, partition: int) -> None:
        """Begins a new active segment, unless the present one is empty."""
        path = segments_of(self.files)[partition][-1]
        if batches := batches_of(self.files[path]):
            self.files[_path(partition, batches[-1].last_offset + 1)] = b""

    def clean(self, *, drop_tombstones: bool = False) -> None:
        self.files = clean(self.files, drop_tombstones=drop_tombstones)


def _of_rising_epochs(batches: list[Batch]) -> list[Batch]:
    """The batches, each with the highest leader epoch so far; the checksum does not cover the epoch."""
    epochs = itertools.accumulate((batch.leader_epoch for batch in batches), max)
    return [
        batch._replace(leader_epoch=epoch, data=batch.data[:12] + struct.pack(">i", epoch) + batch.data[16:])
        if batch.magic == 2
        else batch
        for batch, epoch in zip(batches, epochs, strict=True)
    ]


def records_of(files: Files) -> Iterator[tuple[int, SlowRecord]]:
    """Every record of the files with its partition, in log order."""
    for partition, paths in segments_of(files).items():
        for path in paths:
            for batch in batches_of(files[path]):
                yield from ((partition, record) for record in batch.records())


def _path(partition: int, base_offset: int) -> str:
    return f"__consumer_offsets-{partition}/{base_offset:020d}.log"
