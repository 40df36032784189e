"""What a group's type, state, members and subscriptions mean for its offsets."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kgroups_spark.coordinator.expiry_rules import ExpiryRules

GROUP = ["offsets_partition", "group_id"]

# Of a StreamsGroupTopologyValue as JSON.
TOPOLOGY = (
    "subtopologies array<struct<sourceTopics: array<string>, repartitionSourceTopics: array<struct<name: string>>>>"
)


def group_conditions(groups: DataFrame, group_members: DataFrame, rules: ExpiryRules) -> DataFrame:
    """One row per group: offsets_partition, group_id, has_group (true) and

    blocked_by          why nothing of it expires: `group_active`, `subscription_unknown`; null: something may
    emptied_ms          what the retention counts from instead of each commit (classic, Empty, once joined); null: the
                        commit subscribed_topics   topics whose offsets stay
    if_empty            what holds for its offsets without its members: `wait` a retention from then on, `own_time` of
                        each, `never` (share); null: it has none
    """
    if not rules.depends_on_group:
        return groups.select(*GROUP, *_unconditional())
    return groups.join(_members_of_groups(group_members), GROUP, "left").select(
        *GROUP,
        F.lit(True).alias("has_group"),
        _blocked_by(rules).alias("blocked_by"),
        F.when(_is_classic() & _is_empty() & _was_joined(), F.unix_millis("current_state_timestamp")).alias(
            "emptied_ms"
        ),
        _subscribed_topics(rules).alias("subscribed_topics"),
        _if_empty().alias("if_empty"),
    )


def _unconditional() -> list[Column]:
    """The columns where the group does not matter."""
    nothing = F.lit(None).cast("string")
    return [
        F.lit(True).alias("has_group"),
        nothing.alias("blocked_by"),
        F.lit(None).cast("bigint").alias("emptied_ms"),
        _no_topics().alias("subscribed_topics"),
        nothing.alias("if_empty"),
    ]


def _members_of_groups(group_members: DataFrame) -> DataFrame:
    """Per group with members: all names they subscribe to, and whether every subscription could be read."""
    return group_members.groupBy(*GROUP).agg(
        F.array_distinct(F.flatten(F.collect_set("subscribed_topics"))).alias("member_topics"),
        F.bool_and(F.col("subscribed_topics").isNotNull()).alias("has_readable_members"),
    )


def _blocked_by(rules: ExpiryRules) -> Column:
    knows_subscriptions = F.col("protocol").isNotNull() & F.coalesce("has_readable_members", F.lit(False))
    return (
        F.when(F.col("group_type") == "share", "group_active")
        .when(_looks_at_subscriptions(rules), F.when(~knows_subscriptions, "subscription_unknown"))
        .when(_is_classic() & ~_is_empty(), "group_active")
    )


def _subscribed_topics(rules: ExpiryRules) -> Column:
    reads_topology = (F.col("group_type") == "streams") & ~F.col("state").isin(list(rules.topology_unread_states))
    return (
        F.when(F.col("group_type") == "consumer", F.concat(_member_topics(), _regex_topics()))
        .when(_looks_at_subscriptions(rules), _member_topics())
        .when(reads_topology, _topology_topics())
        .otherwise(_no_topics())
    )


def _if_empty() -> Column:
    return (
        F.when(F.col("group_type") == "share", "never")
        .when(_is_classic() & ~_is_empty(), "wait")
        .when(~_is_empty(), "own_time")
    )


def _is_classic() -> Column:
    return F.col("group_type") == "classic"


def _is_empty() -> Column:
    return F.col("state") == "Empty"


def _was_joined() -> Column:
    """It has a protocol type: a simple group has none, the placeholder snapshot of a new group has ''."""
    return F.coalesce("protocol_type", F.lit("")) != ""


def _looks_at_subscriptions(rules: ExpiryRules) -> Column:
    """A classic group with members whose unsubscribed topics may expire."""
    is_in_state = F.col("state").isin(list(rules.subscription_states))
    return _is_classic() & F.coalesce(F.col("protocol_type") == "consumer", F.lit(False)) & is_in_state


def _no_topics() -> Column:
    return F.array().cast("array<string>")


def _member_topics() -> Column:
    return F.coalesce("member_topics", _no_topics())


def _regex_topics() -> Column:
    return F.coalesce(F.flatten(F.map_values("resolved_regex_topics")), _no_topics())


def _topology_topics() -> Column:
    """Source and repartition source topics of all subtopologies."""
    subtopologies = F.from_json("topology", TOPOLOGY)["subtopologies"]
    return F.coalesce(F.flatten(F.transform(subtopologies, _subtopology_topics)), _no_topics())


def _subtopology_topics(subtopology: Column) -> Column:
    repartition = F.transform(subtopology["repartitionSourceTopics"], lambda topic: topic["name"])
    return F.concat(F.coalesce(subtopology["sourceTopics"], _no_topics()), F.coalesce(repartition, _no_topics()))
