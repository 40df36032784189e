"""Nights over a log that grows and is cleaned in between."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from kgroups_spark.lake.ledger import AuditRow
from tests.logs.cleaner import GrowingLog, records_of
from tests.logs.log_files import Files
from tests.nights.nights_here import Audited, How, new_lake
from tests.nights.reported_tables import RECORD_TABLES

# Longer than any test takes, so that no partition is read again because of its age.
NEVER_MS = 10**14


@dataclass
class Nights:
    """Audits of one log into one lake. `seen`: the records that each night found and no earlier night had read, by
    partition and offset. `topic_id`: of the log."""

    how: How = field(default_factory=How)
    topic_id: str | None = None
    audited: Audited = field(default_factory=new_lake)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def audit(
        self, files: Files, *, full: bool = False, delete_retention_ms: int = NEVER_MS, accept: bool = False
    ) -> AuditRow:
        """Runs one night; returns its row of the ledger."""
        identity = f"version: 0\ntopic_id: {self.topic_id}\n".encode()
        folders = {path.split("/")[0] for path in files} if self.topic_id else set()
        given = {**files, **{f"{folder}/partition.metadata": identity for folder in folders}}
        how = replace(self.how, full=full, delete_retention_ms=delete_retention_ms, accept_log_change=accept)
        row = self.audited.night(given, how).audit
        start = {each.offsets_partition: each.start_offset for each in row.partitions or ()}
        self.seen |= {(p, record.offset) for p, record in records_of(files) if record.offset >= start[p]}
        return row

    def history(self) -> Counter[tuple[int, int]]:
        """How often each record is in the tables that together are the log, by partition and offset."""
        return Counter(
            (row["offsets_partition"], row["log_offset"])
            for name in RECORD_TABLES
            for row in self.audited.rows(name)
            if row.get("record_count", 1)
        )


def write_folder(folder: Path, files: Files) -> None:
    """Makes these the only segments of the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def random_night(log: GrowingLog, rng: np.random.Generator, nights_left: int) -> None:
    """Writes to the log until the next audit: nothing to some partitions, and in the last night all remaining
    batches."""
    for partition in log.partitions:
        left = log.left(partition)
        most = left if nights_left == 1 else min(left, 1 + 3 * left // (nights_left + 1))
        count = left if nights_left == 1 else int(rng.integers(0, most + 1)) if rng.random() < 0.8 else 0
        for part in rng.multinomial(count, [0.5, 0.5]).tolist():
            log.append(partition, part)
            if rng.random() < 0.5:
                log.roll(partition)
