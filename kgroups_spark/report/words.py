"""Words for the tables' closed sets of values."""

from __future__ import annotations

from kgroups_spark.report.queries import Row
from kgroups_spark.times import format_time_for_people

# Causes of removals, then of moves.
CAUSES = {
    "expired": "expired",
    "probably_expired": "expired, most likely: the brokers were off",
    "group_deleted": "group deleted",
    "offset_deleted": "offsets deleted",
    "topic_deleted": "topic deleted",
    "no_members": "no members: an admin reset, most likely",
    "self_assigned": "its consumers assign themselves: their restart or a reset, the log cannot tell",
    "with_members": "the group had members",
    "transaction": "in a transaction",
    "topic_recreated": "topic deleted and created again",
    "unknown": "unknown",
}
MOVES = {
    "offset_rewound": "rewound",
    "offset_restarted": "offset committed after its removal",
    "offset_skipped": "skipped ahead without members",
}
EVENTS = {
    **MOVES,
    "group_created": "group created",
    "group_removed": "group removed",
    "group_type_changed": "type changed",
    "state_changed": "state changed",
    "generation_changed": "new generation or epoch",
    "member_joined": "member joined",
    "member_left": "member left",
    "member_replaced": "static member replaced",
    "assignment_changed": "assignment changed",
    "offset_removed": "offset removed",
    "offset_unset": "offset set to none",
    "topic_recreated": "topic deleted and created again",
}
# The usual causes of rebalances.
REBALANCES = {
    "member_joined": "a member joined",
    "member_left": "a member left",
    "members_changed": "members joined and left",
}
OTHER_REBALANCE = "another cause"
# Events of transactional ids.
ABORTS = {
    "transaction_timed_out": "open for longer than its timeout",
    "producer_fenced": "its producer was fenced",
}


def counted_from(row: Row) -> str:
    """The moment from which an offset's retention counts. `row`: of offset_expiry or of the query expiring_groups, with
    the state of its group."""
    if row["base"] == "expire_timestamp":
        return "the commit itself set the time"
    since = "?" if row["base_timestamp"] is None else format_time_for_people(row["base_timestamp"])[:16]
    if row["reason"] == "orphan":
        return f"no such group; committed {since}"
    if row["base"] == "current_state_timestamp":
        return f"{row['state']} since {since}"
    if row["state"] not in ("Empty", "Dead", None):
        return f"not subscribed to; committed {since}"
    return f"committed {since}"
