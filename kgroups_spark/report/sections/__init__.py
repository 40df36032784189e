"""The figures of the page in order, and the sentences in place of empty ones: a file for each subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroups_spark.report.figures import Section
from kgroups_spark.report.sections.expiring import expiring_section, if_empty_section
from kgroups_spark.report.sections.findings import findings_section
from kgroups_spark.report.sections.groups import each_group_sections, groups_section, migration_section
from kgroups_spark.report.sections.log import coverage_section, offsets_topic_section, quarantine_section
from kgroups_spark.report.sections.offset_events import moves_section, removals_section
from kgroups_spark.report.sections.rebalances import rebalances_section
from kgroups_spark.report.sections.share_groups import share_groups_section
from kgroups_spark.report.sections.shared import Answers
from kgroups_spark.report.sections.transactions import transactional_ids_section, transactions_section

# The queries in the order of the page, by the heading of the part that shows their answers.
QUESTIONS: Mapping[str, Sequence[str]] = {
    "The last audit": ("lake",),
    "Expiring offsets by day": ("expiring_by_day", "expiring_groups", "expiring_soon", "what_if_retention"),
    "Offsets lost at once if a group empties": ("if_empty",),
    "Open transactions": ("open_transactions",),
    "Transactions by name": ("transactional_states", "named_transactions", "aborted_by_coordinator"),
    "Share groups": ("share_partitions", "share_near_limit"),
    "Offsets rewound or skipped ahead": ("offset_moves", "events_by_day"),
    "Offsets and groups that were removed": ("removals",),
    "Findings": ("findings", "findings_by_kind"),
    "Groups": ("groups_now", "groups_by_day", "all_groups"),
    "Rebalances": ("rebalances_by_day", "rebalancing_groups", "slowest_members"),
    "Migration to the new protocol (KIP-848)": ("type_changes",),
    "The topic __consumer_offsets itself": ("offsets_partitions", "commits_by_day", "busiest_groups"),
    "Quarantine": ("quarantine",),
    "Coverage": ("coverage",),
    "Each group": ("group_offsets", "newest_events"),
}


def sections(answers: Answers) -> list[Section]:
    """All parts of the page, the urgent ones first."""
    return [
        expiring_section(answers),
        if_empty_section(answers),
        transactions_section(answers),
        transactional_ids_section(answers),
        share_groups_section(answers),
        moves_section(answers),
        removals_section(answers),
        findings_section(answers),
        groups_section(answers),
        rebalances_section(answers),
        migration_section(answers),
        offsets_topic_section(answers),
        quarantine_section(answers),
        coverage_section(answers),
        *each_group_sections(answers),
    ]
