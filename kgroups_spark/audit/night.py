"""One night: reads new records of the log into history, and replays the shards.

    read     ranges of the log -> rows of history                                  tasks
    read on  records that the log received meanwhile
    settle   without partitions that were given up; the moment of the decisions
    replay   saved state, rows of history -> rows of all other tables, new state   tasks; a shard an offsets partition
    commit   history, then current tables, then the saved state

The sink decides where rows go and how they become rows of tables (replay/sinks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.plan import read_on
from kgroups_spark.audit.result import AuditResult
from kgroups_spark.audit.work import AuditWork, Moment, SavedState
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.hadoop_storage import reported_in_one_line
from kgroups_spark.lake.last_finished import REBUILD_APP_ID
from kgroups_spark.offsets.effects import Mixed
from kgroups_spark.offsets.expiry import (
    DECIDED_BY,
    DECISIONS,
    HELD_GROUPS,
    CleanUp,
    Output,
    columns_needed,
    decided_before,
)
from kgroups_spark.replay.ranges import RangeProgress, newly_quarantined
from kgroups_spark.replay.shard_states import Stored, history_below, state_task
from kgroups_spark.replay.sinks import AGAIN, PASSED_ON, ROWS, Made, Sink, TaskOutput, sink_of
from kgroups_spark.replay.stages import CURRENT, EXPIRY, PREVIOUS, TRAFFIC, Ranges, ShardTask, read_ranges
from kgroups_spark.replay.stored_history import PartReader, StoredHistory, StoredTable, part_schema
from kgroups_spark.tables.columns import Condition, expression_of
from kgroups_spark.tables.definitions import NIGHT
from kgroups_spark.tables.rows import constant, with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS, STATE_LOG_TABLES, TABLES, arrow_schema
from kgroups_spark.words import counted

HISTORY = [name for name, table in TABLES.items() if table.kind == "history" and name not in STATE_LOG_TABLES]


def audit_night(work: AuditWork) -> AuditResult:
    """Reads and replays new records; history and the current tables are committed when it returns."""
    say = work.progress
    with sink_of(work.writer, for_replay=True) as sink:
        with work.lake.runner.watched(say, work.reading):
            reported = _read(work, sink, work.ranges_by_task)
            if more := read_on(work.plan, reported):
                reported += _read(work, sink, work.by_task(more))
        work, progress = work.settled(reported)
        with work.lake.runner.watched(say, f"replaying {counted(len(work.shards), 'coordinator shard')}"):
            moment = Moment.of(work, progress)
            replayed = _replay(work, sink, progress, moment)
        say(f"committing {sink.size}")
        _commit(work, sink, progress)
    rows_added = Counter({name: rows for name, rows in sink.rows.items() if TABLES[name].kind == "history"})
    quarantined = newly_quarantined(progress) + Counter(load_would_fail=replayed.rows["quarantine"])
    mixed = [(number, Mixed(*each)) for of_shard in replayed.facts for number, *each in of_shard]
    return AuditResult(moment, progress, rows_added, quarantined, work.plan, mixed=mixed)


def _read(work: AuditWork, sink: Sink, tasks: Sequence[Ranges]) -> list[RangeProgress]:
    return read_ranges(sink, tasks, work.read_context(len(tasks)))


def _replay(work: AuditWork, sink: Sink, progress: list[RangeProgress], moment: Moment) -> Made:
    """Replays every shard from its saved state, with its new history."""
    new, again = sink.tables((ROWS, PASSED_ON)), sink.tables((AGAIN,))
    stored = Stored(work.lake, [*new.values(), *again.values()])
    given = {TRAFFIC: new[TRAFFIC]}
    if work.state.audit_id is not None:
        given |= stored.left_by(LakeAsOfAudit(work.lake, work.audit_id), CHECKPOINTS, work.state.audit_id)
    if work.before is not None:
        given |= stored.left_by(work.then, EXPIRY)
    task = replace(
        work.shard_task(progress, moment.as_of_ms, StoredHistory(new), stored), given=given, again=StoredHistory(again)
    )
    return stored.run(sink, work.shards_by_task(progress), task)


def _commit(work: AuditWork, sink: Sink, progress: list[RangeProgress]) -> None:
    """Commits history, then the current tables, then the saved state. None of it counts before the ledger's row
    `finished`."""
    for name in HISTORY:
        sink.append(work.writer, name)
    replace_current(work, sink, progress)
    sink.replace(work.writer, CHECKPOINTS, work.state.kept_audit_id)


def replace_current(work: AuditWork, sink: Sink, progress: list[RangeProgress]) -> None:
    """The tables that each audit and each rebuild rewrites."""
    for name in (*CURRENT, PREVIOUS):
        sink.replace(work.writer, name)
    work.writer.replace_table("topics", work.names.topics_table(progress, work.audit_id))


# The state, at the cut, of partitions with a log that was cut back.


@dataclass(frozen=True)
class RestoreTask:
    """The state of a shard: replayed from history (`state`) if its log was cut back, otherwise from `saved`."""

    state: ShardTask
    cut: frozenset[int]
    saved: StoredTable
    is_saved: pc.Expression

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[TaskOutput]:
        if offsets_partition in self.cut:
            yield from self.state.outputs(reader, offsets_partition)
            return
        history = self.state.stored
        assert history is not None
        rows = reader.rows(self.saved, offsets_partition).filter(self.is_saved)
        rows = rows.cast(arrow_schema(CHECKPOINTS))  # texts, as those of the others
        yield CHECKPOINTS, with_columns(rows, audit_id=constant(self.state.audit_id, len(rows), pa.int64()))


def restored_state(work: AuditWork) -> SavedState:
    """The saved state, with these partitions replayed from history before the cut; the others stay.

    The old state stays until the audit has finished, so that a killed audit can be repeated.
    """
    cuts = {number: cut.from_offset for number, cut in work.plan.replaced.items()}
    work.progress(f"replaying the log before the cut of {counted(len(cuts), 'partition')}")
    lake, release_version = work.lake, work.settings.release_version
    stored = Stored(lake)
    history, tasks = history_below(lake, stored, cuts, release_version, work.shards)
    is_saved = [Condition("reason", "==", NIGHT), Condition("audit_id", "==", work.state.audit_id)]
    saved = stored.table("saved", CHECKPOINTS, arrow_schema(CHECKPOINTS).names, conditions=is_saved)
    state = state_task(history, release_version, work.audit_id)
    writer = replace(work.writer, app_id=REBUILD_APP_ID)
    task = RestoreTask(state, frozenset(cuts), saved, expression_of(is_saved))
    with sink_of(writer) as sink:
        stored.run(sink, tasks, task)
        sink.replace(writer, CHECKPOINTS, keep_audit=work.state.kept_audit_id)
    return replace(work.state, audit_id=work.audit_id)


# An audit with a new moment or retention, but without new records: the current tables stay, and expiry is judged
# again.
#
# A replay of the shards would load and save their states and write all current tables, which costs several times as
# much.


# The tables that it reads.
READ = (EXPIRY, *(name for name in DECIDED_BY if name != HELD_GROUPS))
WRITTEN = (PREVIOUS, *DECISIONS)
# The driver decides on fewer committed offsets than this: for most lakes, starting tasks costs more than the decisions.
SMALL_ROWS = 1 << 18


@dataclass(frozen=True)
class DecideTask:
    """A shard's current tables -> the decisions on them. `held_groups`: HELD_GROUPS of all shards."""

    clean_up: CleanUp
    held_groups: pa.Table
    tables: Mapping[str, StoredTable] = field(default_factory=dict)

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Output]:
        found = {name: reader.rows(table, offsets_partition) for name, table in self.tables.items()}
        held = self.held_groups.filter(pc.equal(self.held_groups["offsets_partition"], offsets_partition))
        yield from self.decided({**found, HELD_GROUPS: held})

    def decided(self, tables: Mapping[str, pa.Table]) -> Iterator[Output]:
        """(table, rows) of the shards whose rows are in the tables (READ, HELD_GROUPS)."""
        yield PREVIOUS, decided_before(tables[EXPIRY], self.clean_up.audit_id)
        yield from self.clean_up.decided(tables)


