"""The state at H, saved before history below H is reduced: what a rebuild starts from then.

A baseline is rows `baseline` of `state_corrections`, of every offsets partition at least one: the whole saved state at
`log_offset`, by the rules of the release that it names. Names of topic ids stand in it, too (entry_type `topics`),
because the records that named them may go; they hold for every release.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.history_replay import (
    replay_rows_of_corrections,
    replay_rows_of_history,
    replay_rows_of_state,
)
from kgroups_spark.audit.horizons import Horizons, horizons_frame
from kgroups_spark.audit.replay import ReplayContext
from kgroups_spark.audit.stages import open_uri, replay_frame
from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMAT, TOPICS_PER_ROW
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.history import LOG_TABLES
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.times import to_epoch_ms

# No record that is replayed for a baseline is history yet to be written.
NEVER = (1 << 63) - 1


@dataclass(frozen=True)
class Baseline:
    """The newest baseline of an offsets partition: history below `log_offset` is reduced.

    `is_usable`: it was made by the release, rules and state format that are asked for.
    """

    offsets_partition: int
    audit_id: int
    log_offset: int
    is_usable: bool


def baselines(lake: Lake, release_version: str) -> dict[int, Baseline]:
    """The newest baseline of each offsets partition that has one."""
    names = ["offsets_partition", "audit_id", "log_offset", "state_format", "release_version", "rules_version"]
    rows = lake.read("state_corrections").where("correction = 'baseline'").select(*names).distinct().collect()
    found: dict[int, Baseline] = {}
    for row in sorted(rows, key=lambda row: row.audit_id):
        made_by = (row.release_version, row.rules_version, row.state_format)
        is_usable = made_by == (release_version, RULES_VERSION, STATE_FORMAT)
        found[row.offsets_partition] = Baseline(row.offsets_partition, row.audit_id, row.log_offset, is_usable)
    return found


def baseline_states(lake: Lake, of: Iterable[Baseline]) -> DataFrame:
    """The baselines' rows as rows of coordinator_state."""
    wanted = [(b.offsets_partition, b.audit_id) for b in of]
    keys = lake.spark.createDataFrame(wanted, "offsets_partition int, audit_id bigint")
    rows = lake.read("state_corrections").where("correction = 'baseline'")
    return rows.join(F.broadcast(keys), ["offsets_partition", "audit_id"], "left_semi").select(
        *TABLES["coordinator_state"].schema.names
    )


def topics_of_baselines(lake: Lake) -> list[tuple[str, str, int | None, str]]:
    """What baselines know of topic ids: (topic id, topic, log time in ms or None, source), for TopicNames.merge."""
    rows = lake.read("state_corrections").where("correction = 'baseline' AND entry_type = 'topics'")
    payloads = (json.loads(row.payload) for row in rows.select("payload").collect())
    return [(topic_id, topic, seen, source) for told in payloads for topic_id, topic, seen, source, _ in told["topics"]]


def state_at(lake: Lake, horizon: Horizons, release_version: str, audit_id: int) -> DataFrame:
    """Rows of coordinator_state: what a replay of history up to H of each partition leads to.

    It starts from the newest baseline of a partition where that is usable; all history must be of finished audits.
    """
    usable = {p: b for p, b in baselines(lake, release_version).items() if b.is_usable and p in horizon}
    spans = [(p, usable[p].log_offset if p in usable else -1, end) for p, end in sorted(horizon.items())]
    span = F.broadcast(lake.spark.createDataFrame(spans, "offsets_partition int, first bigint, horizon bigint"))

    def within(name: str) -> DataFrame:
        rows = lake.read(name).join(span, "offsets_partition")
        return rows.where("log_offset >= first AND log_offset < horizon").drop("first", "horizon")

    rows = replay_rows_of_history(*(within(name) for name in LOG_TABLES))
    rows = rows.unionByName(replay_rows_of_corrections(within("state_corrections")))
    if usable:
        rows = rows.unionByName(replay_rows_of_state(baseline_states(lake, usable.values())))
    never = dict.fromkeys(horizon, NEVER)
    context = ReplayContext(audit_id, release_version, None, Topics(), open_uri, history_from=never)
    tasks = min(len(horizon), 2 * lake.spark.sparkContext.defaultParallelism)
    replayed = replay_frame(rows, max(1, tasks), context)
    return replayed.where("coordinator_state IS NOT NULL").select("coordinator_state.*")


def baseline_rows(lake: Lake, horizon: Horizons, release_version: str, audit_id: int) -> DataFrame:
    """Rows of state_corrections: the state at H of each partition, and what topic ids are known by."""
    spark = lake.spark
    states = state_at(lake, horizon, release_version, audit_id).where("entry_type <> 'topics'")
    topics = [(p, "topics", None, payload) for p, payload in _topics(lake, sorted(horizon))]
    columns = "offsets_partition int, entry_type string, group_id string, payload string"
    entries = [states.select("offsets_partition", "entry_type", "group_id", "payload")]
    rows = reduce(DataFrame.unionByName, [*entries, spark.createDataFrame(topics, columns)])
    return rows.join(F.broadcast(horizons_frame(spark, horizon)), "offsets_partition").select(
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


def _topics(lake: Lake, partitions: list[int]) -> list[tuple[int, str]]:
    """Payloads `topics`: for the first partition all that are known, for the others none (so that they have a row)."""
    known = [
        [row["topic_id"], row["topic"], _ms(row["seen_log_timestamp"]), row["source"], True]
        for row in lake.rows("topics").to_pylist()
    ]
    lots = [known[at : at + TOPICS_PER_ROW] for at in range(0, len(known), TOPICS_PER_ROW)]
    payloads = [(partitions[0], lot) for lot in lots] + [(p, []) for p in partitions]
    return [(p, json.dumps({"topics": lot})) for p, lot in payloads]


def _ms(seen: object) -> int | None:
    return None if seen is None else to_epoch_ms(seen)  # type: ignore[arg-type]
