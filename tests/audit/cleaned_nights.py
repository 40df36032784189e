"""Nights over a log that grows and is cleaned in between: its files are in a folder, the plan is the audit's own."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from kgroups_spark.lake.ledger import FINISHED, AuditRow, PartitionProgress
from kgroups_spark.plan.audit_plan import AuditPlan, plan_audit
from kgroups_spark.plan.cut_back import KnownReadings
from kgroups_spark.plan.delete_retention import DeleteRetention
from kgroups_spark.plan.read_to import read_now
from kgroups_spark.sources.segment_log import segment_logs
from tests.audit.cleaner import GrowingLog, records_of
from tests.audit.pipeline import RECORD_TABLES, Audited, Files, How, audit_plan

DAY = datetime(2026, 11, 20, tzinfo=UTC)


@dataclass
class Nights:
    """Audits of what stands in a folder, without Spark. `seen`: every record that stood there at a night's reading and
    had not been read before, by partition and offset."""

    folder: Path
    how: How = field(default_factory=How)
    audited: Audited = field(default_factory=Audited)
    last: AuditRow | None = None
    seen: set[tuple[int, int]] = field(default_factory=set)
    topic_id: str | None = None
    ledger: list[AuditRow] = field(default_factory=list)

    def audit(
        self,
        files: Files,
        *,
        full: bool = False,
        delete_retention: DeleteRetention | None = None,
        accept: bool = False,
    ) -> AuditPlan:
        """One night; what it read."""
        write_folder(self.folder, files)
        for folder in self.folder.iterdir() if self.topic_id else ():
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.topic_id}\n")
        logs = segment_logs([str(self.folder)])
        readings = KnownReadings(self._earlier, self.audited.replaced, lambda _: 0, accept)
        plan = plan_audit(logs, self.last, full=full, delete_retention=delete_retention, readings=readings)
        start = {p.offsets_partition: p.start_offset for p in plan.partitions}
        self.seen |= {(p, record.offset) for p, record in records_of(files) if record.offset >= start[p]}
        by_path = {str(self.folder / path): data for path, data in files.items()}
        read = len(self.audited.progress)
        self.audited = audit_plan(by_path, plan, self.how, self.audited)
        partitions = [
            read_now(p, [r for r in self.audited.progress[read:] if r.offsets_partition == p.offsets_partition])
            for p in plan.partitions
        ]
        self.last = AuditRow(self.audited.audits, FINISHED, "host", DAY, partitions=tuple(partitions))
        self.ledger.append(self.last)
        return plan

    def _earlier(self, offsets_partition: int) -> Iterator[tuple[int, PartitionProgress]]:
        for row in reversed(self.ledger):
            if (progress := row.progress(offsets_partition)) is not None:
                yield row.audit_id, progress

    def history(self) -> Counter[tuple[int, int]]:
        """How often each record stands in the tables that together are the log, by partition and offset."""
        return Counter(
            (row["offsets_partition"], row["log_offset"])
            for name in RECORD_TABLES
            for row in self.audited.rows(name)
            if row.get("record_count", 1)
        )


def write_folder(folder: Path, files: Files) -> None:
    """The folder holds these segments and no others."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def random_night(log: GrowingLog, rng: np.random.Generator, nights_left: int) -> None:
    """What is written until the next audit: in some partitions nothing, in the last night all that is left."""
    for partition in log.partitions:
        left = log.left(partition)
        most = left if nights_left == 1 else min(left, 1 + 3 * left // (nights_left + 1))
        count = left if nights_left == 1 else int(rng.integers(0, most + 1)) if rng.random() < 0.8 else 0
        for part in rng.multinomial(count, [0.5, 0.5]).tolist():
            log.append(partition, part)
            if rng.random() < 0.5:
                log.roll(partition)
