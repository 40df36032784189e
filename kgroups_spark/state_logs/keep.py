"""`--keep` for `__share_group_state` and `__transaction_state`: what lies below H of each partition is reduced so that a
replay of what is left leads to the same state, by the rules of any release.

    transaction_state_records   the last record of each id, producer and version stays, of those that a load fails at, too
    share_group_state_records   what is behind the newest snapshot or tombstone of each share partition stays, and that
    state_quarantine            stays, but of records of an unknown type or version the last of each key
    state_events                below H go

No state has to be saved for that. A row `state_baseline` of `state_corrections` says how far a partition is, or may be,
reduced: as of a moment before it there is no answer. Each rule can be applied again to what it has left.
"""  # noqa: E501  the table

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgroups_spark.coordinator.releases import RULES_VERSION
from kgroups_spark.coordinator.state_rows import STATE_FORMAT
from kgroups_spark.decoding.log_times import believed_until_ms
from kgroups_spark.history.reduction import UNKNOWN
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.state_logs.range_decoder import RECORDS
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.times import to_epoch_ms

# (log, partition) -> H: history below it is old.
StateHorizons = Mapping[tuple[str, int], int]
BASELINE = "state_baseline"
PLACE = ("log", "state_partition")
FRAME = "log string, state_partition int, horizon bigint"
SHARE_PARTITION = ("state_partition", "group_id", "topic_id", "partition")
_SHARE_SNAPSHOT = 0


def state_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[tuple[str, int], int]:
    """H of every partition of these logs that the audit has read: its log before the first record above the moment."""
    found = {(entry.topic or "", entry.offsets_partition): entry.end_offset for entry in audit.state_partitions}
    if not found:
        return {}
    newest = audit.newest_log_timestamp
    believed = believed_until_ms(None if newest is None else to_epoch_ms(newest), to_epoch_ms(audit.started_at))
    time = F.unix_millis("log_timestamp")
    for name in (*RECORDS.values(), "state_quarantine"):
        later = with_log(name, lake.read(name)).where((time > moment_ms) & (time <= believed))
        for row in later.groupBy(*PLACE).agg(F.min("log_offset").alias("first")).collect():
            place = (row.log, row.state_partition)
            found[place] = min(found.get(place, row.first), row.first)
    return found


def newest_state_baselines(lake: Lake) -> dict[tuple[str, int], int]:
    """Below which log offset each partition is, or may be, reduced."""
    rows = lake.read("state_corrections").where(F.col("correction") == BASELINE)
    newest = rows.groupBy("entry_type", "offsets_partition").agg(F.max("log_offset").alias("horizon"))
    return {(row.entry_type, row.offsets_partition): row.horizon for row in newest.collect()}


def new_state_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[tuple[str, int], int]:
    """H of each partition, where history below it is more than what is reduced already."""
    found = state_horizons(lake, audit, moment_ms)
    known = newest_state_baselines(lake) if found else {}
    return {place: at for place, at in found.items() if at > known.get(place, 0)}


def state_baseline_rows(lake: Lake, of: StateHorizons, release_version: str, audit_id: int) -> DataFrame:
    """Rows of state_corrections that say that history below H will be reduced."""
    facts = (STATE_FORMAT, release_version, RULES_VERSION)
    rows = [(audit_id, p, at, BASELINE, log, None, None, *facts) for (log, p), at in sorted(of.items())]
    return lake.spark.createDataFrame(rows, TABLES["state_corrections"].schema)


def with_log(name: str, rows: DataFrame) -> DataFrame:
    """The rows of a table of these logs with the column `log`."""
    of_table = {table: log for log, table in RECORDS.items()}
    return rows.withColumn("log", F.lit(of_table[name])) if name in of_table else rows


def is_below(name: str, rows: DataFrame, horizons: DataFrame) -> DataFrame:
    """The rows with the column `_is_old`."""
    joined = with_log(name, rows).join(F.broadcast(horizons), list(PLACE), "left")
    return joined.withColumn("_is_old", F.coalesce(F.col("log_offset") < F.col("horizon"), F.lit(False)))


def reduced_state_log(name: str, rows: DataFrame, horizons: DataFrame) -> DataFrame:
    """Rows of a table of RULES that stay."""
    return RULES[name](is_below(name, rows, horizons)).select(*rows.columns)


def _reduced_transactions(rows: DataFrame) -> DataFrame:
    value = F.col("value")
    fields = [F.get_json_object(value, f"$.{name}") for name in ("transactionStatus", "clientTransactionVersion")]
    is_sound = fields[0].cast("int").between(0, 7) & (
        (fields[0] == "0") | F.get_json_object(value, "$.transactionPartitions").isNotNull()
    )
    is_of_a_version = F.coalesce(fields[1].cast("int"), F.lit(0)).between(0, 2)
    kind = [F.get_json_object(value, "$.producerId"), F.col("value_version"), is_sound, is_of_a_version]
    return _last_of_each(rows, F.col("state_partition"), F.col("transactional_id"), *kind)


def _reduced_shares(rows: DataFrame) -> DataFrame:
    """A release reads values in its own layout: those of 4.0, and tombstones from 4.1 on."""
    layout, is_value = F.coalesce(F.col("layout"), F.lit("")), F.col("value").isNotNull()
    is_snapshot = F.col("record_type") == _SHARE_SNAPSHOT
    fits_both = layout.startswith("?")
    by_newer = F.when(is_value, (layout == "") | fits_both).otherwise(is_snapshot)
    by_early = is_value & ((layout == "4.0") | fits_both)
    stays = [~F.col("_is_old"), _is_behind_base(by_newer, is_snapshot), _is_behind_base(by_early, is_snapshot)]
    names = [f"_stays_{number}" for number in range(len(stays))]
    return rows.withColumns(dict(zip(names, stays, strict=True))).where(" OR ".join(names))


def _is_behind_base(is_read: Column, is_snapshot: Column) -> Column:
    """Whether a release reads the record, and no later snapshot or tombstone below H replaces it."""
    of_one = Window.partitionBy(*SHARE_PARTITION)
    base = F.max(F.when(F.col("_is_old") & is_read & is_snapshot, F.col("log_offset"))).over(of_one)
    return is_read & (F.col("log_offset") >= F.coalesce(base, F.lit(-1)))


def _reduced_quarantine(rows: DataFrame) -> DataFrame:
    is_unknown = F.col("reason").isin(*UNKNOWN)
    stays = ~F.col("_is_old") | ~is_unknown
    last = F.max(F.when(~stays, F.col("log_offset"))).over(Window.partitionBy(*PLACE, "raw_key"))
    return rows.withColumns({"_stays": stays, "_last": last}).where("_stays OR log_offset = _last")


def _reduced_events(rows: DataFrame) -> DataFrame:
    return rows.where(~F.col("_is_old"))


def _last_of_each(rows: DataFrame, *key: Column) -> DataFrame:
    """Rows that are not old, and of the others the last of each key."""
    last = F.max(F.when(F.col("_is_old"), F.col("log_offset"))).over(Window.partitionBy(*key))
    return rows.withColumn("_last", last).where(~F.col("_is_old") | (F.col("log_offset") == F.col("_last")))


RULES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "transaction_state_records": _reduced_transactions,
    "share_group_state_records": _reduced_shares,
    "state_quarantine": _reduced_quarantine,
    "state_events": _reduced_events,
}
