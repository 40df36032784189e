"""The product's own nights in this process: `run_audit` over log files in memory, and the lake's tables after each.

Files are bytes by path: `{"__consumer_offsets-3/00000000000000000000.log": b"..."}`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.result import AuditSummary
from kgroups_spark.audit.run import AuditOptions, RebuildOptions, run_audit, run_rebuild
from kgroups_spark.findings.finders import Found
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.local import Local
from kgroups_spark.records.segment import SMALLEST_CHUNK, Window
from kgroups_spark.replay.ranges import cut
from kgroups_spark.tables.definitions import NIGHT
from kgroups_spark.words import to_epoch_ms
from tests.chosen import Laws
from tests.logs.log_files import Cuts, Files, checkpoint_of, files_of_nights
from tests.nights.reported_tables import Reported, Row, stored_as
from tests.protocol.fake_delta import LOOP, FakeStore, in_memory

# The clock of these audits: a log time more than a day after it would be ahead of the clock.
CLOCK_MS = to_epoch_ms(datetime(2026, 11, 22, tzinfo=UTC))
# A folder in memory, if there is one.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
# So many that each segment becomes a range, as if each had a gigabyte.
MANY_SLOTS = 64


@dataclass(frozen=True)
class How:
    """How a log is audited. `chunk_bytes`: bytes that are decoded at once. `in_ranges`: each segment is a separate
    range, and the shards have several tasks. `clock_ms`: this machine's clock, epoch ms. `findings`: whether audits
    look for findings, which takes longer than all else of a small one; in a soak all do."""

    release: str = "4.3"
    chunk_bytes: int | None = None
    offsets_partitions: int | None = None
    retention_ms: int | None = None
    as_of: int | None = None
    in_ranges: bool = False
    clock_ms: int | None = None
    delete_retention_ms: int | None = None
    full: bool = False
    accept_log_change: bool = False
    findings: bool = False

    @property
    def rules(self) -> dict[str, Any]:
        """The options that audits and rebuilds share."""
        return {
            "release_version": self.release,
            "retention_ms": self.retention_ms,
            "as_of": self.as_of,
            "offsets_partitions": self.offsets_partitions,
        }


LOOKING = How(findings=True)


class Audited(Reported):
    """A lake in its own folder, which is deleted with this object, and its tables after its newest night."""

    def __init__(self, like: Audited | None = None) -> None:
        self.folder, self.session = Path(tempfile.mkdtemp(prefix="night-", dir=IN_MEMORY)), Local(FakeStore(), LOOP)
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.files: Files = {}
        self.nights: list[AuditSummary] = []
        self._read: dict[str, pa.Table] = {}
        self._left: LakeAsOfAudit | None = None
        if like is not None:
            self._copy(like)

    def _copy(self, other: Audited) -> None:
        shutil.copytree(other.folder, self.folder, dirs_exist_ok=True)
        logs, there, here = other.session.store.logs, f"file:{other.folder}/", f"file:{self.folder}/"
        self.session.store.logs = {path.replace(there, here): list(log) for path, log in logs.items()}
        self.files, self.nights = other.files, list(other.nights)

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    def night(self, files: Files, how: How) -> AuditSummary:
        """One audit of everything new in the files."""
        write_files(self.folder / "log", {**checkpoint_of(files), **files})
        self.files = files
        options = AuditOptions(
            lake=self.lake,
            segments=[str(self.folder / "log")],
            **how.rules,
            delete_retention_ms=how.delete_retention_ms,
            full=how.full,
            accept_log_change=how.accept_log_change,
        )
        with in_memory(), patched(how):
            self._ended(run_audit(self.session, options))
        return self.nights[-1]

    def rebuilt(self, how: How | None = None) -> Audited:
        """Another lake: this one, rebuilt from its history."""
        other = Audited(self)
        how = how or How()
        options = RebuildOptions(lake=other.lake, **how.rules)
        with in_memory(), patched(how):
            other._ended(run_rebuild(other.session, options))
        return other

    def _ended(self, summary: AuditSummary) -> None:
        self.nights.append(summary)
        self._read, self._left = {}, None

    @property
    def audits(self) -> int:
        """The number of audits."""
        return self.newest.audit_id

    @property
    def newest(self) -> AuditRow:
        """The ledger's row of the newest night."""
        return self.nights[-1].audit

    def found(self) -> list[Row]:
        """The findings of the newest night, in their order."""
        rows = self.table("findings").filter(pc.field("audit_id") == self.audits)
        return rows.drop_columns("audit_id").to_pylist()

    def table(self, name: str) -> pa.Table:
        if name not in self._read:
            with in_memory():
                self._left = self._left or LakeAsOfAudit(Lake.open(self.session, self.lake), self.audits)
                rows = _without_folder(self._left.rows(stored_as(name)))
            self._read[name] = _newest(rows.filter(pc.field("reason") == NIGHT)) if name == NIGHT else rows
        return self._read[name]

    def record_counts(self) -> Counter[tuple[int, int | None]]:
        counts: Counter[tuple[int, int | None]] = Counter()
        for night in self.nights:
            counts.update({each[:2]: each[2] for each in night.audit.record_counts or ()})
        return counts

    def records_read(self, offsets_partition: int | None = None) -> int:
        """The number of records read, without those read again."""
        return sum(
            part.records - part.records_reread
            for night in self.nights
            for part in night.audit.partitions or ()
            if offsets_partition in (None, part.offsets_partition)
        )


