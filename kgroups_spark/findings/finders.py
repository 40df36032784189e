"""All finders, and what they find together. Apart from the package, so that whoever names findings loads no finder."""

from __future__ import annotations

from kgroups_spark.findings import assignments, commits, expiry, groups, members, offsets, records, transactions
from kgroups_spark.findings.evidence import Evidence
from kgroups_spark.findings.finding import Finding, in_order

FINDERS = (
    records.load_would_fail,
    groups.group_in_wrong_partition,
    offsets.orphaned_offsets,
    assignments.partition_assigned_twice,
    members.duplicate_static_member,
    transactions.transaction_open_too_long,
    offsets.offsets_of_share_group,
    members.unreadable_subscription,
    members.ghost_member,
    assignments.partition_targeted_twice,
    assignments.target_for_unknown_member,
    members.member_not_reconciled,
    records.group_record_near_limit,
    transactions.two_open_producers,
    assignments.committed_by_non_owner,
    commits.commit_time_off,
    expiry.goes_when_emptied,
    expiry.expiry_overdue,
    offsets.topic_recreated,
    commits.commit_storm,
    members.regex_matches_nothing,
    commits.mixed_commits,
    groups.idle_share_group,
    groups.throwaway_group,
)


def all_findings(evidence: Evidence) -> list[Finding]:
    """Everything odd, errors first, in an order that depends on nothing else."""
    return in_order([found for find in FINDERS for found in find(evidence)])
