"""An audit whose tasks write Parquet parts: two Spark actions, then one Delta transaction per table."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import suppress

from kgroups_spark.audit.moment import Moment
from kgroups_spark.audit.result import AuditResult, quarantined_by_reason
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.counts import counted
from kgroups_spark.history.stored import Stored
from kgroups_spark.lake.lake import WORK_FOLDER
from kgroups_spark.lake.parts_writer import Part, lake_file_system
from kgroups_spark.plan.read_on import read_on
from kgroups_spark.replay.history_parts import HistoryPart
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES
from kgroups_spark.tasks.read_stage import read_by_parts, work_folders
from kgroups_spark.tasks.replay_stage import EXPIRY, PREVIOUS, STATE, replay_by_parts
from kgroups_spark.tasks.task_progress import tasks_told


def audit_by_parts(work: AuditWork) -> AuditResult:
    """Reads and replays what is new; history and the current tables are committed when it returns."""
    lake, say = work.lake, work.progress
    work_uri = f"{lake.uri}/{WORK_FOLDER}/audit-{work.audit_id}-{uuid.uuid4()}"
    file_system, folder = lake_file_system(work_uri)
    for each in work_folders(folder):
        file_system.create_dir(each)
    try:
        with tasks_told(work.spark, say, work.reading):
            read = read_by_parts(work.spark, work.hands, work.read_context(), lake.uri, work_uri)
            if more := read_on(work.plan, read.progress):
                read.add(read_by_parts(work.spark, work.dealt(more), work.read_context(), lake.uri, work_uri))
        work, progress = work.settled(read.progress)
        with tasks_told(work.spark, say, f"replaying {counted(len(work.shards), 'coordinator shard')}"):
            moment = Moment.of(work, progress)
            history = [*_saved_parts(work), *read.history]
            task = work.shard_task(progress, moment.as_of_ms, Stored(lake, by_reference=True))
            replayed = replay_by_parts(work.spark, work.shard_hands, history, task)
    finally:
        with suppress(FileNotFoundError):  # who took over has removed it
            file_system.delete_dir(folder)
    topics = work.writer.part_writer("topics").write(work.topics_table(progress))
    parts = [*read.parts, *replayed, *([topics] if topics else [])]
    say(f"committing {counted(len(parts), 'part')}")
    _commit(work, parts)
    failures = sum(part.records for part in replayed if part.table == "quarantine")
    return AuditResult(moment, progress, _rows_added(parts), quarantined_by_reason(progress, failures), work.plan)


def _saved_parts(work: AuditWork) -> list[HistoryPart]:
    """The state that the last finished audit left, and its decisions."""
    files = {STATE: work.state.files, EXPIRY: work.files_before(EXPIRY)}
    return [HistoryPart(name, uri) for name, uris in files.items() for uri in uris]


def _commit(work: AuditWork, parts: list[Part]) -> None:
    """History first: what was read counts more than what was concluded from it."""
    by_table: dict[str, list[Part]] = {name: [] for name in TABLES}
    for part in parts:
        by_table[part.table].append(part)
    for name, table in TABLES.items():
        if table.kind == "history":
            work.writer.append_parts(name, by_table[name])
    work.writer.append_parts("state_corrections", by_table["state_corrections"])
    for name, table in TABLES.items():
        if table.kind == "current" and name not in STATE_LOG_TABLES:
            work.writer.replace_parts(name, by_table[name])
    work.writer.replace_parts(PREVIOUS, by_table[PREVIOUS])
    work.writer.replace_parts(STATE, by_table[STATE], work.state.kept_audit_id)


def _rows_added(parts: list[Part]) -> Counter[str]:
    rows: Counter[str] = Counter()
    for part in parts:
        if TABLES[part.table].kind == "history":
            rows[part.table] += part.records
    return rows
