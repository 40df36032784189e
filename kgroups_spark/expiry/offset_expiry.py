"""Which committed offsets a clean-up removes, by the group's conditions, then each offset's topic, transaction and
time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.expiry_rules import ExpiryRules
from kgroups_spark.expiry.decisions import decisions, texts
from kgroups_spark.expiry.group_conditions import (
    GroupConditions,
    group_conditions,
    in_partitions_without_clean_up,
)
from kgroups_spark.expiry.matching import NOWHERE, Flags, Rows, are_among, columns_of, rows_among
from kgroups_spark.expiry.moment import (
    NONE,
    Ms,
    first_known,
    later,
    storable,
    times_in,
    timestamps,
)
from kgroups_spark.tables.arrays import flags
from kgroups_spark.tables.schemas import GROUP, SLOT

# In the order in which they are checked: the first that applies is an offset's reason.
REASONS = (
    "orphan",
    "share_group",
    "group_active",
    "subscription_unknown",
    "subscribed",
    "pending_transaction",
    "expire_timestamp_passed",
    "before_expire_timestamp",
    "retention_passed",
    "within_retention",
    "clean_up_fails",  # in place of the four before it, see group_conditions.py
)
ORPHAN = REASONS.index("orphan")
SUBSCRIBED = REASONS.index("subscribed")
CLEAN_UP_FAILS = REASONS.index("clean_up_fails")
EXPIRES = [REASONS.index("expire_timestamp_passed"), REASONS.index("retention_passed")]
WITHIN_RETENTION = REASONS.index("within_retention")
WAITS = [REASONS.index("before_expire_timestamp"), WITHIN_RETENTION]
# The offset has a time, but its topic, a transaction or a failing clean-up keeps it.
SPARED = [SUBSCRIBED, REASONS.index("pending_transaction"), CLEAN_UP_FAILS]

BASES = ("expire_timestamp", "current_state_timestamp", "commit_timestamp")


def offset_expiry(
    committed_offsets: pa.Table,
    groups: pa.Table,
    group_members: pa.Table,
    pending_offsets: pa.Table,
    *,
    as_of: int,
    retention_ms: int,
    rules: ExpiryRules,
    audit_id: int,
) -> pa.Table:
    """One row for each committed offset, in their order: the decision of a clean-up at `as_of`, its reason, and the
    time of expiry.

    The tables are the current ones, for all groups or some offsets partitions; columns that are not used may be
    missing. `as_of` is epoch milliseconds. expires_at is null if time alone changes nothing, and is in the past if the
    offset is due. In a group without members expires_at_if_empty equals expires_at.
    """
    group = rows_among(columns_of(committed_offsets, GROUP), columns_of(groups, GROUP))
    conditions = group_conditions(groups, group_members, rules)
    is_pending = _is_pending(committed_offsets, pending_offsets, rules)
    expire_ms, commit_ms = _own_times(committed_offsets, rules)
    emptied_ms = conditions.emptied_ms[group]
    base_ms = first_known(expire_ms, emptied_ms, commit_ms)
    due_ms = later(first_known(expire_ms, later(base_ms, retention_ms)), 1 if rules.is_strict else 0)
    has_given_time, is_due = expire_ms != NONE, due_ms <= as_of
    reason = np.select(
        [
            group == NOWHERE,
            conditions.is_share[group],
            conditions.is_active[group],
            conditions.is_unknown[group],
            _is_subscribed(committed_offsets, group, conditions),
            is_pending,
            has_given_time & is_due,
            has_given_time,
            is_due,
        ],
        range(WITHIN_RETENTION),
        WITHIN_RETENTION,
    )
    is_skipped = in_partitions_without_clean_up(committed_offsets, committed_offsets, groups, rules)
    reason = np.where(is_skipped & np.isin(reason, EXPIRES + WAITS), CLEAN_UP_FAILS, reason)
    has_base, has_time = np.isin(reason, EXPIRES + WAITS + SPARED), np.isin(reason, EXPIRES + WAITS)
    base = np.select([has_given_time, emptied_ms != NONE], [0, 1], 2)
    if_empty_ms = _due_if_empty_ms(conditions, group, expire_ms, commit_ms, due_ms, as_of, retention_ms)
    has_none_if_empty = (
        is_skipped | (reason == ORPHAN) | is_pending | (conditions.has_none[group] & (reason == SUBSCRIBED))
    )
    decided = {
        "decision": texts(np.isin(reason, EXPIRES), ("keep", "expire")),
        "reason": texts(reason, REASONS),
        "base": texts(base, BASES, ~has_base),
        "base_timestamp": timestamps(np.where(has_base, base_ms, NONE)),
        "expires_at": timestamps(np.where(has_time, due_ms, NONE)),
        "expires_at_if_empty": timestamps(np.where(has_none_if_empty, NONE, if_empty_ms)),
    }
    given = {"as_of": as_of, "retention_ms": retention_ms, "audit_id": audit_id}
    return decisions("offset_expiry", committed_offsets, decided, **given)


def _own_times(committed_offsets: pa.Table, rules: ExpiryRules) -> tuple[Ms, Ms]:
    """The client's expire time as the release reads it (NONE: none), and the commit time (-1: none), both in epoch
    ms."""
    commit_ms = times_in(committed_offsets["commit_timestamp"])
    commit_ms = np.where(commit_ms == NONE, -1, commit_ms)
    if not rules.honours_expire_timestamp:
        return np.full(len(commit_ms), NONE), commit_ms
    expire_ms = times_in(committed_offsets["expire_timestamp"])
    if rules.v1_without_expire_timestamp_expired:
        is_v1 = flags(pc.equal(committed_offsets["value_version"], 1))
        expire_ms = np.where((expire_ms == NONE) & is_v1, -1, expire_ms)
    return expire_ms, commit_ms


def _is_pending(committed_offsets: pa.Table, pending_offsets: pa.Table, rules: ExpiryRules) -> Flags:
    """Whether a pending offset of the same partition spares each committed offset."""
    if not rules.pending_transaction_spares:
        return np.zeros(committed_offsets.num_rows, bool)
    return are_among(columns_of(committed_offsets, SLOT), columns_of(pending_offsets, SLOT))


def _is_subscribed(committed_offsets: pa.Table, group: Rows, conditions: GroupConditions) -> Flags:
    return are_among([pa.array(group), committed_offsets["topic"]], conditions.subscribed)


def _due_if_empty_ms(
    conditions: GroupConditions,
    group: Rows,
    expire_ms: Ms,
    commit_ms: Ms,
    due_ms: Ms,
    now_ms: int,
    retention_ms: int,
) -> Ms:
    """The due time if the last member had left at as_of: no topic is subscribed then, and the retention of a classic
    group begins. NONE for share groups."""
    from_now = np.full(len(group), storable(now_ms + retention_ms))
    if_waiting = first_known(expire_ms, from_now)
    if_by_own_time = first_known(expire_ms, later(commit_ms, retention_ms))
    return np.select(
        [conditions.waits[group], conditions.goes_by_own_time[group], conditions.has_none[group]],
        [np.maximum(if_waiting, now_ms), np.maximum(if_by_own_time, now_ms), due_ms],
        NONE,
    )
