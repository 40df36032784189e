"""Which groups a clean-up deletes, given the decisions on their offsets and everything else that keeps a group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.expiry_rules import ExpiryRules, OpenTransactionRule
from kgroups_spark.expiry.decisions import decisions, texts
from kgroups_spark.expiry.group_conditions import in_partitions_without_clean_up
from kgroups_spark.expiry.matching import NOWHERE, Flags, are_among, columns_of, rows_among
from kgroups_spark.expiry.moment import NONE, Ms, storable, times_in, timestamps
from kgroups_spark.tables.arrays import flags, is_given
from kgroups_spark.tables.schemas import GROUP

# In the order in which they are checked.
REASONS = (
    "has_members",
    "offsets_left",
    "open_transaction",
    "share_group",
    "clean_up_fails",
    "topology_description",
    "empty_and_nothing_left",
)
NOTHING_LEFT = REASONS.index("empty_and_nothing_left")


def group_expiry(
    offset_expiry: pa.Table,
    groups: pa.Table,
    pending_offsets: pa.Table,
    *,
    as_of: int,
    retention_ms: int,
    rules: ExpiryRules,
    audit_id: int,
    held_groups: pa.Table,
) -> pa.Table:
    """One row for each group, in their order: whether a clean-up at `as_of` deletes it, why not, and when it will.

    `offset_expiry` is the result of the function of that name for the same tables and arguments. `held_groups`
    (offsets_partition, group_id): groups that a coordinator of 3.8 to 4.0.0 believes to be in a transaction although it
    has no pending offset any more (KAFKA-19164); other releases ignore it. deletes_at is null if time alone changes
    nothing. For an Empty group without offsets it is `as_of`: the next check removes the group, whatever the retention.
    """
    offsets = _OffsetsOfGroups.of(offset_expiry, groups)
    has_members = ~flags(pc.equal(groups["state"], "Empty"))
    is_held = _is_held_by_transaction(groups, pending_offsets, held_groups, offsets, rules)
    is_kept_share = flags(pc.equal(groups["group_type"], "share")) & (not rules.deletes_share_groups)
    is_skipped = in_partitions_without_clean_up(groups, offset_expiry, groups, rules)
    # We assume that the plugin is still configured: no record shows whether it is.
    is_described = is_given(groups["stored_description_epoch"]) & rules.keeps_described_streams_groups
    reason = np.select(
        [has_members, offsets.has_kept, is_held, is_kept_share, is_skipped, is_described],
        range(NOTHING_LEFT),
        NOTHING_LEFT,
    )
    # Something that does not end with time keeps the group, or one of its offsets.
    is_held_by_more = is_held | is_kept_share | is_skipped | is_described
    outlives_its_offsets = has_members | is_held_by_more | offsets.has_timeless
    deletes_ms = np.where(offsets.last_ms == NONE, storable(as_of), offsets.last_ms)
    writes_tombstone = flags(pc.greater(groups["generation"], 0)) | rules.tombstone_at_generation_0
    decided = {
        "decision": texts(reason == NOTHING_LEFT, ("keep", "delete")),
        "reason": texts(reason, REASONS),
        "deletes_at": timestamps(np.where(outlives_its_offsets, NONE, deletes_ms)),
        "writes_tombstone": pa.array(writes_tombstone),
    }
    given = {"as_of": as_of, "retention_ms": retention_ms, "audit_id": audit_id}
    return decisions("group_expiry", groups, decided, **given)


@dataclass(frozen=True)
class _OffsetsOfGroups:
    """For each group: whether it has committed offsets, whether one survives the clean-up, whether one never expires by
    time, and the latest expiry (epoch ms; NONE: there is none)."""

    has_some: Flags
    has_kept: Flags
    has_timeless: Flags
    last_ms: Ms

    @classmethod
    def of(cls, offset_expiry: pa.Table, groups: pa.Table) -> _OffsetsOfGroups:
        group = rows_among(columns_of(offset_expiry, GROUP), columns_of(groups, GROUP))
        expires_ms = times_in(offset_expiry["expires_at"])
        # The last element is for orphans, the row NOWHERE.
        has_some, has_kept, has_timeless = np.zeros((3, groups.num_rows + 1), bool)
        last_ms = np.full(groups.num_rows + 1, NONE)
        has_some[group] = True
        has_kept[group[flags(pc.equal(offset_expiry["decision"], "keep"))]] = True
        has_timeless[group[expires_ms == NONE]] = True
        np.maximum.at(last_ms, group, expires_ms)
        return cls(has_some[:NOWHERE], has_kept[:NOWHERE], has_timeless[:NOWHERE], last_ms[:NOWHERE])


def _is_held_by_transaction(
    groups: pa.Table,
    pending_offsets: pa.Table,
    held_groups: pa.Table,
    offsets: _OffsetsOfGroups,
    rules: ExpiryRules,
) -> Flags:
    by_name = columns_of(groups, GROUP)
    is_in_transaction = are_among(by_name, columns_of(pending_offsets, GROUP))
    match rules.open_transaction:
        case OpenTransactionRule.ALWAYS:
            return is_in_transaction
        case OpenTransactionRule.IF_IT_HAS_OFFSETS:
            is_in_transaction |= are_among(by_name, columns_of(held_groups, GROUP))
            return is_in_transaction & offsets.has_some
        case OpenTransactionRule.NEVER:
            return np.zeros(groups.num_rows, bool)
