"""Old history reduced as Kafka's log cleaner would: of each key the last record stays.

Rules, for what lies below H of its offsets partition (horizons.py):

    offset_commits       the last record of each key, tombstones too. Values of aborted transactions go. Records of a
                         transaction that is open at H, and records with a producer id but no transaction, stay
    group_records        the last record of each key; records of a transaction that is open at H stay
    quarantine           stays, but of records of an unknown type or version the last of each key
    transaction_markers  stay as long as a record of their transaction does
    group_versions, group_member_versions   the last version of each group or member
    group_events         below H go
    group_traffic        whole hours before the moment go
    topic_offsets        what was seen before the moment goes, but for what was seen last

The coordinator's tombstones act at once, also those in aborted transactions, and so count as records here. Each rule
can be applied again to what it has left, in whatever order, with no other result: markers that are needed to tell what
became of a record stay with it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

OFFSET_COMMIT_KEY = ("offsets_partition", "record_type", "group_id", "topic", "partition", "raw_key")
GROUP_RECORD_KEY = ("offsets_partition", "record_type", "group_id", "member_id", "regular_expression", "raw_key")
GROUP_KEY = ("offsets_partition", "group_id")
MEMBER_KEY = ("offsets_partition", "group_id", "member_id")
UNKNOWN = ("unknown_record_type", "unknown_value_version")


def reduced_offset_commits(rows: DataFrame, markers: DataFrame, horizons: DataFrame) -> DataFrame:
    """Rows of offset_commits that stay; `markers` are all of transaction_markers."""
    settled = _with_end(rows, markers)
    ended_before = F.col("end_offset") < F.col("horizon")
    is_value, is_aborted = F.col("value_version").isNotNull(), F.col("end_outcome") == "aborted"
    goes = ended_before & is_value & is_aborted
    stays = F.when(F.col("is_transactional"), ~F.coalesce(ended_before, F.lit(False))).otherwise(
        F.col("producer_id").isNotNull()
    )
    return _reduced(settled, horizons, OFFSET_COMMIT_KEY, stays=stays, goes=goes).select(*rows.columns)


def reduced_group_records(rows: DataFrame, markers: DataFrame, horizons: DataFrame) -> DataFrame:
    """Rows of group_records that stay; `markers` are all of transaction_markers."""
    ended_before = F.coalesce(F.col("end_offset") < F.col("horizon"), F.lit(False))
    stays = F.col("is_transactional") & ~ended_before
    return _reduced(_with_end(rows, markers), horizons, GROUP_RECORD_KEY, stays=stays).select(*rows.columns)


def reduced_quarantine(rows: DataFrame, horizons: DataFrame) -> DataFrame:
    """Rows of quarantine that stay."""
    is_unknown = F.col("reason").isin(*UNKNOWN) & F.col("resolved_by").isNull() & F.col("producer_id").isNull()
    key = ("offsets_partition", "raw_key")
    return _reduced(rows, horizons, key, stays=~is_unknown).select(*rows.columns)


def reduced_versions(rows: DataFrame, horizons: DataFrame) -> DataFrame:
    """Rows of group_versions or group_member_versions that stay."""
    key = MEMBER_KEY if "member_id" in rows.columns else GROUP_KEY
    return _reduced(rows, horizons, key).select(*rows.columns)


def reduced_events(rows: DataFrame, horizons: DataFrame) -> DataFrame:
    """Rows of group_events that stay: no current table is made of them."""
    is_old = F.coalesce(F.col("log_offset") < F.col("horizon"), F.lit(False))
    return rows.join(F.broadcast(horizons), "offsets_partition", "left").where(~is_old).select(*rows.columns)


def reduced_markers(
    markers: DataFrame,
    offset_commits: DataFrame,
    group_records: DataFrame,
    quarantine: DataFrame,
    horizons: DataFrame,
) -> DataFrame:
    """Rows of transaction_markers that stay: those that end a transaction of which a record is left."""
    records = [rows.withColumn("is_marker", F.lit(False)) for rows in (offset_commits, group_records)]
    records.append(quarantine.where("record_count > 0").withColumn("is_marker", F.lit(False)))
    ends = markers.where("outcome IS NOT NULL").withColumn("is_marker", F.lit(True))
    columns = ["offsets_partition", "producer_id", "log_offset", "is_marker"]
    places = reduce(DataFrame.unionByName, [rows.select(*columns) for rows in (*records, ends)])
    in_log_order = Window.partitionBy("offsets_partition", "producer_id").orderBy("log_offset")
    follows_record = ~F.lag("is_marker").over(in_log_order)
    needed = (
        places.where("producer_id IS NOT NULL")
        .withColumn("is_needed", follows_record)
        .where("is_marker AND is_needed")
        .select("offsets_partition", "log_offset", F.lit(True).alias("is_needed"))
    )
    with_need = markers.join(needed, ["offsets_partition", "log_offset"], "left").join(
        F.broadcast(horizons), "offsets_partition", "left"
    )
    is_old = F.coalesce(F.col("log_offset") < F.col("horizon"), F.lit(False))
    stays = ~is_old | F.col("is_needed") | F.col("outcome").isNull() | F.col("producer_id").isNull()
    return with_need.where(stays).select(*markers.columns)


def reduced_traffic(rows: DataFrame, moment_ms: int) -> DataFrame:
    """Rows of group_traffic that stay: hours that reach beyond the moment, and records without a time."""
    ends = F.col("hour") + F.expr("INTERVAL 1 HOUR")
    return rows.where(F.col("hour").isNull() | (ends > F.timestamp_millis(F.lit(moment_ms))))


def reduced_topic_offsets(rows: DataFrame, moment_ms: int, newest_audit_id: int) -> DataFrame:
    """Rows of topic_offsets that stay; the view lag reads those of the newest audit that has any."""
    is_old = F.unix_millis("seen_at") < F.lit(moment_ms)
    return rows.where(~is_old | (F.col("audit_id") == newest_audit_id))


def _reduced(
    rows: DataFrame,
    horizons: DataFrame,
    key: tuple[str, ...],
    *,
    stays: Column | None = None,
    goes: Column | None = None,
) -> DataFrame:
    """Rows not below H, those below it that `stays` names, and of the rest but those that `goes` names the last of
    each key."""
    no = F.lit(False)
    is_old = F.coalesce(F.col("log_offset") < F.col("horizon"), no)
    is_kept = ~is_old | F.coalesce(stays if stays is not None else no, no)
    competes = ~is_kept & ~F.coalesce(goes if goes is not None else no, no)
    last = F.max(F.when(F.col("_competes"), F.col("log_offset"))).over(Window.partitionBy(*key))
    return (
        rows.join(F.broadcast(horizons), "offsets_partition", "left")
        .withColumns({"_is_kept": is_kept, "_competes": competes})
        .withColumn("_last", last)
        .where(F.col("_is_kept") | (F.col("_competes") & (F.col("log_offset") == F.col("_last"))))
    )


def _with_end(rows: DataFrame, markers: DataFrame) -> DataFrame:
    """The rows with `end_offset` and `end_outcome` of the marker that ended their transaction; null: none has.

    A row that was read together with its marker knows it (outcome, marker_offset); for others it is looked up.
    """
    knows = "marker_offset" in rows.columns
    asks = F.col("is_transactional") & (F.col("marker_offset").isNull() if knows else F.lit(True))
    ends = markers.where("outcome IS NOT NULL AND transaction_start_offset IS NOT NULL").select(
        F.col("offsets_partition").alias("_partition"),
        F.col("producer_id").alias("_producer"),
        F.col("transaction_start_offset").alias("_start"),
        F.col("log_offset").alias("_end"),
        F.col("outcome").alias("_outcome"),
    )
    in_it = (
        (F.col("_partition") == F.col("offsets_partition"))
        & (F.col("_producer") == F.col("producer_id"))
        & (F.col("_start") <= F.col("log_offset"))
        & (F.col("log_offset") < F.col("_end"))
    )
    found = rows.where(asks).join(ends, in_it, "left")
    found = found.withColumns({"end_offset": F.col("_end"), "end_outcome": F.col("_outcome")})
    known = rows.where(~asks).withColumns(
        {
            "end_offset": F.col("marker_offset") if knows else F.lit(None).cast("bigint"),
            "end_outcome": F.col("outcome") if knows else F.lit(None).cast("string"),
        }
    )
    columns = [*rows.columns, "end_offset", "end_outcome"]
    return found.select(*columns).unionByName(known.select(*columns))
