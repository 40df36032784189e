"""Which groups a clean-up deletes: what it made of their offsets, and what else holds them."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.expiry_rules import ExpiryRules, OpenTransactionRule, expiry_rules
from kgroups_spark.expiry.group_conditions import GROUP
from kgroups_spark.expiry.moment import epoch_ms, timestamp
from kgroups_spark.tables.schemas import TABLES


def group_expiry(
    offset_expiry: DataFrame,
    groups: DataFrame,
    pending_offsets: DataFrame,
    *,
    as_of: datetime | int,
    retention_ms: int,
    release_version: str,
    audit_id: int,
    held_groups: DataFrame | None = None,
) -> DataFrame:
    """One row per group: whether a clean-up at `as_of` deletes it, why not, and when its time comes.

    `offset_expiry` is what the function of that name made of the same tables with the same arguments. `held_groups`
    (offsets_partition, group_id): groups that a 3.8 to 4.0.0 coordinator believes to be in a transaction though nothing
    of it is pending any more (KAFKA-19164); other releases do not leak and do not look. deletes_at is null where time
    alone changes nothing; of an Empty group without offsets it is `as_of`: the next check takes it, whatever the
    retention. ValueError for a release that is not known.
    """
    rules = expiry_rules(release_version)
    now = timestamp(F.lit(epoch_ms(as_of)))
    return (
        groups.select(*GROUP, "group_type", "state", "generation")
        .join(_offsets_of_groups(offset_expiry), GROUP, "left")
        .join(_groups_in_transactions(pending_offsets, held_groups, rules), GROUP, "left")
        .select("*", _reason(rules).alias("reason"))
        .select(
            F.lit(audit_id).cast("bigint").alias("audit_id"),
            "offsets_partition",
            now.alias("as_of"),
            F.lit(retention_ms).cast("bigint").alias("retention_ms"),
            "group_id",
            "group_type",
            "state",
            F.when(F.col("reason") == "empty_and_nothing_left", "delete").otherwise("keep").alias("decision"),
            "reason",
            F.when(~_outlives_its_offsets(rules), F.coalesce("last_expires_at", now)).alias("deletes_at"),
            _writes_tombstone(rules).alias("writes_tombstone"),
        )
        .to(TABLES["group_expiry"].schema)
    )


def _offsets_of_groups(offset_expiry: DataFrame) -> DataFrame:
    """Per group with committed offsets: whether one outlives the clean-up, whether one has no time at all, the last
    time."""
    return offset_expiry.groupBy(*GROUP).agg(
        F.bool_or(F.col("decision") == "keep").alias("has_kept_offsets"),
        F.bool_or(F.col("expires_at").isNull()).alias("has_timeless_offsets"),
        F.max("expires_at").alias("last_expires_at"),
    )


def _groups_in_transactions(pending_offsets: DataFrame, held_groups: DataFrame | None, rules: ExpiryRules) -> DataFrame:
    in_transactions = pending_offsets.select(*GROUP)
    if held_groups is not None and rules.open_transaction is OpenTransactionRule.IF_IT_HAS_OFFSETS:
        in_transactions = in_transactions.unionByName(held_groups.select(*GROUP))
    return in_transactions.distinct().select(*GROUP, F.lit(True).alias("is_in_transaction"))


def _reason(rules: ExpiryRules) -> Column:
    return (
        F.when(_has_members(), "has_members")
        .when(F.coalesce("has_kept_offsets", F.lit(False)), "offsets_left")
        .when(_is_held_by_transaction(rules), "open_transaction")
        .when(_is_kept_share(rules), "share_group")
        .otherwise("empty_and_nothing_left")
    )


def _outlives_its_offsets(rules: ExpiryRules) -> Column:
    """Something that no time ends holds the group, or one of its offsets."""
    has_timeless_offsets = F.coalesce("has_timeless_offsets", F.lit(False))
    return _has_members() | _is_held_by_transaction(rules) | _is_kept_share(rules) | has_timeless_offsets


def _has_members() -> Column:
    return F.col("state") != "Empty"


def _is_kept_share(rules: ExpiryRules) -> Column:
    return (F.col("group_type") == "share") & F.lit(not rules.deletes_share_groups)


def _is_held_by_transaction(rules: ExpiryRules) -> Column:
    is_in_transaction = F.coalesce("is_in_transaction", F.lit(False))
    has_offsets = F.col("has_kept_offsets").isNotNull()
    match rules.open_transaction:
        case OpenTransactionRule.ALWAYS:
            return is_in_transaction
        case OpenTransactionRule.IF_IT_HAS_OFFSETS:
            return is_in_transaction & has_offsets
        case OpenTransactionRule.NEVER:
            return F.lit(False)


def _writes_tombstone(rules: ExpiryRules) -> Column:
    return F.lit(rules.tombstone_at_generation_0) | (F.coalesce("generation", F.lit(0)) > 0)
