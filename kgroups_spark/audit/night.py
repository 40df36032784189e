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
from collections.abc import Sequence

from kgroups_spark.audit.plan import read_on
from kgroups_spark.audit.result import AuditResult
from kgroups_spark.audit.work import AuditWork, Moment, read_again
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.replay.history_rows import COLUMNS
from kgroups_spark.replay.ranges import RangeProgress, newly_quarantined
from kgroups_spark.replay.shard_states import Stored
from kgroups_spark.replay.sinks import AGAIN, PASSED_ON, ROWS, Made, Sink, sink_of
from kgroups_spark.replay.stages import CURRENT, EXPIRY, PREVIOUS, TRAFFIC, Ranges, ShardTask, read_ranges
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.tables.schemas import CHECKPOINTS, STATE_LOG_TABLES, TABLES
from kgroups_spark.words import counted

# The columns of quarantine that identify the records that an audit has decoded again.
DECODED_AGAIN = ["offsets_partition", "resolved_by", *COLUMNS]
HISTORY = [name for name, table in TABLES.items() if table.kind == "history" and name not in STATE_LOG_TABLES]


def audit_night(work: AuditWork) -> AuditResult:
    """Reads and replays new records; history and the current tables are committed when it returns."""
    say = work.progress
    with sink_of(work.writer, for_replay=True) as sink:
        with work.lake.runner.watched(say, work.reading):
            reported = _read(work, sink, work.ranges_by_task)
            if more := read_on(work.plan, reported):
                reported += _read(work, sink, work.by_task(more))
        progress = work.settle(reported)
        with work.lake.runner.watched(say, f"replaying {counted(len(work.shards), 'coordinator shard')}"):
            moment = Moment.of(work, progress)
            replayed = _replay(work, sink, progress, moment)
        say(f"committing {sink.size}")
        _commit(work, sink, progress)
    rows_added = Counter({name: rows for name, rows in sink.rows.items() if TABLES[name].kind == "history"})
    quarantined = newly_quarantined(progress) + Counter(load_would_fail=replayed.rows["quarantine"])
    return AuditResult(moment, progress, rows_added, quarantined)


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
    quarantine = stored.table("decoded_again", "quarantine", DECODED_AGAIN) if work.state.has_decoded_again else None
    task = ShardTask(
        work.night(progress, moment.as_of_ms),
        work.ends(progress),
        StoredHistory(new),
        is_night=True,
        state_of=work.state.audit_id,
        given=given,
        read_again=read_again(work.plan, progress),
        again=StoredHistory(again),
        decoded_again=quarantine,
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