def decide_again(work: AuditWork, as_of_ms: int) -> None:
    """Commits previous_offset_expiry, offset_expiry and group_expiry."""
    clean_up = work.clean_up(as_of_ms)
    task = DecideTask(clean_up, _held_groups(work, clean_up))
    with reported_in_one_line("expiry could not be decided"):
        if _offsets(work) < SMALL_ROWS:
            _by_driver(work, task)
        else:
            _by_tasks(work, task)


def _by_driver(work: AuditWork, task: DecideTask) -> None:
    tables = {name: work.lake.rows(name, columns=part_schema(name).names) for name in READ}
    for name, rows in task.decided({**tables, HELD_GROUPS: task.held_groups}):
        work.writer.replace_table(name, pa.table(rows))


def _by_tasks(work: AuditWork, task: DecideTask) -> None:
    stored = Stored(work.lake)
    tables = {name: table for each in READ for name, table in stored.left_by(work.then, each).items()}
    with sink_of(work.writer) as sink:
        stored.run(sink, work.shards_by_task(), replace(task, tables=tables))
        for name in WRITTEN:
            sink.replace(work.writer, name)


def _offsets(work: AuditWork) -> int:
    """The number of committed offsets; an upper bound if a file's statistics lack it."""
    files = work.lake.table("committed_offsets").files()
    return sum(int(file.stats.get("numRecords", file.size)) for file in files)


def _held_groups(work: AuditWork, clean_up: CleanUp) -> pa.Table:
    """The groups for which the newest state has producers noted."""
    columns = columns_needed(HELD_GROUPS)
    if not clean_up.looks_at_held_groups:
        return columns.empty_table()
    noted = [Condition("entry_type", "==", "noted"), Condition("audit_id", "==", work.state.audit_id)]
    noted.append(Condition("reason", "==", NIGHT))
    return work.lake.rows(CHECKPOINTS, columns=columns.names, conditions=noted)
