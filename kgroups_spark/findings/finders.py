"""All finders and their joint result. Not in the package's `__init__`, so that code that only names findings loads
none."""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.attempts import attempt
from kgroups_spark.findings import assignments, commits, expiry, groups, members, offsets, records, shares, transactions
from kgroups_spark.findings.evidence import Evidence
from kgroups_spark.findings.finding import Finding, order
from kgroups_spark.findings.lots import in_lots

WHOLE = (
    records.load_would_fail,
    groups.group_in_wrong_partition,
    offsets.orphaned_offsets,
    offsets.clean_up_fails,
    transactions.hanging_transaction,
    offsets.offsets_of_share_group,
    shares.share_delivery_near_limit,
    shares.share_partition_not_progressing,
    shares.share_state_without_group,
    transactions.two_open_producers,
    commits.commit_time_skew,
    offsets.topic_recreated,
    commits.commit_storm,
    commits.mixed_commits,
    groups.idle_share_group,
    groups.throwaway_group,
)

# Finders that look at one group, member or large record at a time.
BY_GROUP = (
    assignments.partition_assigned_twice,
    members.duplicate_static_member,
    members.unreadable_subscription,
    members.ghost_member,
    assignments.partition_targeted_twice,
    assignments.target_for_unknown_member,
    members.member_not_reconciled,
    records.group_record_near_limit,
    assignments.committed_by_non_owner,
    expiry.lost_when_emptied,
    expiry.expiry_overdue,
    members.regex_matches_nothing,
)


class Found(NamedTuple):
    """The findings, errors first, in an order that depends only on them; notes on finders that failed."""

    findings: list[Finding]
    notes: list[str]


def look(evidence: Evidence) -> Found:
    """The findings of WHOLE, and of BY_GROUP lot by lot. A finder that fails there finds nothing and leaves a note."""
    findings: list[Finding] = []
    lots, failure = attempt("looking at groups in lots", lambda: list(in_lots(evidence)))
    notes = [failure] if failure else []
    for some, finders in [(evidence, WHOLE), *((lot, BY_GROUP) for lot in lots or ())]:
        for find in finders:
            found, failure = attempt(
                f"looking for {find.__name__}",
                lambda find=find, some=some: list(find(some)),  # type: ignore[misc]
            )
            findings += found or []
            notes += [failure] if failure and failure not in notes else []
    return Found(sorted(findings, key=lambda each: order(each._asdict())), notes)
