"""The findings of the last audit, by kind and one by one."""

from __future__ import annotations

from kgroups_spark.counts import counted
from kgroups_spark.report.figures import Section, table
from kgroups_spark.report.sections.shared import GROUPS_BYTES, Answers


def findings_section(answers: Answers) -> Section:
    rows = answers["findings"]
    if not rows:
        nothing = "The last audit found nothing odd."
        if answers["lake"][0]["looked_by"] is None:
            nothing = "No audit has looked for findings yet; the next one will."
        return Section("findings", "Findings", [nothing])
    columns = (
        "severity Severity; finding Finding; group_id Group; topic- Topic; partition- Partition :count; "
        "since- Since (UTC) :time; detail! The problem, why it matters, what to do"
    )
    kinds = answers["findings_by_kind"]
    kind_columns = (
        "severity Severity; finding Finding; findings Findings :count; group_count Groups :count; "
        "since- Since (UTC) :time"
    )
    by_severity = {name: sum(row["severity"] == name for row in rows) for name in ("error", "warning", "notice")}
    said = [counted(count, name) for name, count in by_severity.items() if count]
    figures = [
        table("findings_by_kind", "Findings of the last audit by kind, errors first", kind_columns, kinds),
        table("findings", "All of them", columns, rows, budget_bytes=GROUPS_BYTES),
    ]
    return Section("findings", "Findings", [", ".join(said) + "."], figures)