@cache
def empty() -> Audited:
    """A lake with all tables, without rows, which is created once."""
    made = Audited()
    with in_memory():
        Lake.create(made.session, made.lake)
    return made


def how_of(release: str = "4.3", chunk_bytes: int | None = None) -> How:
    """How a log is audited if the number of partitions of its topic is given: `replayed` cannot find it."""
    return How(release, chunk_bytes, offsets_partitions=50)


def new_lake() -> Audited:
    """A lake before its first night."""
    return Audited(empty())


def audit(files: Files, how: How | None = None) -> Audited:
    """One audit of everything."""
    audited = new_lake()
    audited.night(files, how or How())
    return audited


def audit_nights(files: Files, cuts: Cuts, how: How) -> Audited:
    """One audit after the other, of the log cut by `cuts`; with several ranges a night, each is in its own segment."""
    audited = new_lake()
    how = replace(how, in_ranges=how.in_ranges or any(len(ends) > 1 for nights in cuts.values() for ends in nights))
    for given in files_of_nights(files, cuts):
        audited.night(given, how)
    return audited


def write_files(folder: Path, files: Files) -> None:
    """Makes these the only files below the folder."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    for gone in there - files.keys():
        (folder / gone).unlink()
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


@contextmanager
def patched(how: How) -> Iterator[None]:
    """Patches settings without an option: chunks, the least bytes of a range and records of a task, and the clock."""
    with ExitStack() as stack:
        if how.chunk_bytes is not None:
            stack.enter_context(mock.patch("kgroups_spark.records.segment.Window", _windows_of(how.chunk_bytes)))
        if how.in_ranges:
            stack.enter_context(mock.patch("kgroups_spark.replay.ranges.SMALLEST_CUT_BYTES", 1))
            stack.enter_context(mock.patch("kgroups_spark.audit.work.cut", lambda whole, _: cut(whole, MANY_SLOTS)))
            stack.enter_context(mock.patch("kgroups_spark.replay.shard_states.RECORDS_OF_A_TASK", 1))
        if how.clock_ms is not None:
            stack.enter_context(mock.patch("kgroups_spark.audit.log_source._clock_ms", lambda: how.clock_ms))
        if not how.findings and not Laws.in_a_soak:
            stack.enter_context(mock.patch("kgroups_spark.audit.result.look", lambda _: Found([], [])))
        yield


def _windows_of(chunk_bytes: int) -> Any:
    return lambda file, position, end, _: Window(file, position, end, max(chunk_bytes, SMALLEST_CHUNK))


def _without_folder(rows: pa.Table) -> pa.Table:
    """The rows with the names of log files as a test gave them."""
    if "file" not in rows.column_names:
        return rows
    at = rows.column_names.index("file")
    return rows.set_column(at, rows.schema.field(at), pc.replace_substring_regex(rows.column(at), "^.*/log/", ""))


def _newest(rows: pa.Table) -> pa.Table:
    """The rows of the last audit that wrote some; a lake also keeps the previous state."""
    return rows.filter(pc.field("audit_id") == pc.max(rows.column("audit_id"))) if len(rows) else rows
