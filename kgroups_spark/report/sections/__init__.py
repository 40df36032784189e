"""The figures of the page in order, and the sentences in place of empty ones: a file for each subject."""

from __future__ import annotations

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
