"""A whole audit of segments in one process, without Spark: decode, replay, tables as Arrow.

Files are bytes in memory, by path: `{"__consumer_offsets-3/00000000000000000000.log": b"..."}`.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.audit.read_again import read_again
from kgroups_spark.audit.work import known_topics
from kgroups_spark.decoding.group_traffic import summed
from kgroups_spark.decoding.range_decoder import RangeDecoder, RangeProgress, ReadContext
from kgroups_spark.decoding.ranges import LogRange, cut
from kgroups_spark.decoding.topic_names import TopicNames
from kgroups_spark.lake.replaced import NOTHING, Replaced, ReplacedRange
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.offsets.replay import ALL_GROUPS
from kgroups_spark.plan.audit_plan import AuditPlan
from kgroups_spark.replay.corrected import HistoryReplay, corrections_of
from kgroups_spark.replay.read_again import CorrectedReplay, ReadAgain
from kgroups_spark.replay.replay_shard import AuditSpans, Night
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.shard_state import ShardState
from kgroups_spark.replay.state_rows import entry_rows, loaded, saved
from kgroups_spark.sources.partition_log import SegmentPiece
from kgroups_spark.tables.rows import LAST_MS
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.tasks.read_stage import PASSED_ON
from tests.audit.decoded import MemoryFile, plain, whole_ranges
from tests.audit.log_files import Border, Files, segments_of
from tests.audit.object_replay import replay_partitions
from tests.audit.object_rows import correction_rows, in_log_order, object_entries, replay_rows
from tests.audit.told_tables import CURRENT, RECORD_TABLES, Row, unordered
from tests.replay.state_entries import entries


@dataclass
class Audited:
    """What audits have written: the history of all of them, the current tables and the state of the last one."""

    history: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    now: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    progress: list[RangeProgress] = field(default_factory=list)
    names: TopicNames = field(default_factory=TopicNames)
    audits: int = 0
    # What this night's replay gets: rows of what is new and of what was read again, by table.
    tonight: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    again: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    replaced: Replaced = NOTHING

    def left(self) -> dict[str, list[pa.Table]]:
        """History without what is replaced."""
        if not self.replaced:
            return self.history
        return {
            name: [self.replaced.rows_left(name, pa.dataset.dataset(pa.concat_tables(tables)), None, ())]
            for name, tables in self.history.items()
            if tables
        }

    def rows(self, name: str) -> list[Row]:
        """Rows of a table by its key, without audit_id."""
        tables = (self.now if name in CURRENT or name == "coordinator_state" else self.left()).get(name, [])
        rows = [row for table in tables for row in table.to_pylist(maps_as_pydicts="strict")]
        for row in rows:
            del row["audit_id"]
        key = [column for column in TABLES[name].key if column != "audit_id"]
        return sorted(rows, key=lambda row: [(row[column] is not None, row[column]) for column in key])

    def traffic(self) -> dict[tuple[int, str, Any], list[int]]:
        """Counts of `group_traffic` by offsets partition, group and hour, of all audits together."""
        sums: dict[tuple[int, str, Any], list[int]] = {}
        counts = ("commits", "tombstones", "transactional_commits", "other_records", "bytes")
        for row in self.rows("group_traffic"):
            key = (row["offsets_partition"], row["group_id"], row["hour"])
            before = sums.get(key, [0] * len(counts))
            sums[key] = [total + row[name] for total, name in zip(before, counts, strict=True)]
        return sums

    def state(self) -> dict[tuple[Any, ...], Any]:
        """The saved state, without regard to the order of what has none."""
        return {
            (row["offsets_partition"], row["entry_type"], row["group_id"] or told.get("producer_id")): unordered(told)
            for row in self.state_entries()
            for told in [json.loads(row["payload"])]
        }

    def state_entries(self) -> list[Row]:
        """The saved state as state format 1 had it (tests/replay/state_entries.py)."""
        by_partition = itertools.groupby(self.rows("coordinator_state"), itemgetter("offsets_partition"))
        return [{"offsets_partition": p, **row._asdict()} for p, rows in by_partition for row in entries(rows)]

    def record_count(self, offsets_partition: int | None = None) -> int:
        """Records that the four tables hold that together are the log."""
        return sum(
            row.get("record_count", 1)
            for name in RECORD_TABLES
            for row in self.rows(name)
            if offsets_partition in (None, row["offsets_partition"])
        )

    def records_read(self, offsets_partition: int | None = None) -> int:
        """Without those that were read again."""
        return sum(
            p.records for p in self.progress if p.number >= 0 and offsets_partition in (None, p.offsets_partition)
        )

    def groups_with_versions(self, log_offsets: Mapping[int, int]) -> dict[int, set[str]]:
        """As read_again.py asks a lake."""
        found: dict[int, set[str]] = {}
        for row in (*self.rows("group_versions"), *self.rows("group_member_versions")):
            if log_offsets.get(row["offsets_partition"]) == row["log_offset"]:
                found.setdefault(row["offsets_partition"], set()).add(row["group_id"])
        return found


def range_between(files: Files, partition: int, number: int, start: Border, end: Border) -> LogRange:
    """The range of the batches between two borders."""
    paths = segments_of(files)[partition]
    pieces = []
    for segment in range(start.segment, end.segment + 1):
        begin = start.position if segment == start.segment else 0
        stop = end.position if segment == end.segment else len(files[paths[segment]])
        if begin < stop:
            pieces.append(SegmentPiece(paths[segment], begin, stop))
    last = len(paths) - 1
    ends_log = end.segment == last and end.position == len(files[paths[last]])
    return LogRange(
        partition, number, start.next_offset, tuple(pieces), ends_log=ends_log, begins_log=start == Border(0, 0, 0)
    )


@dataclass(frozen=True)
class How:
    """How a log is audited. `by_objects`: by a shard of objects, record by record (object_replay.py). `replay`: False
    stops after the history."""

    release: str = "4.3"
    by_objects: bool = False
    chunk_bytes: int | None = None
    replay: bool = True
    offsets_partitions: int | None = None
    retention_ms: int | None = None
    latest_ms: int = LAST_MS


def audit(files: Files, how: How | None = None) -> Audited:
    """One audit of everything."""
    return audit_night(files, whole_ranges(files), how or How(), Audited())


def audit_nights(files: Files, nights: Sequence[Sequence[LogRange]], how: How) -> Audited:
    """One audit after the other, each going on from the state that the one before saved."""
    audited = Audited()
    for ranges in nights:
        audited = audit_night(files, ranges, how, audited)
    return audited


def audit_night(files: Files, ranges: Sequence[LogRange], how: How, before: Audited) -> Audited:
    """One audit of the ranges that are new."""
    after = _next_night(before)
    _read(files, ranges, how, after)
    if how.replay:
        (_replay_objects if how.by_objects else _replay)(before, how, after)
    return after


def _next_night(before: Audited) -> Audited:
    fresh = {name: defaultdict(list) for name in ("now", "tonight", "again")}
    return replace(before, audits=before.audits + 1, **fresh)


def audit_plan(files: Files, plan: AuditPlan, how: How, before: Audited) -> Audited:
    """One audit of what the plan names, some of it read again."""
    after = _next_night(before)
    after.replaced = before.replaced.and_also(
        ReplacedRange(p, each.from_offset, each.to_offset, after.audits) for p, each in plan.replaced.items()
    )
    restored = {p: _state_before(after, how, p, each.from_offset) for p, each in plan.replaced.items()}
    ranges = cut([*plan.reread_ranges, *plan.new_ranges], slots=2)
    _read(files, ranges, how, after)
    progress = after.progress[len(after.progress) - len(ranges) :]
    _replay(before, how, after, read_again(plan, progress, after.groups_with_versions), restored)
    return after


def _state_before(audited: Audited, how: How, p: int, log_offset: int) -> ShardState:
    """The state that history below that offset leads to."""
    left = audited.left()
    corrections = corrections_of(_of_partition(left, "state_corrections", p))
    history = _history(left, p).between(None, log_offset)
    before = [each for each in corrections if each.log_offset <= log_offset]
    replay = HistoryReplay(p, _night(how, audited), ShardState(), history, before)
    for _ in replay.changes():
        pass
    return replay.state


def rebuild(audited: Audited, how: How, audits: AuditSpans | None = None) -> Audited:
    """Tables of now, versions and events from history and what was corrected alone. `audits`: as Night."""
    rebuilt = Audited(names=audited.names)
    if how.by_objects:
        rows = [replay_rows(audited.left()), correction_rows(audited.rows("state_corrections"))]
        _replay_rows(rows, how, rebuilt, audits)
        return rebuilt
    night = replace(_night(how, rebuilt), audits=audits or {})
    for p in sorted({progress.offsets_partition for progress in audited.progress}):
        corrections = corrections_of(_of_partition(audited.left(), "state_corrections", p))
        _write_replayed(HistoryReplay(p, night, ShardState(), _history(audited.left(), p), corrections), rebuilt)
    return rebuilt


def _read(files: Files, ranges: Sequence[LogRange], how: How, audited: Audited) -> None:
    context = ReadContext(audited.audits, how.release, lambda path: MemoryFile(files[path]), latest_ms=how.latest_ms)
    if how.chunk_bytes is not None:
        context = replace(context, chunk_bytes=how.chunk_bytes)
    records = GroupRecordDecoder()
    for log_range in ranges:
        reading = RangeDecoder(log_range, context, records)
        for name, rows in reading.outputs():
            _take(audited, name, plain(name, rows), is_again=log_range.is_reread, replay=how.replay)
        audited.progress.append(reading.progress)
        audited.names.merge(reading.progress.topics)


def _take(audited: Audited, name: str, rows: pa.Table, *, is_again: bool, replay: bool) -> None:
    (audited.again if is_again else audited.tonight)[name].append(rows)
    is_raw = name == "transaction_markers" and not replay
    if not is_again and (name not in PASSED_ON or is_raw):
        audited.history[name].append(rows)


def _replay(
    before: Audited,
    how: How,
    audited: Audited,
    read_again: Mapping[int, ReadAgain] | None = None,
    restored: Mapping[int, ShardState] | None = None,
) -> None:
    """Every shard from its saved state, or the restored one, and its rows of tonight."""
    night = _night(how, audited)
    there = {row["offsets_partition"] for row in before.rows("coordinator_state")}
    for p in sorted({p.offsets_partition for p in audited.progress} | there):
        saved_state = _of_partition(before.now, "coordinator_state", p)
        known = (restored or {}).get(p) or loaded(saved_state, night.release)
        replay: HistoryReplay | CorrectedReplay = HistoryReplay(p, night, known, _history(audited.tonight, p))
        if read_again and p in read_again:
            again = _history(audited.again, p)
            replay = CorrectedReplay(p, night, known, _history(audited.tonight, p), again, read_again[p], ALL_GROUPS)
        _write_replayed(replay, audited)
    _add_traffic(audited)


def _write_replayed(replay: HistoryReplay | CorrectedReplay, audited: Audited) -> None:
    for name, made in replay.outputs():
        (audited.now if name in CURRENT else audited.history)[name].append(plain(name, made))
    kept = saved(replay.state)
    if len(kept):
        constants = {"audit_id": audited.audits, "offsets_partition": replay.offsets_partition}
        audited.now["coordinator_state"].append(entry_rows("coordinator_state", kept, **constants))


def _replay_objects(before: Audited, how: How, audited: Audited) -> None:
    """The same by a shard of objects."""
    rows = [object_entries(before.state_entries()), replay_rows(audited.tonight)]
    _replay_rows(rows, how, audited)
    _add_traffic(audited)


def _replay_rows(rows: Sequence[pa.Table], how: How, audited: Audited, audits: AuditSpans | None = None) -> None:
    night = replace(_night(how, audited), audits=audits or {})
    for name, made in replay_partitions(in_log_order(rows), night):
        is_now = name in CURRENT or name == "coordinator_state"
        (audited.now if is_now else audited.history)[name].append(plain(name, made))


def _night(how: How, audited: Audited) -> Night:
    return Night(audited.audits, how.release, how.offsets_partitions, known_topics(audited.names), how.retention_ms)


def _add_traffic(audited: Audited) -> None:
    for p in {progress.offsets_partition for progress in audited.progress}:
        traffic = _of_partition(audited.tonight, "group_traffic", p)
        if len(traffic):
            audited.history["group_traffic"].append(summed(traffic))


def _history(tables: Mapping[str, Sequence[pa.Table]], partition: int) -> ShardHistory:
    names = ("offset_commits", "group_records", "transaction_markers", "quarantine")
    return ShardHistory.of_tables(*(_of_partition(tables, name, partition) for name in names))


def _of_partition(tables: Mapping[str, Sequence[pa.Table]], name: str, partition: int) -> pa.Table:
    rows = pa.concat_tables([arrow_schema(name).empty_table(), *tables.get(name, ())])
    return rows.filter(pc.equal(rows.column("offsets_partition"), partition))
