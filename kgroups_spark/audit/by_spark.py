"""An audit through Spark's own writer: works wherever Delta works.

The rows that tasks read and replay come back to Spark, packed by offsets partition (tasks/packed_rows.py), and Spark
writes them. Two actions, as of an audit by parts.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.moment import Moment
from kgroups_spark.audit.result import AuditResult, quarantined_by_reason
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.counts import counted
from kgroups_spark.decoding.range_decoder import RangeProgress
from kgroups_spark.history.stored import Stored
from kgroups_spark.plan.read_on import read_on
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tasks.packed_rows import packed_by_shard, row_counts, unpacked
from kgroups_spark.tasks.read_stage import (
    PASSED_ON,
    PROGRESS,
    REPLAY_TABLES,
    progress_in,
    progress_to_json,
    read_frame,
    require_read_once,
)
from kgroups_spark.tasks.replay_stage import EXPIRY, PREVIOUS, replayed_frame, shards_of
from kgroups_spark.tasks.task_progress import tasks_told

# What the replay alone appends. Rows of quarantine come of both stages: one transaction an audit, so both together.
BY_REPLAY = (
    "transaction_markers",
    "group_versions",
    "group_member_versions",
    "group_events",
    "group_traffic",
    "state_corrections",
)


def audit_by_spark(work: AuditWork) -> AuditResult:
    """Reads and replays what is new; history and the current tables are committed when it returns."""
    writer, say = work.writer, work.progress
    with ExitStack() as stack:
        with tasks_told(work.spark, say, work.reading):
            frame, told = _read(work, stack)
            work, progress = work.settled(told)
            read = StageOne.of(frame, told)
            rows_read = _stage_1_rows(progress)
            if rows_read["offset_commits"]:
                writer.append("offset_commits", read.rows("offset_commits"))
        if rows_read["group_records"]:
            writer.append("group_records", read.rows("group_records"))
        say(f"replaying {counted(len(work.shards), 'coordinator shard')}")
        moment = Moment.of(work, progress)
        stored = Stored(work.lake, by_reference=False)
        task = work.shard_task(progress, moment.as_of_ms, stored)
        replayed = _kept(replayed_frame(_shards(work, read, stored), task), stack)
        result = _write_replayed(work, read, replayed, progress, moment)
        require_read_once(list(map(_as_text, told)), list(map(_as_text, progress_in(frame))))
        return result


def _read(work: AuditWork, stack: ExitStack) -> tuple[DataFrame, list[RangeProgress]]:
    """Stage 1, once: between two looks at a log its cleaner may run, in a broker as in its folder."""
    frame = _kept(read_frame(work.spark, work.hands, work.read_context()), stack)
    told = progress_in(frame)
    if more := read_on(work.plan, told):
        later = _kept(read_frame(work.spark, work.dealt(more), work.read_context()), stack)
        told += progress_in(later)
        frame = frame.unionByName(later)
    return frame, told


def _kept(frame: DataFrame, stack: ExitStack) -> DataFrame:
    frame = frame.persist()
    stack.callback(frame.unpersist)
    return frame


@dataclass(frozen=True)
class StageOne:
    """The rows that stage 1 read (PACKED_BY_SHARD), without the rows of partitions that were given up."""

    frame: DataFrame

    @classmethod
    def of(cls, frame: DataFrame, told: list[RangeProgress]) -> StageOne:
        given_up = {each.offsets_partition for each in told if each.given_up is not None}
        return cls(frame.where(~F.col("offsets_partition").isin(*given_up)) if given_up else frame)

    def rows(self, name: str) -> DataFrame:
        """Those that a table gets."""
        return unpacked(self.frame.where("NOT is_again"), name)


def _as_text(progress: RangeProgress) -> str:
    return json.dumps(progress_to_json(progress), sort_keys=True)


def _shards(work: AuditWork, read: StageOne, stored: Stored) -> DataFrame:
    """Rows of SHARDS: saved state and decisions, new history, history that was read again, and what is stored."""
    parts = [read.frame.where(F.col("packed_table") != PROGRESS), *stored.packed]
    if work.state.audit_id is not None:
        state = work.lake.read("coordinator_state").where(F.col("audit_id") == work.state.audit_id)
        parts.append(packed_by_shard(state, "coordinator_state"))
    if work.before is not None:
        parts.append(packed_by_shard(work.rows_before(EXPIRY), EXPIRY))
    return shards_of(work.spark, work.shard_hands, reduce(DataFrame.unionByName, parts))


def _write_replayed(
    work: AuditWork,
    read: StageOne,
    replayed: DataFrame,
    progress: list[RangeProgress],
    moment: Moment,
) -> AuditResult:
    writer = work.writer
    rows_read = _stage_1_rows(progress)
    rows_added = Counter({name: rows for name, rows in rows_read.items() if name not in PASSED_ON})
    counts = row_counts(replayed, REPLAY_TABLES)
    if rows_read["quarantine"] + counts["quarantine"]:
        writer.append("quarantine", read.rows("quarantine").unionByName(unpacked(replayed, "quarantine")))
    for name in BY_REPLAY:
        if counts[name]:
            writer.append(name, unpacked(replayed, name))
    for name in REPLAY_TABLES:
        if TABLES[name].kind == "history":
            rows_added[name] += counts[name]
        elif (TABLES[name].kind == "current" or name == PREVIOUS) and (counts[name] or work.lake.table(name).files()):
            writer.replace(name, unpacked(replayed, name))
    writer.replace_table("topics", work.topics_table(progress))
    writer.replace("coordinator_state", unpacked(replayed, "coordinator_state"), work.state.kept_audit_id)
    return AuditResult(moment, progress, rows_added, quarantined_by_reason(progress, counts["quarantine"]), work.plan)


def _stage_1_rows(progress: list[RangeProgress]) -> Counter[str]:
    rows: Counter[str] = Counter()
    for each in progress:
        rows.update(each.rows)
    return rows
