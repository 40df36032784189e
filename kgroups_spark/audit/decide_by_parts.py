"""Decisions made and written where Parquet parts are: the files of the current tables are read by pyarrow, lot by lot
of offsets partitions, and no row passes through Spark.

A small lake is decided by the driver itself: to start a task for it costs more than it has to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.judging import DECIDED_BY, HELD_GROUPS, Judging, columns_needed
from kgroups_spark.audit.outputs import MANIFEST, PartCollector, manifest_batch, part_line
from kgroups_spark.sources.s3 import with_storage
from kgroups_spark.tables.as_of_audit import LakeAsOfAudit
from kgroups_spark.tables.failures import told_in_one_line
from kgroups_spark.tables.kernel import TableFile
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.parts_reader import dataset_of
from kgroups_spark.tables.parts_writer import Part
from kgroups_spark.tables.writer import LakeWriter

# Fewer committed offsets are not worth a task of their own.
SMALLEST_HAND_ROWS = 50_000
# About so many committed offsets are judged at once; an offsets partition is never cut.
ROWS_AT_ONCE = 1 << 18

WRITTEN = ("previous_offset_expiry", "offset_expiry", "group_expiry")

SHARD = "offsets_partition"


@dataclass(frozen=True)
class _File:
    """A file of a table, by which offsets partitions it may have; None: any."""

    path: str
    first: int | None
    last: int | None

    def may_have(self, numbers: range) -> bool:
        is_behind = self.first is not None and self.first >= numbers.stop
        return not is_behind and (self.last is None or self.last >= numbers.start)


@dataclass(frozen=True)
class _Hand:
    """The work of one task: offsets partitions to decide, and files of what was decided before, to keep."""

    numbers: range
    kept: Sequence[str]


@dataclass(frozen=True)
class _Work:
    """The knowledge that all tasks share. `files`: by name of DECIDED_BY; `lot`: how many offsets partitions at
    once."""

    lake_uri: str
    judging: Judging
    files: Mapping[str, Sequence[_File]]
    lot: int

    def lines(self, hand: _Hand) -> Iterator[tuple[str, Any]]:
        """Writes the parts of a hand; what the driver has to know of them."""
        collector = PartCollector(self.lake_uri, self.judging.audit_id)
        for name, rows in self._outputs(hand):
            yield from map(part_line, collector.add(name, rows))
        yield from map(part_line, collector.rest())

    def _outputs(self, hand: _Hand) -> Iterator[tuple[str, pa.Table]]:
        yield from (("previous_offset_expiry", rows) for rows in self._kept(hand.kept))
        for start in range(hand.numbers.start, hand.numbers.stop, self.lot):
            numbers = range(start, min(start + self.lot, hand.numbers.stop))
            yield from self.judging.decided({name: self._rows(name, numbers) for name in DECIDED_BY})

    def _kept(self, paths: Sequence[str]) -> Iterator[pa.Table]:
        decided = dataset_of("offset_expiry", f"{self.lake_uri}/offset_expiry", paths)
        for batch in decided.to_batches(batch_readahead=2, fragment_readahead=1):
            rows = pa.Table.from_batches([batch])
            columns = {name: rows[name] for name in rows.column_names} | {
                "audit_id": pa.repeat(pa.scalar(self.judging.audit_id, pa.int64()), rows.num_rows),
                "decided_by": rows["audit_id"],
            }
            yield pa.table(columns)

    def _rows(self, name: str, numbers: range) -> pa.Table:
        table = "coordinator_state" if name == HELD_GROUPS else name
        where = (pc.field(SHARD) >= numbers.start) & (pc.field(SHARD) < numbers.stop)
        if name == HELD_GROUPS:
            where &= pc.field("entry_type") == "noted"
        paths = [file.path for file in self.files[name] if file.may_have(numbers)]
        rows = dataset_of(table, f"{self.lake_uri}/{table}", paths)
        return rows.to_table(columns=columns_needed(name).names, filter=where)


def decide_by_parts(lake: Lake, writer: LakeWriter, judging: Judging) -> None:
    """Commits previous_offset_expiry, offset_expiry and group_expiry."""
    files = {name: lake.table(name).files() for name in DECIDED_BY if name != HELD_GROUPS}
    held = _newest_state(lake) if judging.looks_at_held_groups else []
    before = LakeAsOfAudit.last_finished(lake)
    kept = [] if before.audit_id == 0 else lake.table("offset_expiry").files(before.version("offset_expiry"))
    numbers = _numbers(lake, {name: files[name] for name in ("groups", "committed_offsets")})
    rows = max(rows_in(files["committed_offsets"]), rows_in(kept))
    lot = max(1, ROWS_AT_ONCE * len(numbers) // max(rows, 1))
    work = _Work(
        lake.uri,
        judging,
        {name: [_told(file) for file in some] for name, some in (files | {HELD_GROUPS: held}).items()},
        lot,
    )
    tasks = 1 if rows < SMALLEST_HAND_ROWS else max(1, lake.spark.sparkContext.defaultParallelism)
    parts: dict[str, list[Part]] = {name: [] for name in WRITTEN}
    with told_in_one_line("what expires could not be decided"):
        for part in _written(lake, work, _dealt(numbers, [file.path for file in kept], tasks)):
            parts[part.table].append(part)
    for name in WRITTEN:
        if name != "previous_offset_expiry" or before.audit_id != 0:
            writer.replace_parts(name, parts[name])


def _written(lake: Lake, work: _Work, hands: list[_Hand]) -> Iterator[Part]:
    if len(hands) == 1:
        for _, payload in work.lines(hands[0]):
            yield Part(**payload)
        return

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield manifest_batch(list(work.lines(hands[number])))

    one_per_hand = lake.spark.range(0, len(hands), 1, numPartitions=len(hands))
    for line in one_per_hand.mapInArrow(with_storage(task), MANIFEST).collect():
        yield Part(**json.loads(line.payload))


def _dealt(numbers: range, kept: list[str], tasks: int) -> list[_Hand]:
    """Each task gets neighbours: rows of one file lie by offsets partition."""
    tasks = max(1, min(tasks, len(numbers)))
    cuts = [len(numbers) * number // tasks for number in range(tasks + 1)]
    return [_Hand(numbers[cuts[task] : cuts[task + 1]], kept[task::tasks]) for task in range(tasks)]


def _numbers(lake: Lake, files: Mapping[str, Sequence[TableFile]]) -> range:
    """The offsets partitions, with those in between."""
    bounds = [file.bound(which, SHARD) for some in files.values() for file in some for which in BOUNDS]
    if None in bounds:  # a file that somebody else wrote
        columns = [lake.rows(name, files=some, columns=[SHARD])[SHARD] for name, some in files.items()]
        bounds = [number for column in columns for number in pc.unique(column).to_pylist()]
    return range(min(bounds), max(bounds) + 1) if bounds else range(0)


BOUNDS = ("minValues", "maxValues")


def rows_in(files: Iterable[TableFile]) -> int:
    """How many; where a file does not say, no fewer."""
    return sum(file.stats.get("numRecords", file.size) for file in files)


def _newest_state(lake: Lake) -> list[TableFile]:
    """The files of coordinator_state that say which groups producers are noted for; that of the audit before lies
    beside."""
    files = lake.table("coordinator_state").files()
    by_audit = [(file.bound("minValues", "audit_id") or 0, file) for file in files]
    newest = max((audit_id for audit_id, _ in by_audit), default=0)
    return [file for audit_id, file in by_audit if audit_id == newest]


def _told(file: TableFile) -> _File:
    return _File(file.path, *(file.bound(which, SHARD) for which in BOUNDS))
