"""The state at H, saved before history below H is reduced: what a rebuild starts from then (baselines.py).

A baseline is rows `baseline` of `state_corrections`, of every offsets partition at least one: the whole saved state at
`log_offset`, by the rules of the release that it names.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMAT
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.history.baselines import Baselines
from kgroups_spark.history.horizons import Horizons, horizons_frame
from kgroups_spark.history.redecode import unresolved
from kgroups_spark.history.stored import StoredHistory
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay.replay_shard import Night
from kgroups_spark.tasks.packed_rows import unpacked
from kgroups_spark.tasks.replay_stage import ShardTask, deal_shards, replayed_frame, shards_of

# A row that every partition has, so that one whose state is empty has a baseline, too.
MARK = ("topics", None, '{"topics": []}')


def newest_baselines(lake: Lake) -> dict[int, int]:
    """Below which log offset each offsets partition is, or may be, reduced; whatever the rules of its baseline."""
    newest = F.max(F.struct("audit_id", "log_offset")).alias("newest")
    rows = lake.read("state_corrections").where("correction = 'baseline'").groupBy("offsets_partition").agg(newest)
    return {row.offsets_partition: row.newest.log_offset for row in rows.collect()}


def state_at(lake: Lake, horizon: Horizons, release_version: str, audit_id: int) -> DataFrame:
    """Rows of coordinator_state: what a replay of history up to H of each partition leads to.

    It starts from the newest baseline of a partition where that is usable; all history must be of finished audits.
    """
    history = StoredHistory(
        lake.read("offset_commits"),
        lake.read("group_records"),
        lake.read("transaction_markers"),
        unresolved(lake.read("quarantine")),
        lake.read("state_corrections"),
    )
    baselines = Baselines.of(history.state_corrections, release_version)
    history = history.since(baselines).below(horizons_frame(lake.spark, horizon))
    hands = deal_shards(dict(horizon), 2 * lake.spark.sparkContext.defaultParallelism)
    night = Night(audit_id, release_version, None, Topics())
    task = ShardTask(night, lake.uri, tables=frozenset({"coordinator_state"}))
    replayed = replayed_frame(shards_of(lake.spark, hands, history.parts()), task)
    return unpacked(replayed, "coordinator_state")


def baseline_rows(lake: Lake, horizon: Horizons, release_version: str, audit_id: int) -> DataFrame:
    """Rows of state_corrections: the state at H of each partition."""
    columns = "offsets_partition int, entry_type string, group_id string, payload string"
    marks = lake.spark.createDataFrame([(p, *MARK) for p in sorted(horizon)], columns)
    states = state_at(lake, horizon, release_version, audit_id).where("entry_type <> 'topics'")
    entries = states.select(*marks.columns).unionByName(marks)
    return entries.join(F.broadcast(horizons_frame(lake.spark, horizon)), "offsets_partition").select(
        F.lit(audit_id).cast("bigint").alias("audit_id"),
        "offsets_partition",
        F.col("horizon").alias("log_offset"),
        F.lit("baseline").alias("correction"),
        "entry_type",
        "group_id",
        "payload",
        F.lit(STATE_FORMAT).alias("state_format"),
        F.lit(release_version).alias("release_version"),
        F.lit(RULES_VERSION).alias("rules_version"),
    )
