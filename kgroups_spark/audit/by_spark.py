"""An audit through Spark's own writer: works wherever Delta works.

History is appended from DataFrames of tasks' rows; the night is then replayed from the history tables, as a rebuild
does.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.decode_range import RangeProgress
from kgroups_spark.audit.history_replay import replay_rows_of_history, replay_rows_of_state
from kgroups_spark.audit.packed_rows import row_counts, unpacked
from kgroups_spark.audit.read_on import read_on
from kgroups_spark.audit.redecode import with_decoded_again
from kgroups_spark.audit.result import AuditResult, quarantined_by_reason
from kgroups_spark.audit.stages import (
    REPLAY_TABLES,
    progress_in,
    progress_to_json,
    read_frame,
    replay_frame,
    replay_rows_in,
)
from kgroups_spark.audit.task_progress import tasks_told
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.counts import counted
from kgroups_spark.errors import KgroupsError
from kgroups_spark.tables.schemas import TABLES

# What both stages write: one transaction an audit, so both are appended together.
BY_BOTH_STAGES = ("transaction_markers", "quarantine")


def audit_by_spark(work: AuditWork) -> AuditResult:
    """Reads and replays what is new; history and the tables of now are committed when it returns."""
    writer, say = work.writer, work.progress
    with ExitStack() as stack:
        with tasks_told(work.spark, say, work.reading):
            frame, told = _read(work, stack)
            work, progress = work.settled(told)
            read = StageOne(frame, {each.offsets_partition for each in told if each.given_up is not None})
            rows_read = _stage_1_rows(progress)
            if rows_read["offset_commits"]:
                writer.append("offset_commits", read.rows("offset_commits"))
        if rows_read["group_records"]:
            writer.append("group_records", read.rows("group_records"))
        say(f"replaying {counted(len(work.shards), 'coordinator shard')}")
        tasks = min(len(work.shards), 2 * work.slots)
        replayed = _kept(replay_frame(_replay_rows(work, read), tasks, work.night_context(progress)), stack)
        result = _write_replayed(work, read, replayed, progress, stack)
        _require_read_once(frame, told)
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
    """What stage 1 read, without the rows of partitions that were given up."""

    frame: DataFrame
    given_up: set[int]

    def rows(self, name: str) -> DataFrame:
        """Of one table."""
        return self._kept(unpacked(self.frame, name))

    def replay_rows(self) -> DataFrame:
        return self._kept(replay_rows_in(self.frame))

    def _kept(self, rows: DataFrame) -> DataFrame:
        return rows.where(~F.col("offsets_partition").isin(*self.given_up)) if self.given_up else rows


def _require_read_once(frame: DataFrame, told: list[RangeProgress]) -> None:
    """Raises KgroupsError if ranges were read again after a lost executor: the log has grown or was compacted in
    between, so that not all tables were written from the same records."""
    if sorted(map(_as_text, progress_in(frame))) != sorted(map(_as_text, told)):
        raise KgroupsError(
            "a task had to run twice, and the log had changed in between. Nothing of this audit counts; run it again"
        )


def _as_text(progress: RangeProgress) -> str:
    return json.dumps(progress_to_json(progress), sort_keys=True)


def _replay_rows(work: AuditWork, read: StageOne) -> DataFrame:
    """The saved state and the night's records. Those that are read again come from their replay rows alone: nothing of
    them is new."""
    history = replay_rows_of_history(
        work.lake.read("offset_commits").where(_is_new(work)),
        work.lake.read("group_records").where(_is_new(work)),
        read.rows("transaction_markers"),
        work.spark.createDataFrame([], TABLES["quarantine"].schema),
    )
    rows = history.unionByName(read.replay_rows())
    state = _state(work)
    return rows if state is None else rows.unionByName(replay_rows_of_state(state))


def _is_new(work: AuditWork) -> Column:
    """Rows that this audit has read. What it has decoded again stands below them, and in the rebuilt state."""
    starts = {p.offsets_partition: p.start_offset for p in work.plan.partitions}
    pairs = [F.lit(number) for pair in starts.items() for number in pair]
    start = F.element_at(F.create_map(*pairs).cast("map<int,bigint>"), F.col("offsets_partition"))
    return (F.col("audit_id") == work.audit_id) & (F.col("log_offset") >= start)


def _state(work: AuditWork) -> DataFrame | None:
    if work.state.audit_id is None:
        return None
    return work.lake.read("coordinator_state").where(F.col("audit_id") == work.state.audit_id)


def _write_replayed(
    work: AuditWork, read: StageOne, replayed: DataFrame, progress: list[RangeProgress], stack: ExitStack
) -> AuditResult:
    writer = work.writer
    rows_added = _stage_1_rows(progress)
    counts = row_counts(replayed, REPLAY_TABLES)
    for name in BY_BOTH_STAGES:
        if rows_added[name] + counts[name]:
            writer.append(name, read.rows(name).unionByName(unpacked(replayed, name)))
    for name in ("group_versions", "group_member_versions", "group_events", "state_corrections"):
        if counts[name]:
            writer.append(name, unpacked(replayed, name))
    traffic = unpacked(replayed, "group_traffic")
    if work.has_decoded_again:
        traffic = _kept(with_decoded_again(work.lake, work.audit_id, traffic), stack)
        counts["group_traffic"] = traffic.count()
    if counts["group_traffic"]:
        writer.append("group_traffic", traffic)
    for name in REPLAY_TABLES:
        if TABLES[name].kind == "history":
            rows_added[name] += counts[name]
        elif TABLES[name].kind == "current" and (counts[name] or work.lake.table(name).files()):
            writer.replace(name, unpacked(replayed, name))
    writer.replace("topics", work.spark.createDataFrame(work.topics_table(progress), TABLES["topics"].schema))
    writer.replace("coordinator_state", unpacked(replayed, "coordinator_state"), work.state.kept_audit_id)
    return AuditResult(progress, rows_added, quarantined_by_reason(progress, counts["quarantine"]), work.plan)


def _stage_1_rows(progress: list[RangeProgress]) -> Counter[str]:
    rows: Counter[str] = Counter()
    for each in progress:
        rows.update(each.rows)
    return rows
