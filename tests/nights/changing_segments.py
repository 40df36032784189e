"""A broker that changes its segments while a lake reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kgroups_spark.audit.plan import AuditPlan, plan_audit, read_now, read_on, require_readable, uncommitted_offsets
from kgroups_spark.audit.same_log import KnownReadings
from kgroups_spark.lake.ledger import FINISHED, AuditRow, PartitionProgress
from kgroups_spark.lake.replaced import NOTHING
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.replay.ranges import LogRange, RangeProgress, ReadContext, cut
from kgroups_spark.sources import files
from kgroups_spark.words import LAST_MS
from tests.logs.cleaner import clean
from tests.logs.segment_logs import segment_logs
from tests.records.build import batch

SLOTS = 5
READ_BEFORE = 4  # offsets that the audit before has read
PLANNED = 21  # offsets that the log has when the audit begins
Steps = Iterator[None]
DECODER = GroupRecordDecoder()
# No earlier audits.
READINGS = KnownReadings(lambda _: iter(()), NOTHING, lambda _: 0)


def commit(number: int) -> bytes:
    """A batch with the commit of offset 1000 + number for one of five partitions."""
    key = b"\0\1\0\1g\0\1t" + (number % SLOTS).to_bytes(4, "big")
    value = b"\0\3" + (1000 + number).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0" + bytes(8)
    return batch(number, [(key, value)])


def state(end: int) -> dict[int, int]:
    """The newest log offset of each slot below `end`."""
    return {number % SLOTS: number for number in range(end)}


class Broker:
    """A partition's folder, and a broker's changes to it. They run step by step; each step is one system call."""

    segment = 6  # offsets of a segment

    def __init__(self, folder: Path, written: int = PLANNED) -> None:
        self.log = folder / "__consumer_offsets-0"
        self.log.mkdir(parents=True)
        self.written = 0
        self.append(written)

    def path(self, base_offset: int, suffix: str = "") -> Path:
        return self.log / f"{base_offset:020}.log{suffix}"

    def append(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            with self.path(number // self.segment * self.segment).open("ab") as file:
                file.write(commit(number))
        self.written += count

    def contents(self) -> dict[str, bytes]:
        return {f"{self.log.name}/{path.name}": path.read_bytes() for path in sorted(self.log.glob("*.log"))}

    # Changes

    def cleans(self) -> Steps:
        """Each rolled segment becomes a smaller file of the same name."""
        cleaned = self._cleaned()
        for path in sorted(self.contents())[:-1]:
            base = int(path[-24:-4])
            kept = [commit(number) for number in range(base, base + self.segment) if commit(number) in cleaned]
            yield from self._swap([base], b"".join(kept))

    def merges(self) -> Steps:
        """All rolled segments become one, under the first one's name."""
        cleaned = self._cleaned()
        yield from self._swap([int(path[-24:-4]) for path in sorted(self.contents())[:-1]], cleaned)

    def _cleaned(self) -> bytes:
        """Writes more batches; returns the bytes of the rolled segments that remain after cleaning."""
        self.append(9)
        before = self.contents()
        active = max(before)
        cleaned = b"".join(data for path, data in clean(before).items() if path != active)
        assert len(cleaned) < sum(len(data) for path, data in before.items() if path != active)
        return cleaned

    def _swap(self, bases: list[int], cleaned: bytes) -> Steps:
        """As LocalLog.replaceSegments."""
        self.path(bases[0], ".cleaned").write_bytes(cleaned)
        yield
        self.path(bases[0], ".cleaned").rename(self.path(bases[0], ".swap"))
        yield
        for base in bases:
            self.path(base).rename(self.path(base, ".deleted"))
            yield
        self.path(bases[0], ".swap").rename(self.path(bases[0]))
        yield
        for base in bases:
            self.path(base, ".deleted").unlink()

    def cleans_twice(self) -> Steps:
        yield from self.cleans()
        yield from self.merges()

    def goes_on(self) -> Steps:
        """Only writes."""
        for _ in range(8):
            self.append(1)
            yield

    def copies_files(self) -> Steps:
        """Replaces every file by another one with the same bytes, as a copying tool does."""
        for path in sorted(self.log.glob("*.log")):
            copy = path.with_suffix(".tmp")
            copy.write_bytes(path.read_bytes())
            copy.rename(path)
            yield

    def cuts_off(self) -> Steps:
        """Drops the records that a follower's new leader does not have."""
        path = self.path(self.written // self.segment * self.segment)
        os.truncate(path, path.stat().st_size - len(commit(0)))
        yield

    def deletes_records(self) -> Steps:
        """Removes the first segments, as kafka-delete-records does."""
        for base in (0, self.segment):
            self.path(base).rename(self.path(base, ".deleted"))
            yield
            self.path(base, ".deleted").unlink()
            yield


class FolderLake:
    """The lake of a folder's audits: the log offsets that they read, the damage, and the offset that they reached."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.last: AuditRow | None = None
        self.offsets: list[int] = []
        self.again: list[int] = []
        self.damage: list[Any] = []
        self.records = 0
        self.uncommitted = 0
        self.unconfirmed: list[str] = []
        self.notes: list[str] = []
        self.readings = READINGS

    def plan(self, *, full: bool = False) -> AuditPlan:
        known = {0: {(row["file"].rsplit("/", 1)[-1], row["file_position"]) for row in self.damage}}
        plan = plan_audit(
            segment_logs([self.folder]), self.last, full=full, known_corrupt=known, readings=self.readings
        )
        require_readable([plan])
        return plan

    def audit(self, *, full: bool = False, backwards: bool = False) -> AuditPlan:
        """Reads what is new, as an audit does."""
        plan = self.plan(full=full)
        for replaced in plan.replaced.values():
            self.offsets = [offset for offset in self.offsets if offset < replaced.from_offset]
        already, damage = len(self.offsets) + len(self.again), len(self.damage)
        self.notes = plan.notes
        order = [*plan.reread_ranges, *cut(plan.new_ranges, 100)]
        progress = [self.read(log_range) for log_range in (order[::-1] if backwards else order)]
        progress += [self.read(log_range) for log_range in read_on(plan, progress)]
        lost = sum(row["record_count"] for row in self.damage[damage:])
        read = sum(each.records for each in progress)
        self.uncommitted = uncommitted_offsets(plan, progress, LAST_MS).get(0, (0, 0))[0]
        self.unconfirmed = [each.unconfirmed for each in progress if each.unconfirmed]
        self.records += read
        before = self.last or AuditRow(1, FINISHED, "host", datetime(2026, 11, 20, tzinfo=UTC))
        self.last = before._replace(
            cluster_id=plan.cluster_id,
            partitions=(read_now(plan.partitions[0], progress),),
        )
        self.check(read, len(self.offsets) + len(self.again) + lost - already)
        return plan

    @property
    def next_offset(self) -> int:
        progress = None if self.last is None else self.last.progress(0)
        assert progress is not None
        return progress.end_offset

    def check(self, records: int, rows: int) -> None:
        """The log may have other records than commits."""

    def read(self, log_range: LogRange) -> RangeProgress:
        context = ReadContext(1, "4.3", files.open_file, chunk_bytes=256)
        reading = RangeDecoder([log_range._replace(is_reread=False)], context, DECODER)
        read = self.again if log_range.is_reread else self.offsets
        for name, rows in reading.outputs():
            if name == "quarantine":
                self.damage += rows.to_pylist()
            elif name == "offset_commits":
                read += rows.column("log_offset").to_pylist()
        return reading.progress


class Lake(FolderLake):
    """The lake of a Broker's log; the audit before has read READ_BEFORE offsets."""

    last: AuditRow

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.log.parent)
        self.offsets = list(range(READ_BEFORE))
        at = datetime(2026, 11, 20, tzinfo=UTC)
        self.last = AuditRow(1, FINISHED, "host", at, partitions=(PartitionProgress(0, 0, READ_BEFORE),))

    def check(self, records: int, rows: int) -> None:
        assert records == rows

    def state(self) -> dict[int, int]:
        return {offset % SLOTS: offset for offset in sorted({*self.offsets, *self.again})}
