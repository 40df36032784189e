"""The findings of the last audit, by kind and one by one."""

from __future__ import annotations

from kgroups_spark.counts import counted
from kgroups_spark.report.figures import Column, Section, table
from kgroups_spark.report.sections.shared import GROUP, GROUPS_BYTES, Answers


def findings_section(answers: Answers) -> Section:
    rows = answers["findings"]
    if not rows:
        nothing = "The last audit found nothing odd."
        if answers["lake"][0]["looked_by"] is None:
            nothing = "No audit has looked for findings yet; the next one will."
        return Section("findings", "Findings", [nothing])
    columns = [
        Column("severity", "Severity"),
        Column("finding", "Finding"),
        GROUP,
        Column("topic", "Topic", is_minor=True),
        Column("partition", "Partition", "count", is_minor=True),
        Column("since", "Since (UTC)", "time", is_minor=True),
        Column("detail", "The problem, why it matters, what to do", is_detail=True),
    ]
    kinds = answers["findings_by_kind"]
    kind_columns = [
        Column("severity", "Severity"),
        Column("finding", "Finding"),
        Column("findings", "Findings", "count"),
        Column("group_count", "Groups", "count"),
        Column("since", "Since (UTC)", "time", is_minor=True),
    ]
    by_severity = {name: sum(row["severity"] == name for row in rows) for name in ("error", "warning", "notice")}
    said = [counted(count, name) for name, count in by_severity.items() if count]
    figures = [
        table("findings_by_kind", "Findings of the last audit by kind, errors first", kind_columns, kinds),
        table("findings", "All of them", columns, rows, budget_bytes=GROUPS_BYTES),
    ]
    return Section("findings", "Findings", [", ".join(said) + "."], figures)
