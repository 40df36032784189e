"""Which committed offsets and groups the broker's next clean-up takes, and when: DataFrame -> DataFrame.

What a clean-up looks at, in this order (an offset's reason is the first that holds):

1. the group. An offset whose group is gone is never looked at (`orphan`). A classic group with members and a share group expire
   nothing (`group_active`), but for a `consumer` one that is Stable: there, what no member subscribes to may go, if every
   member's subscription can be read (`subscription_unknown`). Simple, Empty, consumer and streams groups always expire.
2. the topic. What members subscribe to, by name or by expression, and what a streams topology reads, stays (`subscribed`).
3. a transaction with a pending offset on the same partition spares the committed one (`pending_transaction`; Java, 3.8 on).
4. the time. A time that the client gave (`expire_timestamp`; clients before 2.1), else the retention counted from the commit;
   for an Empty classic group that was ever joined, from the moment it became Empty: committing does not prolong it.

A group goes in the same pass when it has no members and nothing is left of it. Before 2.1 only the offset's own time counted.
Releases differ: coordinator/expiry_rules.py has what in which, and Kafka's classes it comes from.

Nothing here reads a clock: `as_of` may lie in the future ("if nobody comes back until then"), `retention_ms` may be one that
nobody has set yet. Members' session timeouts that no record tells of yet are not known: see the state column of `groups`.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.expiry_rules import ExpiryRules, OpenTransactionRule, expiry_rules
from kgroups_spark.tables.current import GROUP_EXPIRY, OFFSET_EXPIRY
from kgroups_spark.times import to_epoch_ms

GROUP = ["offsets_partition", "group_id"]
SLOT = [*GROUP, "topic", "partition"]
EXPIRES = ["expire_timestamp_passed", "retention_passed"]
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
WAITS = ["before_expire_timestamp", "within_retention"]

TOPOLOGY = (
    "subtopologies array<struct<sourceTopics: array<string>, repartitionSourceTopics: array<struct<name: string>>>>"
)


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
    """One row per committed offset: what a clean-up at `as_of` does with it, why, and when its time comes (OFFSET_EXPIRY).

    `as_of` is a datetime with a zone or epoch milliseconds. expires_at is null where time alone changes nothing; it may lie in
    the past. expires_at_if_empty of a group without members is expires_at. Frames are the current tables, or as many of
    their columns as are read here. ValueError for a release that is not known.
    """
    rules = expiry_rules(release_version)
    now_ms = _epoch_ms(as_of)
    offsets = committed_offsets.select(
        *SLOT, "committed_offset", "log_offset", "commit_timestamp", _expire_ms(rules).alias("expire_ms")
    )
    return (
        offsets.join(_conditions(groups, group_members, rules), GROUP, "left")
        .join(_spared_slots(pending_offsets, rules), SLOT, "left")
        .select(
            "*",
            _commit_ms().alias("commit_ms"),
            _base().alias("base"),
            F.coalesce("expire_ms", "emptied_ms", _commit_ms()).alias("base_ms"),
        )
        .select("*", _due_ms(rules, retention_ms).alias("due_ms"))
        .select("*", _reason(now_ms).alias("reason"))
        .select(
            F.lit(audit_id).cast("bigint").alias("audit_id"),
            "offsets_partition",
            _timestamp(F.lit(now_ms)).alias("as_of"),
            F.lit(retention_ms).cast("bigint").alias("retention_ms"),
            "group_id",
            "topic",
            "partition",
            "committed_offset",
            "log_offset",
            F.when(F.col("reason").isin(EXPIRES), "expire").otherwise("keep").alias("decision"),
            "reason",
            F.when(_is_timed(), F.col("base")).alias("base"),
            F.when(_is_timed(), _timestamp(F.col("base_ms"))).alias("base_timestamp"),
            F.when(F.col("reason").isin(EXPIRES + WAITS), _timestamp(F.col("due_ms"))).alias("expires_at"),
            _timestamp(_due_if_empty_ms(rules, now_ms, retention_ms)).alias("expires_at_if_empty"),
        )
        .to(OFFSET_EXPIRY)
    )


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
    """One row per group: whether a clean-up at `as_of` deletes it, why not, and when its time comes (GROUP_EXPIRY).

    `offset_expiry` is what the function of that name made of the same tables with the same arguments. `held_groups`
    (offsets_partition, group_id): groups that a 3.8 to 4.0.0 coordinator believes to be in a transaction though nothing is
    pending any more (KAFKA-19164); other releases do not leak and do not look. An Empty group without offsets goes at the next
    check, so its deletes_at is `as_of`.
    """
    rules = expiry_rules(release_version)
    now = _timestamp(F.lit(_epoch_ms(as_of)))
    is_kept_share = (F.col("group_type") == "share") & F.lit(not rules.deletes_share_groups)
    is_held = _is_held_by_transaction(rules)
    reason = (
        F.when(F.col("state") != "Empty", "has_members")
        .when(F.coalesce("has_kept_offsets", F.lit(False)), "offsets_left")
        .when(is_held, "open_transaction")
        .when(is_kept_share, "share_group")
        .otherwise("empty_and_nothing_left")
    )
    stays = (F.col("state") != "Empty") | is_held | is_kept_share | F.coalesce("has_timeless_offsets", F.lit(False))
    writes_tombstone = F.lit(rules.tombstone_at_generation_0) | (F.coalesce("generation", F.lit(0)) > 0)
    return (
        groups.select(*GROUP, "group_type", "state", "generation")
        .join(_offsets_of_groups(offset_expiry), GROUP, "left")
        .join(_groups_in_transactions(pending_offsets, held_groups, rules), GROUP, "left")
        .select(
            F.lit(audit_id).cast("bigint").alias("audit_id"),
            "offsets_partition",
            now.alias("as_of"),
            F.lit(retention_ms).cast("bigint").alias("retention_ms"),
            "group_id",
            "group_type",
            "state",
            F.when(reason == "empty_and_nothing_left", "delete").otherwise("keep").alias("decision"),
            reason.alias("reason"),
            F.when(~stays, F.coalesce("last_expires_at", now)).alias("deletes_at"),
            writes_tombstone.alias("writes_tombstone"),
        )
        .to(GROUP_EXPIRY)
    )


def _conditions(groups: DataFrame, group_members: DataFrame, rules: ExpiryRules) -> DataFrame:
    """Per group: blocked_by (why nothing of it expires; null: something may), emptied_ms (an Empty classic group's base),
    subscribed_topics (what stays), last_member (what would become of it without members: null: as it is, `wait` the retention
    from then on, `own_time` by each offset, `never`)."""
    has_group = F.lit(True).alias("has_group")
    nothing = F.lit(None).cast("string")
    if not rules.depends_on_group:
        return groups.select(
            *GROUP,
            has_group,
            nothing.alias("blocked_by"),
            F.lit(None).cast("bigint").alias("emptied_ms"),
            _no_topics().alias("subscribed_topics"),
            nothing.alias("last_member"),
        )

    is_empty = F.col("state") == "Empty"
    is_classic = F.col("group_type") == "classic"
    is_consumer = F.col("group_type") == "consumer"
    is_streams = F.col("group_type") == "streams"
    was_joined = F.coalesce("protocol_type", F.lit("")) != ""
    reads_subscriptions = (
        is_classic & (F.col("protocol_type") == "consumer") & F.col("state").isin(list(rules.subscription_states))
    )
    knows_subscriptions = F.col("protocol").isNotNull() & F.coalesce("has_readable_members", F.lit(False))
    blocked_by = (
        F.when(F.col("group_type") == "share", "group_active")
        .when(reads_subscriptions, F.when(~knows_subscriptions, "subscription_unknown"))
        .when(is_classic & ~is_empty, "group_active")
    )
    subscribed_topics = (
        F.when(is_consumer, F.concat(_member_topics(), _regex_topics()))
        .when(reads_subscriptions, _member_topics())
        .when(is_streams & ~F.col("state").isin(list(rules.topology_unread_states)), _topology_topics())
        .otherwise(_no_topics())
    )
    last_member = (
        F.when(F.col("group_type") == "share", "never")
        .when(is_classic & ~is_empty, "wait")
        .when(~is_empty, "own_time")
    )
    return groups.join(_members_of_groups(group_members), GROUP, "left").select(
        *GROUP,
        has_group,
        blocked_by.alias("blocked_by"),
        F.when(is_classic & is_empty & was_joined, F.unix_millis("current_state_timestamp")).alias("emptied_ms"),
        subscribed_topics.alias("subscribed_topics"),
        last_member.alias("last_member"),
    )


def _members_of_groups(group_members: DataFrame) -> DataFrame:
    """Per group with members: all the names they subscribe to, and whether every subscription could be read."""
    return group_members.groupBy(*GROUP).agg(
        F.array_distinct(F.flatten(F.collect_set("subscribed_topics"))).alias("member_topics"),
        F.bool_and(F.col("subscribed_topics").isNotNull()).alias("has_readable_members"),
    )


def _no_topics() -> Column:
    return F.array().cast("array<string>")


def _member_topics() -> Column:
    return F.coalesce("member_topics", _no_topics())


def _regex_topics() -> Column:
    return F.coalesce(F.flatten(F.map_values("resolved_regex_topics")), _no_topics())


def _topology_topics() -> Column:
    """Source and repartition source topics of all subtopologies."""
    subtopologies = F.from_json("topology", TOPOLOGY)["subtopologies"]

    def topics(subtopology: Column) -> Column:
        repartition = F.transform(subtopology["repartitionSourceTopics"], lambda topic: topic["name"])
        return F.concat(
            F.coalesce(subtopology["sourceTopics"], _no_topics()), F.coalesce(repartition, _no_topics())
        )

    return F.coalesce(F.flatten(F.transform(subtopologies, topics)), _no_topics())


def _spared_slots(pending_offsets: DataFrame, rules: ExpiryRules) -> DataFrame:
    """Partitions whose committed offset a pending one spares."""
    slots = pending_offsets.select(*SLOT, F.lit(True).alias("is_spared"))
    return slots.distinct() if rules.pending_transaction_spares else slots.limit(0)


def _expire_ms(rules: ExpiryRules) -> Column:
    """The time that the client gave, as the release reads it; null: none."""
    given = F.unix_millis("expire_timestamp")
    if rules.v1_without_expire_timestamp_expired:
        return F.coalesce(given, F.when(F.col("value_version") == 1, F.lit(-1).cast("bigint")))
    return given if rules.honours_expire_timestamp else F.lit(None).cast("bigint")


def _commit_ms() -> Column:
    return F.coalesce(F.unix_millis("commit_timestamp"), F.lit(-1).cast("bigint"))


def _base() -> Column:
    return (
        F.when(F.col("expire_ms").isNotNull(), "expire_timestamp")
        .when(F.col("emptied_ms").isNotNull(), "current_state_timestamp")
        .otherwise("commit_timestamp")
    )


def _due_ms(rules: ExpiryRules, retention_ms: int) -> Column:
    """The first millisecond at which a clean-up takes it, if nothing else keeps it."""
    due_ms = F.coalesce("expire_ms", F.col("base_ms") + F.lit(retention_ms))
    return due_ms + 1 if rules.is_strict else due_ms


def _reason(now_ms: int) -> Column:
    has_given_time = F.col("expire_ms").isNotNull()
    is_due = F.col("due_ms") <= F.lit(now_ms)
    return (
        F.when(F.col("has_group").isNull(), "orphan")
        .when(F.col("blocked_by").isNotNull(), F.coalesce("blocked_by", F.lit("")))
        .when(F.array_contains("subscribed_topics", F.col("topic")), "subscribed")
        .when(F.col("is_spared"), "pending_transaction")
        .when(has_given_time & is_due, "expire_timestamp_passed")
        .when(has_given_time, "before_expire_timestamp")
        .when(is_due, "retention_passed")
        .otherwise("within_retention")
    )


def _is_timed() -> Column:
    """The group lets offsets expire: there is something to count from, though topic or transaction may keep this one."""
    return ~F.col("reason").isin("orphan", "group_active", "subscription_unknown")


def _due_if_empty_ms(rules: ExpiryRules, now_ms: int, retention_ms: int) -> Column:
    """Due time, had the last member left at as_of: nothing is subscribed then, and a classic group begins to wait. Null for
    orphans, for what a transaction spares, and where an Empty group still holds the topic."""
    now = F.lit(now_ms)
    waits_ms = F.coalesce("expire_ms", F.lit(now_ms + retention_ms))
    own_ms = F.coalesce("expire_ms", F.col("commit_ms") + F.lit(retention_ms))
    return (
        F.when((F.col("reason") == "orphan") | F.col("is_spared"), None)
        .when(F.col("last_member") == "wait", F.greatest(waits_ms, now))
        .when(F.col("last_member") == "own_time", F.greatest(own_ms, now))
        .when(F.col("last_member").isNull() & (F.col("reason") != "subscribed"), F.col("due_ms"))
    )


def _offsets_of_groups(offset_expiry: DataFrame) -> DataFrame:
    """Per group with committed offsets: whether one outlives the clean-up, whether one has no time at all, the last time."""
    return offset_expiry.groupBy(*GROUP).agg(
        F.bool_or(F.col("decision") == "keep").alias("has_kept_offsets"),
        F.bool_or(F.col("expires_at").isNull()).alias("has_timeless_offsets"),
        F.max("expires_at").alias("last_expires_at"),
    )


def _groups_in_transactions(
    pending_offsets: DataFrame, held_groups: DataFrame | None, rules: ExpiryRules
) -> DataFrame:
    in_transactions = pending_offsets.select(*GROUP)
    if held_groups is not None and rules.open_transaction is OpenTransactionRule.IF_IT_HAS_OFFSETS:
        in_transactions = in_transactions.unionByName(held_groups.select(*GROUP))
    return in_transactions.distinct().select(*GROUP, F.lit(True).alias("is_in_transaction"))


def _is_held_by_transaction(rules: ExpiryRules) -> Column:
    is_in_transaction = F.coalesce("is_in_transaction", F.lit(False))
    match rules.open_transaction:
        case OpenTransactionRule.ALWAYS:
            return is_in_transaction
        case OpenTransactionRule.IF_IT_HAS_OFFSETS:
            return is_in_transaction & F.col("has_kept_offsets").isNotNull()
        case OpenTransactionRule.NEVER:
            return F.lit(False)


def _epoch_ms(as_of: datetime | int) -> int:
    return as_of if isinstance(as_of, int) else to_epoch_ms(as_of)


def _timestamp(time_ms: Column) -> Column:
    """What lies behind the year 9999 becomes its last millisecond: no reader of the table could show it."""
    return F.timestamp_millis(F.when(time_ms > LAST_MS, F.lit(LAST_MS)).otherwise(time_ms))
