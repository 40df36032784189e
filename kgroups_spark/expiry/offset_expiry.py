"""Which committed offsets a clean-up takes: the group's conditions, then each offset's topic, transaction and time."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.expiry_rules import ExpiryRules, expiry_rules
from kgroups_spark.expiry.group_conditions import GROUP, group_conditions
from kgroups_spark.expiry.moment import epoch_ms, timestamp
from kgroups_spark.tables.schemas import TABLES

SLOT = [*GROUP, "topic", "partition"]

EXPIRES = ["expire_timestamp_passed", "retention_passed"]
WAITS = ["before_expire_timestamp", "within_retention"]
SPARED = ["subscribed", "pending_transaction"]  # there is a time, but topic or transaction keeps the offset


def offset_expiry(
    committed_offsets: DataFrame,
    groups: DataFrame,
    group_members: DataFrame,
    pending_offsets: DataFrame,
    *,
    as_of: datetime | int,
    retention_ms: int,
    release_version: str,
    audit_id: int,
) -> DataFrame:
    """One row per committed offset: what a clean-up at `as_of` does with it, why, and when its time comes.

    The frames are the current tables. `as_of` is a datetime with a zone, or epoch milliseconds. expires_at is null
    where time alone changes nothing, and lies in the past where the offset is due. expires_at_if_empty of a group
    without members is its expires_at. ValueError for a release that is not known.
    """
    rules = expiry_rules(release_version)
    now_ms = epoch_ms(as_of)
    return (
        committed_offsets.select(*SLOT, "committed_offset", "log_offset", *_own_times(rules))
        .join(group_conditions(groups, group_members, rules), GROUP, "left")
        .join(_pending_slots(pending_offsets, rules), SLOT, "left")
        .select("*", _base().alias("base"), F.coalesce("expire_ms", "emptied_ms", "commit_ms").alias("base_ms"))
        .select("*", _due_ms(rules, retention_ms).alias("due_ms"))
        .select("*", _reason(now_ms).alias("reason"))
        .select(
            F.lit(audit_id).cast("bigint").alias("audit_id"),
            "offsets_partition",
            timestamp(F.lit(now_ms)).alias("as_of"),
            F.lit(retention_ms).cast("bigint").alias("retention_ms"),
            "group_id",
            "topic",
            "partition",
            "committed_offset",
            "log_offset",
            F.when(_is(EXPIRES), "expire").otherwise("keep").alias("decision"),
            "reason",
            F.when(_is(EXPIRES + WAITS + SPARED), F.col("base")).alias("base"),
            F.when(_is(EXPIRES + WAITS + SPARED), timestamp(F.col("base_ms"))).alias("base_timestamp"),
            F.when(_is(EXPIRES + WAITS), timestamp(F.col("due_ms"))).alias("expires_at"),
            timestamp(_due_if_empty_ms(now_ms, retention_ms)).alias("expires_at_if_empty"),
        )
        .to(TABLES["offset_expiry"].schema)
    )


def _own_times(rules: ExpiryRules) -> list[Column]:
    """expire_ms, the time that the client gave as the release reads it (null: none), and commit_ms (Kafka's -1:
    none)."""
    expire_ms = F.unix_millis("expire_timestamp")
    if rules.v1_without_expire_timestamp_expired:
        expire_ms = F.coalesce(expire_ms, F.when(F.col("value_version") == 1, F.lit(-1).cast("bigint")))
    if not rules.honours_expire_timestamp:
        expire_ms = F.lit(None).cast("bigint")
    commit_ms = F.coalesce(F.unix_millis("commit_timestamp"), F.lit(-1).cast("bigint"))
    return [expire_ms.alias("expire_ms"), commit_ms.alias("commit_ms")]


def _pending_slots(pending_offsets: DataFrame, rules: ExpiryRules) -> DataFrame:
    """Partitions whose committed offset a pending one spares."""
    slots = pending_offsets.select(*SLOT).distinct().select(*SLOT, F.lit(True).alias("is_pending"))
    return slots if rules.pending_transaction_spares else slots.limit(0)


def _base() -> Column:
    return (
        F.when(F.col("expire_ms").isNotNull(), "expire_timestamp")
        .when(F.col("emptied_ms").isNotNull(), "current_state_timestamp")
        .otherwise("commit_timestamp")
    )


def _due_ms(rules: ExpiryRules, retention_ms: int) -> Column:
    """The first millisecond at which a clean-up takes it, if nothing else keeps it."""
    due_ms = F.coalesce(F.col("expire_ms"), F.col("base_ms") + retention_ms)
    return due_ms + 1 if rules.is_strict else due_ms


def _reason(now_ms: int) -> Column:
    has_given_time = F.col("expire_ms").isNotNull()
    is_due = F.col("due_ms") <= now_ms
    return (
        F.when(F.col("has_group").isNull(), "orphan")
        .when(F.col("blocked_by") == "group_active", "group_active")
        .when(F.col("blocked_by") == "subscription_unknown", "subscription_unknown")
        .when(F.array_contains("subscribed_topics", F.col("topic")), "subscribed")
        .when(F.col("is_pending"), "pending_transaction")
        .when(has_given_time & is_due, "expire_timestamp_passed")
        .when(has_given_time, "before_expire_timestamp")
        .when(is_due, "retention_passed")
        .otherwise("within_retention")
    )


def _is(reasons: list[str]) -> Column:
    return F.col("reason").isin(reasons)


def _due_if_empty_ms(now_ms: int, retention_ms: int) -> Column:
    """Due time, had the last member left at as_of: nothing is subscribed then, and a classic group begins to wait. Null
    for orphans and share groups, for what a transaction spares, and where a group without members still holds the
    topic."""
    now = F.lit(now_ms)
    from_now_ms = F.coalesce(F.col("expire_ms"), F.lit(now_ms + retention_ms))
    from_commit_ms = F.coalesce(F.col("expire_ms"), F.col("commit_ms") + retention_ms)
    return (
        F.when(_is(["orphan"]) | F.col("is_pending"), None)
        .when(F.col("if_empty") == "wait", F.greatest(from_now_ms, now))
        .when(F.col("if_empty") == "own_time", F.greatest(from_commit_ms, now))
        .when(F.col("if_empty").isNull() & ~_is(["subscribed"]), F.col("due_ms"))
    )
