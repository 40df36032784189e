"""The topic itself: rate and bloat, records that could not be used, and the part of the log that was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kgroups_spark.counts import counted
from kgroups_spark.report.figures import Plot, Section, Table, table
from kgroups_spark.report.parts import Part, TableOf
from kgroups_spark.report.plots import AMBER, BLUE, Axes, numbered_chart, svg
from kgroups_spark.report.queries import Row, query
from kgroups_spark.report.sections.shared import DAYS, Answers, last_days_plot


def offsets_topic_section(answers: Answers) -> Section:
    heading = "The topic __consumer_offsets itself"
    rows = answers["offsets_partitions"]
    if not any(row["records"] for row in rows):
        return Section("offsets-topic", heading, ["No record was read."])
    records, live = sum(row["records"] for row in rows), sum(row["live_records"] for row in rows)
    sentence = (
        f"{records:,} records read, {live:,} of them ({live / records:.1%}) are still current; the others can be "
        "compacted away, tombstones and markers after their time."
    )
    current = [(row, 100 * row["live_records"] / (row["records"] or 1)) for row in rows]
    rates = [(row, row["commits_per_hour"] or 0) for row in rows]
    figures: list[Table | Plot] = [
        *_commits_by_day(answers),
        _partitions_plot(
            "current",
            "Records that are still current, in % of all records read, by partition",
            "% still current",
            current,
        ),
        _partitions_plot(
            "rates", "Offset commits an hour by partition, in its last 24 hours of log time", "commits an hour", rates
        ),
        _partitions_table(rows),
        *_busiest_groups(answers),
    ]
    return Section("offsets-topic", heading, [sentence], figures)


def _commits_by_day(answers: Answers) -> Iterator[Plot]:
    commits = [
        {"day": row["day"], "series": name, "value": row[column]}
        for row in answers["commits_by_day"]
        for name, column in (("plain", "plain_commits"), ("in transactions", "transactional_commits"))
    ]
    if commits:
        caption = f"Offset commits by day, in the {DAYS} days before the audit"
        series = [("plain", BLUE), ("in transactions", AMBER)]
        yield last_days_plot(answers, "commits_by_day", caption, commits, series, "commits_by_day", "commit")


def _partitions_plot(name: str, caption: str, unit: str, values: Iterable[tuple[Row, float]]) -> Plot:
    bars = [{"at": str(row["offsets_partition"]), "series": unit, "value": value} for row, value in values]
    chart = numbered_chart(bars, [(unit, BLUE)], Axes("partition", unit, None))
    return Plot(name, caption, svg(chart), [], query("offsets_partitions"))


def _partitions_table(rows: Sequence[Row]) -> Table:
    columns = (
        "offsets_partition Partition :count; commits_per_hour Commits an hour :rate; records Records :count; "
        "live_records Still current :count; records_per_live Records per current record :rate; "
        "tombstones- Tombstones :count; bytes- Size :bytes; open_transactions- Open transactions :count"
    )
    shown = [
        {**row, "records_per_live": row["records"] / row["live_records"] if row["live_records"] else None}
        for row in rows
    ]
    return table("offsets_partitions", "Rate and bloat by partition", columns, shown)


def _busiest_groups(answers: Answers) -> Iterator[Table]:
    columns = (
        "group_id Group; commits Commits :count; tombstones- Tombstones :count; other_records- Other records :count; "
        "bytes Size :bytes"
    )
    if answers["busiest_groups"]:
        caption = "The groups that wrote most, in the last 24 hours of log time (50 at most)"
        yield table("busiest_groups", caption, columns, answers["busiest_groups"])


quarantine_section = Part(
    "quarantine",
    "Quarantine",
    "quarantine",
    "Every record that was read could be used.",
    ["{quarantine_records:counted record} could not be used; the table quarantine keeps their bytes."],
    [
        TableOf(
            "quarantine",
            "Records that could not be used, by reason",
            "reason Reason; coordinator_fails Load would fail; entries Entries :count; records Records :count; "
            "partitions- Partitions :count; newest- Newest (UTC) :time; example-! Example",
        )
    ],
)


def coverage_section(answers: Answers) -> Section:
    rows = answers["coverage"]
    if not rows:
        return Section("coverage", "Coverage", ["No partition was read."])
    columns = (
        "offsets_partition Partition :count; first_log_offset First record :count; "
        "complete_from Complete from :count; read_to Read to :count; lost Lost :count; "
        "newest_log_timestamp- Newest record (UTC) :time"
    )
    gaps = sum(row["is_complete"] is False for row in rows)
    lost = sum(row["lost"] or 0 for row in rows)
    sentences = [
        f"History has every record of {len(rows) - gaps:,} of {counted(len(rows), 'partition')}, from the "
        "first one read"
        + ("." if not gaps else "; the others lack records that were compacted away before they were read.")
    ]
    if lost:
        sentences.append(f"{counted(lost, 'offset')} were compacted away before an audit read them: audit more often.")
    sentences += answers["lake"][0]["notes"] or []
    caption = "The part of each partition’s log that is in the tables, by log offset"
    figure = table("coverage", caption, columns, rows)
    return Section("coverage", "Coverage", sentences, [figure])
