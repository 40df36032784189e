"""All finders, and what they find together. Apart from the package, so that whoever names findings loads no finder."""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.attempts import attempt
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


class Found(NamedTuple):
    """What finders found, errors first, in an order that depends on nothing else; notes on finders that failed."""

    findings: list[Finding]
    notes: list[str]


def look(evidence: Evidence) -> Found:
    """Asks every finder. One that fails finds nothing, and a note says so."""
    findings: list[Finding] = []
    notes: list[str] = []
    for find in FINDERS:
        found, failure = attempt(f"looking for {find.__name__}", lambda find=find: list(find(evidence)))  # type: ignore[misc]
        findings += found or []
        notes += [failure] if failure else []
    return Found(in_order(findings), notes)


def all_findings(evidence: Evidence) -> list[Finding]:
    """Everything odd that can be found."""
    return look(evidence).findings
